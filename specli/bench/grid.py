"""The points of a sweep: every combination of the settings to compare, and plain decoding for each."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from specli.drafters.names import MTP, TRAINED
from specli.errors import UsageError

_RANGE = re.compile(r"(\d+)-(\d+)(?::(\d+))?")


@dataclass(frozen=True)
class Placement:
    """What needs contexts of its own.

    Attributes:
        threads: CPU threads; None: what the target's options say.
        cache_type: Of the KV cache, keys and values; None: likewise.
    """

    threads: int | None = None
    cache_type: str | None = None


@dataclass(frozen=True)
class Point:
    """One setting.

    Attributes:
        placement: Where and how the models run.
        temperature: Of the sampling.
        n_max: The most tokens a round drafts; 0: plain decoding; None: automatic.
        draft: The draft model, where one drafts.
        drafters: Who drafts; none in plain decoding.
        verification: Above temperature 0.
    """

    placement: Placement
    temperature: float
    n_max: int | None = 0
    draft: Path | None = None
    drafters: tuple[str, ...] = ()
    verification: str = "block"


@dataclass(frozen=True)
class Grid:
    """The values of every axis.

    Attributes:
        n_max: Draft lengths, without 0.
        drafts: Draft models, and as what each drafts.
        has_heads: Whether the target has heads for further tokens.
        drafters: Choices of drafters; None: what ``specli run`` would take.
        lookups: What of them needs no draft model.
        temperatures: Likewise.
        verifications: Likewise.
        placements: Likewise.
    """

    n_max: Sequence[int | None]
    drafts: Mapping[Path, str]
    has_heads: bool
    drafters: Sequence[tuple[str, ...] | None]
    lookups: tuple[str, ...]
    temperatures: Sequence[float]
    verifications: Sequence[str]
    placements: Sequence[Placement]

    def points(self) -> list[Point]:
        """All points, none twice; after plain decoding those that are compared with it.

        A point that no draft model takes part in is the same with each of them, and at temperature 0 with each
        verification.
        """
        return list(dict.fromkeys(self._points()))

    def _points(self) -> Iterator[Point]:
        for placement, temperature in product(self.placements, self.temperatures):
            plain = Point(placement, temperature)
            yield plain
            for choice, draft, verification, n_max in product(
                self.drafters, self.drafts or (None,), self.verifications, self.n_max
            ):
                drafters = self._default_drafters(n_max, draft) if choice is None else choice
                if set(drafters) & set(TRAINED) - set(self._trained(draft)):
                    continue  # another draft takes part in this choice
                yield Point(
                    placement,
                    temperature,
                    n_max,
                    draft if draft and self.drafts[draft] in drafters else None,
                    drafters,
                    verification if temperature > 0.0 else plain.verification,
                )

    def _default_drafters(self, n_max: int | None, draft: Path | None) -> tuple[str, ...]:
        trained = self._trained(draft)
        if n_max is None:
            return (*self.lookups, *trained)
        return trained[-1:] or self.lookups

    def _trained(self, draft: Path | None) -> tuple[str, ...]:
        """What can be asked with a draft beside lookups: heads of the target, and the draft itself, last."""
        heads = [MTP] if self.has_heads else []
        return tuple(dict.fromkeys([*heads, *([self.drafts[draft]] if draft else [])]))


def parse_n_max(text: str) -> list[int | None]:
    """Read a list of draft lengths: numbers, ranges such as 1-16, with steps 2-16:2, and 'auto' (None).

    Raises:
        UsageError: It is none.
    """
    values: list[int | None] = []
    for part in text.split(","):
        if part == "auto":
            values.append(None)
        elif part.isdecimal():
            values.append(_length(part))
        elif match := _RANGE.fullmatch(part):
            first, last, step = (_length(number) for number in (match[1], match[2], match[3] or "1"))
            if step == 0:
                raise UsageError(f"--n-max {part}: a step of 0")
            if first > last:
                raise UsageError(f"--n-max {part}: an empty range")
            values += range(first, last + 1, step)
        else:
            raise UsageError(f"--n-max {part}: not a number, a range such as 1-16 or 2-16:2, or auto")
    return list(dict.fromkeys(values))


def _length(digits: str) -> int:
    if len(digits) > 5:
        raise UsageError(f"--n-max {digits[:12]}…: far too many tokens for one draft")
    return int(digits)


def parse_numbers(flag: str, text: str) -> list[float]:
    """Read a list of numbers.

    Raises:
        UsageError: It is none.
    """
    try:
        return list(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"{flag} {text}: not a list of numbers, such as 0,0.8") from None
