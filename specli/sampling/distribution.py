"""A probability distribution over token ids: the ids that can be drawn and their probabilities."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.intp]
Probabilities = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Distribution:
    """Probabilities of some token ids; every other id has probability 0.

    Attributes:
        ids: intp, shape (n,), ascending; None where they are 0 … n−1.
        probabilities: float, shape (n,), summing to 1 within rounding.
    """

    ids: TokenIds | None
    probabilities: Probabilities

    @staticmethod
    def one_hot(token: int) -> "Distribution":
        """All probability on one token."""
        return Distribution(np.array([token], np.intp), _ONE)

    @property
    def max(self) -> float:
        """The largest probability."""
        return float(self.probabilities.max())

    @property
    def only_token(self) -> int | None:
        """The one token that can be drawn, or None where there are several."""
        if len(self.probabilities) > 1:
            return None
        return 0 if self.ids is None else int(self.ids[0])

    def probability(self, token: int) -> float:
        """The probability of a token."""
        if self.ids is None:
            return float(self.probabilities[token]) if token < len(self.probabilities) else 0.0
        i = int(np.searchsorted(self.ids, token))
        return float(self.probabilities[i]) if i < len(self.ids) and self.ids[i] == token else 0.0

    def token_at(self, index: int) -> int:
        """The token id at an index of ``probabilities``."""
        return index if self.ids is None else int(self.ids[index])

    def over(self, other: "Distribution") -> Probabilities:
        """Probabilities of the ids that ``other`` lists, in its order; shape of ``other.probabilities``."""
        n = len(other.probabilities)
        if self.ids is None:
            if other.ids is None:
                mine = self.probabilities[:n]
                return mine if len(mine) == n else np.pad(mine, (0, n - len(mine)))
            inside = other.ids < len(self.probabilities)
            return np.where(inside, self.probabilities[np.where(inside, other.ids, 0)], 0.0)
        result = np.zeros(n)
        if other.ids is None:
            inside = self.ids < n
            result[self.ids[inside]] = self.probabilities[inside]
            return result
        places = np.searchsorted(self.ids, other.ids)
        places[places == len(self.ids)] = 0
        found = self.ids[places] == other.ids
        result[found] = self.probabilities[places[found]]
        return result


_ONE = np.ones(1)
