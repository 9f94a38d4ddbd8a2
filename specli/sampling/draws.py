"""Randomness that is a function of what it is for: seed, position and purpose, never of how often it was asked."""

import enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from specli.sampling.distribution import BLOCK, Distribution

_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_BITS = 52  # of a uniform number: k + ½ over 2⁵² is exact, above 0 and below 1
_UNIT = 1.0 / (1 << _BITS)


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
    z = ((z ^ (z >> 30)) * _FACTORS[0]) & _MASK
    z = ((z ^ (z >> 27)) * _FACTORS[1]) & _MASK
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
        return ((self._key(purpose, position, offset) >> (64 - _BITS)) + 0.5) * _UNIT

    def accept(self, probability: float, position: int, offset: int) -> bool:
        """Return True with the given probability; certainties cost no draw."""
        return probability >= 1.0 or self._uniform(Purpose.ACCEPT, position, offset) < probability

    def choose(self, distribution: Distribution, purpose: Purpose, position: int, offset: int) -> int:
        """Draw a token by inverting the cumulative distribution."""
        if (only := distribution.only_token) is not None:
            return only
        return distribution.token_at(_invert(distribution, self._uniform(purpose, position, offset)))

    def race(self, distribution: Distribution, position: int) -> int:
        """Draw the winner of an exponential race: the Gumbel-max trick (Gumbel, 1954) without a second logarithm.

        The noise belongs to the position and the token id, so that two distributions share it (Gumbel coupling:
        Daliri, Musco and Suresh, 2024).
        """
        if (only := distribution.only_token) is not None:
            return only
        times = _exponential(self._key(Purpose.TOKEN, position, 0), distribution)
        with np.errstate(divide="ignore"):
            times /= distribution.weights
        return distribution.token_at(int(times.argmin()))


def _exponential(key: int, distribution: Distribution) -> npt.NDArray[np.float64]:
    """Exponential noise for every id of a distribution, a function of key and id alone (SplitMix64 in vectors)."""
    ids = distribution.ids
    z = np.arange(len(distribution.weights), dtype=np.uint64) if ids is None else ids.astype(np.uint64)
    z *= np.uint64(_GOLDEN)
    z += np.uint64(key)
    shifted = np.empty_like(z)
    for shift, factor in ((30, _FACTORS[0]), (27, _FACTORS[1])):
        z ^= np.right_shift(z, np.uint64(shift), out=shifted)
        z *= np.uint64(factor)
    z ^= np.right_shift(z, np.uint64(31), out=shifted)
    z >>= np.uint64(64 - _BITS)
    noise = z.astype(np.float64)
    noise += 0.5
    noise *= _UNIT
    np.log(noise, out=noise)
    return np.negative(noise, out=noise)


def _invert(distribution: Distribution, u: float) -> int:
    """The index at which the cumulative sum of the weights reaches the fraction ``u``, in (0, 1), of their total.

    In a long array the sums of blocks find the block first. Searching for the first sum that is not below a positive
    number never ends at a weight of 0.
    """
    if len(distribution.weights) <= BLOCK:
        cumulative = distribution.weights.cumsum(dtype=np.float64)
        return int(cumulative.searchsorted(u * cumulative[-1]))
    sums = distribution.block_sums
    cumulative = sums.cumsum()
    wanted = u * float(cumulative[-1])
    block = int(cumulative.searchsorted(wanted))
    fraction = (wanted - float(cumulative[block] - sums[block])) / float(sums[block])
    start = block * BLOCK
    cumulative = distribution.weights[start : start + BLOCK].cumsum(dtype=np.float64)
    return start + int(cumulative.searchsorted(min(max(fraction, _UNIT), 1.0) * cumulative[-1]))
