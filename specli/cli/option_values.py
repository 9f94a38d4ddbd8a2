"""Values of options that are more than a word: parsed, or refused with the flag's name."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

from specli.errors import UsageError
from specli.llama.options import ALL_LAYERS


def layers(flag: str, text: str | None) -> int:
    """A number of layers, or all of them."""
    if text is None or text in ("all", "auto"):
        return ALL_LAYERS
    if not text.isdigit():
        raise UsageError(f"{flag}: {text!r} is neither a number of layers nor 'all'")
    return int(text)


def device_names(text: str | None) -> tuple[str, ...] | None:
    """Names of devices; None: not said, (): none."""
    if text is None:
        return None
    return () if text == "none" else tuple(name.strip() for name in text.split(","))


def proportions(text: str | None) -> tuple[float, ...]:
    """Proportions, separated by commas or slashes."""
    try:
        parts = tuple(float(part) for part in text.replace("/", ",").split(",")) if text else ()
    except ValueError:
        raise UsageError(f"-ts: {text!r} is not a list of numbers, such as 3,1") from None
    if any(part < 0 or not math.isfinite(part) for part in parts):
        raise UsageError(f"-ts: {text!r} has a part that is not a positive number")
    return parts


def thread_count(n: int | None) -> int | None:
    """A number of threads; none given, or llama.cpp's −1, is the default."""
    return n if n and n > 0 else None


def split_commas(texts: list[str] | None) -> Iterator[str]:
    """The parts of comma-separated values."""
    for text in texts or ():
        yield from (part for part in text.split(",") if part)


def tensor_overrides(flag: str, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
    """(pattern, buffer type) pairs."""
    pairs = []
    for text in split_commas(texts):
        pattern, equals, buffer_type = text.rpartition("=")
        if not equals or not pattern:
            raise UsageError(f"{flag}: {text!r} is not PATTERN=BUFFER, such as '.*_exps.*=CPU'")
        pairs.append((pattern, buffer_type))
    return tuple(pairs)


def scaled_adapters(texts: list[str] | None) -> Iterator[tuple[Path, float]]:
    """(file, scale) pairs."""
    for text in split_commas(texts):
        name, _, scale = text.rpartition(":")
        try:
            yield Path(name), float(scale)
        except ValueError:
            raise UsageError(f"--lora-scaled: {text!r} is not FILE:SCALE") from None


def logit_bias(text: str) -> tuple[int, float]:
    """A (token id, bias) pair."""
    match = re.fullmatch(r"(\d+)([+-](?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|-inf)", text)
    if not match:
        raise UsageError(f"-l: {text!r} is not TOKEN_ID(+/-)BIAS, such as 15043-1.5")
    return int(match[1]), float(match[2])


def duration(flag: str, text: str) -> float:
    """Seconds, from a time such as 90s, 20m or 1.5h."""
    unit = _UNITS.get(text[-1:])
    try:
        seconds = float(text[:-1] if unit else text) * (unit or 1.0)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < math.inf:
        raise UsageError(f"{flag}: {text!r} is not a time, such as 90s, 20m or 1.5h")
    return seconds


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def switch(flag: str, text: str) -> str:
    """'on', 'off' or 'auto', in any of the words that llama.cpp takes for them."""
    for meaning, words in _SWITCHES.items():
        if text in words:
            return meaning
    raise UsageError(f"{flag}: {text!r} is not one of on, off, auto")


_SWITCHES = {"on": ("on", "enabled", "true", "1"), "off": ("off", "disabled", "false", "0"), "auto": ("auto", "-1")}
