"""Randomness that is a function of what it is for: seed, position and purpose, never of how often it was asked."""

import enum
from typing import Protocol

import numpy as np

from specli.sampling.distribution import Distribution

_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
_UNIT = 1.0 / (1 << 53)


class Purpose(enum.IntEnum):
    """What a draw decides; draws of different purposes are independent."""

    TOKEN = 1
    DRAFT = 2
    ACCEPT = 3
    RESIDUAL = 4


class Draws(Protocol):
    """Where the loop's random decisions come from.

    ``position`` is the place in the whole sequence where a round's first token goes, ``offset`` counts from there. A
    round's draws are keyed by both: after a rejection the next round begins further on, so nothing it draws was seen
    before. (Keying by position + offset alone would hand block verification draws that earlier rounds looked at.)
    """

    def accept(self, probability: float, position: int, offset: int) -> bool:
        """Return True with the given probability."""

    def choose(self, distribution: Distribution, purpose: Purpose, position: int, offset: int) -> int:
        """Draw a token."""

    def race(self, distribution: Distribution, position: int) -> int:
        """Draw a token with the noise of a position, which every distribution raced there shares.

        Two distributions that are close then mostly draw the same token.
        """


def _mix(z: int) -> int:
    """SplitMix64's finaliser (Steele, Lea and Flood, 2014)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class SeededDraws:
    """Draws from a counter-based generator (Salmon et al., 2011, with SplitMix64 as the mixing function).

    Args:
        seed: Any integer; the same seed gives the same draws.
    """

    def __init__(self, seed: int) -> None:
        self._seed = _mix((seed + _GOLDEN) & _MASK)

    def _key(self, purpose: Purpose, position: int, offset: int) -> int:
        key = self._seed
        for part in (purpose, position, offset):
            key = _mix((key + _GOLDEN * (part + 1)) & _MASK)
        return key

    def _uniform(self, purpose: Purpose, position: int, offset: int) -> float:
        """A uniform number in (0, 1)."""
        return ((self._key(purpose, position, offset) >> 11) + 0.5) * _UNIT

    def accept(self, probability: float, position: int, offset: int) -> bool:
        """Return True with the given probability; certainties cost no draw."""
        return probability >= 1.0 or self._uniform(Purpose.ACCEPT, position, offset) < probability

    def choose(self, distribution: Distribution, purpose: Purpose, position: int, offset: int) -> int:
        """Draw a token by inverting the cumulative distribution."""
        if (only := distribution.only_token) is not None:
            return only
        cumulative = distribution.probabilities.cumsum(dtype=np.float64)
        u = self._uniform(purpose, position, offset) * cumulative[-1]
        return distribution.token_at(int(np.searchsorted(cumulative, u, side="right")))

    def race(self, distribution: Distribution, position: int) -> int:
        """Draw the winner of an exponential race: the Gumbel-max trick (Gumbel, 1954) without a second logarithm.

        The noise belongs to the position and the token id, so that two distributions share it (Gumbel coupling:
        Daliri, Musco and Suresh, 2024).
        """
        if (only := distribution.only_token) is not None:
            return only
        ids = distribution.ids if distribution.ids is not None else np.arange(len(distribution.probabilities))
        z = ids.astype(np.uint64)
        z *= np.uint64(_GOLDEN)
        z += np.uint64(self._key(Purpose.TOKEN, position, 0))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z ^= z >> np.uint64(shift)
            z *= np.uint64(factor)
        z ^= z >> np.uint64(31)
        u = ((z >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIT
        with np.errstate(divide="ignore"):
            return int(ids[np.argmin(-np.log(u) / distribution.probabilities)])
