"""The settings of a conversation that /set changes."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from specli.decoding.options import GenerationOptions
from specli.drafters.names import NAMES
from specli.errors import UsageError
from specli.sampling.verification import VERIFICATIONS


@dataclass(frozen=True)
class Setting:
    """One of them.

    Attributes:
        name: As the command line's flag.
        accepts: What values there are, in words.
        shown: Its value.
        changed: The options with another value; a ValueError where it means nothing.
    """

    name: str
    accepts: str
    shown: Callable[[GenerationOptions], str]
    changed: Callable[[GenerationOptions, str], GenerationOptions]


def change(options: GenerationOptions, name: str, value: str) -> GenerationOptions:
    """The options with one setting changed.

    Raises:
        UsageError: Saying what there is, or what the setting accepts.
    """
    setting = SETTINGS.get(name.removeprefix("--"))
    if setting is None:
        raise UsageError(f"/set {name}: no such setting", f"There are {', '.join(SETTINGS)}.")
    try:
        changed = setting.changed(options, value)
        changed.check()
    except ValueError:
        raise UsageError(f"/set {name} {value}: not {setting.accepts}") from None
    return changed


def hindrance(options: GenerationOptions, name: str) -> str | None:
    """Why nothing is drafted although the setting that was changed last asks for it; None: something is."""
    name = name.removeprefix("--")
    if name == "n-max" and options.n_max != 0 and options.drafters == ():
        return "nothing is drafted while drafter is none; /set drafter default"
    if name == "drafter" and options.n_max == 0 and options.drafters != ():
        return "nothing is drafted while n-max is 0; /set n-max auto"
    return None


def _field(name: str, field: str, kind: Callable[[str], Any], accepts: str) -> Setting:
    """A setting that is a field of the options."""
    return Setting(
        name,
        accepts,
        lambda options: str(getattr(options, field)),
        lambda options, text: replace(options, **{field: kind(text)}),
    )


def _sampling(name: str, field: str, kind: Callable[[str], Any], accepts: str) -> Setting:
    """A setting that is a field of the sampling options."""
    return Setting(
        name,
        accepts,
        lambda options: str(getattr(options.sampling, field)),
        lambda options, text: replace(options, sampling=replace(options.sampling, **{field: kind(text)})),
    )


def _verification(text: str) -> str:
    if text not in VERIFICATIONS:
        raise ValueError(text)
    return text


def _with_n_max(options: GenerationOptions, text: str) -> GenerationOptions:
    n_max = None if text == "auto" else int(text)
    return replace(options, n_max=n_max, n_min=0 if n_max == 0 else options.n_min)


def _with_drafters(options: GenerationOptions, text: str) -> GenerationOptions:
    drafters = {"default": None, "none": ()}.get(text, tuple(text.split(",")))
    if not set(drafters or ()) <= set(NAMES):
        raise ValueError(text)
    return replace(options, drafters=drafters)


def _with_seed(options: GenerationOptions, text: str) -> GenerationOptions:
    seed = int(text)
    return replace(options, seed=seed if seed >= 0 else secrets.randbits(32), repeatable=seed >= 0)


def _drafters_shown(options: GenerationOptions) -> str:
    return "default" if options.drafters is None else ",".join(options.drafters) or "none"


_OFF = "a number; 0 or less: off"

SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "n-max",
            "auto, 0 (plain decoding) or a number of tokens",
            lambda options: "auto" if options.n_max is None else str(options.n_max),
            _with_n_max,
        ),
        Setting("drafter", f"default, none, or some of {', '.join(NAMES)}", _drafters_shown, _with_drafters),
        _field("verification", "verification", _verification, f"one of {', '.join(VERIFICATIONS)}"),
        _field("n-min", "n_min", int, "a number of tokens, at most n-max"),
        _field("p-min", "p_min", float, "a probability, 0 to 1"),
        Setting(
            "draft-temp",
            "default (as temp) or a number",
            lambda options: "default" if options.draft_temperature is None else str(options.draft_temperature),
            lambda options, text: replace(options, draft_temperature=None if text == "default" else float(text)),
        ),
        _sampling("temp", "temperature", float, "a number; 0: always the most likely token"),
        _sampling("top-k", "top_k", int, _OFF),
        _sampling("top-p", "top_p", float, "a number; 1 or more: off"),
        _sampling("min-p", "min_p", float, _OFF),
        _sampling("repeat-last-n", "repeat_last_n", int, "a number of tokens; 0: off, -1: all"),
        _sampling("repeat-penalty", "repeat_penalty", float, "a number; 1: off"),
        _sampling("presence-penalty", "presence_penalty", float, "a number; 0: off"),
        _sampling("frequency-penalty", "frequency_penalty", float, "a number; 0: off"),
        Setting("seed", "a number; below 0: a random one", lambda options: str(options.seed), _with_seed),
        _field("n-predict", "n_predict", int, "a number of tokens, or -1: to the end or the full context"),
    )
}
"""All of them by name, as /set lists them."""
