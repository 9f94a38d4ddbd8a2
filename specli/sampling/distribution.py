"""A probability distribution over token ids: the ids that can be drawn and their weights."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.intp]
Weights = npt.NDArray[np.floating]

BLOCK = 128  # weights that are summed together


@dataclass(frozen=True, eq=False)
class Distribution:
    """Weights of some token ids, proportional to their probabilities; every other id has probability 0.

    Weights are divided by their sum only where a probability is asked for: a pass over a whole vocabulary that mostly
    nobody needs.

    Attributes:
        ids: intp, shape (n,), ascending; None where they are 0 … n−1.
        weights: float, shape (n,), none negative, some positive.
    """

    ids: TokenIds | None
    weights: Weights

    @staticmethod
    def one_hot(token: int) -> "Distribution":
        """All probability on one token."""
        return Distribution(np.array([token], np.intp), _ONE)

    @cached_property
    def block_sums(self) -> npt.NDArray[np.float64]:
        """Sums of blocks of ``BLOCK`` weights, the last of them shorter or 0; float64, shape (n // BLOCK + 1,).

        One quick pass, and their sum is more precise than one taken in single precision.
        """
        n_blocks = len(self.weights) // BLOCK
        sums = np.empty(n_blocks + 1)
        if n_blocks:
            sums[:-1] = np.einsum("ij->i", self.weights[: n_blocks * BLOCK].reshape(n_blocks, BLOCK))
        sums[-1] = self.weights[n_blocks * BLOCK :].sum()
        return sums

    @cached_property
    def total(self) -> float:
        """The sum of all weights."""
        return float((self.weights if len(self.weights) <= BLOCK else self.block_sums).sum())

    @property
    def probabilities(self) -> Weights:
        """Float, shape (n,), summing to 1 within rounding."""
        return self.weights / self.total

    @property
    def max(self) -> float:
        """The largest probability."""
        return float(self.weights.max()) / self.total

    @property
    def only_token(self) -> int | None:
        """The one token that can be drawn, or None where there are several."""
        if len(self.weights) > 1:
            return None
        return 0 if self.ids is None else int(self.ids[0])

    def probability(self, token: int) -> float:
        """The probability of a token."""
        if self.ids is None:
            return float(self.weights[token]) / self.total if token < len(self.weights) else 0.0
        i = int(np.searchsorted(self.ids, token))
        return float(self.weights[i]) / self.total if i < len(self.ids) and self.ids[i] == token else 0.0

    def token_at(self, index: int) -> int:
        """The token id at an index of ``weights``."""
        return index if self.ids is None else int(self.ids[index])

    def weights_over(self, other: "Distribution") -> Weights:
        """Weights of the ids that ``other`` lists, in its order; shape of ``other.weights``."""
        n = len(other.weights)
        if self.ids is None:
            if other.ids is None:
                mine = self.weights[:n]
                return mine if len(mine) == n else np.pad(mine, (0, n - len(mine)))
            inside = other.ids < len(self.weights)
            return np.where(inside, self.weights[np.where(inside, other.ids, 0)], 0.0)
        result = np.zeros(n)
        if other.ids is None:
            inside = self.ids < n
            result[self.ids[inside]] = self.weights[inside]
            return result
        places = np.searchsorted(self.ids, other.ids)
        places[places == len(self.ids)] = 0
        found = self.ids[places] == other.ids
        result[found] = self.weights[places[found]]
        return result


_ONE = np.ones(1)
