"""Whether texts come from a known distribution: chi-square over positions and pairs, its critical value by simulation.

All tests of one sample are taken together by their largest standardised statistic, whose distribution is simulated
(a Monte Carlo test: Barnard, 1963), so that the number of tests needs no correction. Rare texts are pooled.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specli.proof.enumeration import Law

_SUSPICION = 0.01  # below it a sample _LARGER times as large decides
_LEVEL = 0.001
_LARGER = 4
_SIMULATED = 4999
_LEAST_EXPECTED = 5.0  # counts of a cell
_SIMULATED_FOR_POWER = 500
_POWER = 0.99


@dataclass(frozen=True)
class Goodness:
    """How well texts fit.

    Attributes:
        n_runs: How many texts.
        p_value: How often texts of the right distribution would fit worse.
        differs: Whether that is too rare to be chance.
        visible_bias: By how much a token's probability would have to be off to be noticed 99 times in 100; None: no
            bias would be.
    """

    n_runs: int
    p_value: float
    differs: bool
    visible_bias: float | None


def test_texts(write: Callable[[int], tuple[int, ...]], laws: Sequence[Law], n_runs: int) -> Goodness:
    """Write texts with the seeds 0, 1, …, and test them; a suspicion is tested anew with more and other seeds.

    Args:
        write: Writes the text of a seed.
        laws: The distribution it should have; several where computing it in several ways gives several: it must fit
            one of them.
        n_runs: How many, at first.
    """
    testers = [_Tester(law) for law in laws]

    def p_value(seeds: range) -> float:
        counts = Counter(write(seed) for seed in seeds)
        return max(tester.p_value(counts, len(seeds)) for tester in testers)

    p = p_value(range(n_runs))
    if p >= _SUSPICION:
        return Goodness(n_runs, p, False, testers[0].visible_bias(n_runs))
    larger = _LARGER * n_runs
    p = p_value(range(n_runs, n_runs + larger))
    return Goodness(larger, p, p < _LEVEL, testers[0].visible_bias(larger))


class _Tester:
    """Chi-squares of a sample of texts: at every position, every two neighbours, and whole texts.

    Args:
        law: The distribution the texts should have.
    """

    def __init__(self, law: Law) -> None:
        self._texts = sorted(text for text, probability in law.items() if probability > 0.0)
        self._probabilities = np.array([law[text] for text in self._texts])
        self._probabilities /= self._probabilities.sum()
        n_tokens = max(map(len, self._texts))
        parts = [slice(i, i + length) for length in (1, 2) for i in range(n_tokens - length + 1)]
        self._groups = [_membership([text[part] for text in self._texts]) for part in parts]
        self._groups.append(np.eye(len(self._texts)))
        self._pooled: dict[int, list[npt.NDArray[np.float64]]] = {}  # by the number of runs, as the next
        self._null: dict[int, npt.NDArray[np.float64]] = {}

    def p_value(self, counts: Counter[tuple[int, ...]], n_runs: int) -> float:
        """How often a sample of the law would fit worse than this one; 0 where it has a text the law has not."""
        if set(counts) - set(self._texts):
            return 0.0
        sample = np.array([[counts[text] for text in self._texts]])
        as_extreme = self._null_statistics(n_runs) >= self._statistics(sample, n_runs)[0]
        return float((1 + as_extreme.sum()) / (1 + _SIMULATED))

    def visible_bias(self, n_runs: int) -> float | None:
        """By how much the first token's likeliest value must be off, to be noticed in 99 of 100 samples."""
        critical = float(np.quantile(self._null_statistics(n_runs), 1.0 - _LEVEL))
        first = np.array([text[0] for text in self._texts])
        by_token = {token: self._probabilities[first == token].sum() for token in set(first.tolist())}
        likeliest = max(by_token, key=lambda token: by_token[token])
        chance = float(by_token[likeliest])
        if chance >= 1.0:
            return None
        bias = 0.5 / np.sqrt(n_runs)
        while bias < chance:
            scale = np.where(first == likeliest, 1.0 - bias / chance, 1.0 + bias / (1.0 - chance))
            biased = self._simulate(self._probabilities * scale, n_runs, _SIMULATED_FOR_POWER)
            if (self._statistics(biased, n_runs) > critical).mean() >= _POWER:
                return float(bias)
            bias *= 1.1
        return None

    def _null_statistics(self, n_runs: int) -> npt.NDArray[np.float64]:
        """Those of simulated samples of the law, shape (_SIMULATED,)."""
        if n_runs not in self._null:
            samples = self._simulate(self._probabilities, n_runs, _SIMULATED)
            self._null[n_runs] = self._statistics(samples, n_runs)
        return self._null[n_runs]

    def _groups_for(self, n_runs: int) -> list[npt.NDArray[np.float64]]:
        """The groups with rare parts pooled: one unlikely text must not outweigh all others."""
        if n_runs not in self._pooled:
            pooled = [_pool(members, n_runs * (self._probabilities @ members)) for members in self._groups]
            self._pooled[n_runs] = [members for members in pooled if members.shape[1] > 1]
        return self._pooled[n_runs]

    @staticmethod
    def _simulate(probabilities: npt.NDArray[np.float64], n_runs: int, n_samples: int) -> npt.NDArray[np.int64]:
        rng = np.random.default_rng(0)
        return rng.multinomial(n_runs, probabilities / probabilities.sum(), size=n_samples)

    def _statistics(self, samples: npt.NDArray[np.int64], n_runs: int) -> npt.NDArray[np.float64]:
        """The largest standardised chi-square of each sample, shape (n_samples,)."""
        largest = np.full(len(samples), -np.inf)
        for members in self._groups_for(n_runs):
            expected = n_runs * (self._probabilities @ members)
            square = (((samples @ members) - expected) ** 2 / expected).sum(axis=1)
            freedom = max(1, members.shape[1] - 1)
            largest = np.maximum(largest, (square - freedom) / np.sqrt(2.0 * freedom))
        return largest


def _pool(members: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Put all parts that are expected too rarely into one."""
    rare = expected < _LEAST_EXPECTED
    if not rare.any():
        return members
    return np.column_stack([members[:, ~rare], members[:, rare].sum(axis=1)])


def _membership(parts: Sequence[tuple[int, ...]]) -> npt.NDArray[np.float64]:
    """Which text has which part, shape (n_texts, n_parts)."""
    distinct = sorted(set(parts))
    return np.array([[float(part == one) for one in distinct] for part in parts])
