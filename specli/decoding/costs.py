"""What decoding costs here: the target's forward pass by its width, a draft step, and reading."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_LEARN = 0.1  # of what an observation differs
_LARGEST_STEP = math.log(1.5)  # an observation further off is a hiccup, or to be believed slowly
_READ_SHARE = 0.1  # of a draft step, for a token read in a batch, until measured


class CostCurve:
    """Seconds of a forward pass by the number of its tokens: measured at some widths, interpolated between.

    An observation corrects its own width, and half as much all others: contexts grow and machines slow down for all
    widths together. One of width 1, of which there are many where nothing pays, corrects all alike: what pays is a
    matter of proportions, which plain decoding tells nothing about. Beyond the widest known width time grows in
    proportion.

    Args:
        seconds: By width; at least width 1.
    """

    def __init__(self, seconds: Mapping[int, float]) -> None:
        self._seconds = dict(sorted(seconds.items()))
        self._first = self._seconds[1]
        self._weights: dict[int, _Weights] = {}

    @property
    def overestimate(self) -> float:
        """By which factor a pass over one token takes less time than was known at first; below 1: more."""
        return self._first / self._seconds[1]

    @property
    def known(self) -> dict[int, float]:
        """Seconds by width, where they were measured."""
        return dict(self._seconds)

    def seconds(self, width: int) -> float:
        """The expected time of a forward pass over ``width`` tokens, at least 1."""
        if width not in self._weights:
            self._weights[width] = self._interpolation(width)
        below, weight_below, above, weight_above = self._weights[width]
        return self._seconds[below] * weight_below + self._seconds[above] * weight_above

    def observe(self, width: int, seconds: float) -> None:
        """Learn from a forward pass."""
        before = self.seconds(width)
        step = _correction(seconds, before)
        if width not in self._seconds:
            self._seconds = dict(sorted({**self._seconds, width: before}.items()))
            self._weights.clear()
        others = math.exp(step if width == 1 else 0.5 * step)
        for known in self._seconds:
            self._seconds[known] *= others
        self._seconds[width] = before * math.exp(step)

    def _interpolation(self, width: int) -> "_Weights":
        if width in self._seconds:
            return _Weights(width, 1.0, width, 0.0)
        below = max((known for known in self._seconds if known < width), default=None)
        above = min((known for known in self._seconds if known > width), default=None)
        if below is None:
            raise ValueError("a forward pass has at least one token")
        if above is None:
            return _Weights(below, width / below, below, 0.0)
        share = (width - below) / (above - below)
        return _Weights(below, 1.0 - share, above, share)


class _Weights(NamedTuple):
    """How a width's time follows from those of the known widths beside it."""

    below: int
    weight_below: float
    above: int
    weight_above: float


@dataclass
class Costs:
    """What the parts of a round cost.

    Attributes:
        target: The target's forward pass.
        step_seconds: By drafter, of one drafted token; lookups cost nothing worth counting.
        read_seconds: By drafter, of one token of context read in a batch.
        save_seconds: Of remembering the target's state before it verifies a draft, where its memory cannot be cut: then
            what it accepted of a rejected draft is computed again. 0: it can be cut.
        frozen: Learn nothing more, so that a run repeats.
    """

    target: CostCurve
    step_seconds: dict[str, float] = field(default_factory=dict)
    read_seconds: dict[str, float] = field(default_factory=dict)
    save_seconds: float = 0.0
    frozen: bool = False

    def step(self, drafter: str) -> float:
        """Seconds of one drafted token."""
        return self.step_seconds.get(drafter, 0.0)

    def read(self, drafter: str, n_tokens: int) -> float:
        """Seconds of reading tokens of the context."""
        return n_tokens * self.read_seconds.get(drafter, _READ_SHARE * self.step(drafter))

    def rollback(self, n_accepted: float) -> float:
        """Seconds of taking a rejected draft back, of which so many tokens were accepted."""
        return self.target.seconds(1 + round(n_accepted)) if self.save_seconds else 0.0

    def observe(self, width: int, seconds: float) -> None:
        """Learn from a forward pass of the target.

        What drafts cost keeps its proportion to a token decoded plainly: a machine that something else slows down would
        else make look cheap what nobody has seen it do since.
        """
        if self.frozen:
            return
        plain = self.target.seconds(1)
        self.target.observe(width, seconds)
        factor = self.target.seconds(1) / plain
        self.save_seconds *= factor
        for known in (self.step_seconds, self.read_seconds):
            known.update({drafter: before * factor for drafter, before in known.items()})

    def observe_steps(self, drafter: str, n_steps: int, seconds: float) -> None:
        """Learn from drafting."""
        if not self.frozen and n_steps and (before := self.step(drafter)):
            self.step_seconds[drafter] *= math.exp(_correction(seconds / n_steps, before))


def _correction(observed: float, expected: float) -> float:
    """The logarithm of the factor by which an expected time is corrected."""
    step = math.log(observed / expected)
    return _LEARN * max(-_LARGEST_STEP, min(step, _LARGEST_STEP))
