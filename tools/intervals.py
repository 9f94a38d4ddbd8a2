"""Ratios of figures measured in turn, and how sure they are: bootstrap intervals (Efron, 1979)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
Figures = npt.NDArray[np.float64]
"""One figure of every run, shape (n_prompts, n_rounds)."""


class Estimate(NamedTuple):
    """A figure and its bootstrap 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} … {self.high:.3f})"


def median_ratio(a: Figures, b: Figures) -> Estimate:
    """The median over all pairs of a run of ``a`` and the run of ``b`` beside it."""
    ratios = a / b
    return _estimate(float(np.median(ratios)), np.median(ratios[_resampled(a.shape)], axis=(1, 2)))


def pooled_ratio(a: tuple[Figures, Figures], b: tuple[Figures, Figures]) -> Estimate:
    """The ratio of two rates, each the sum of its first array over the sum of its second."""
    rate_a, rate_b = (float(count.sum() / per.sum()) for count, per in (a, b))
    chosen = _resampled(a[0].shape)
    rates = [count[chosen].sum((1, 2)) / per[chosen].sum((1, 2)) for count, per in (a, b)]
    return _estimate(rate_a / rate_b, rates[0] / rates[1])


def _resampled(shape: tuple[int, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Indices of bootstrap samples: prompts drawn with replacement, and within each of them its rounds.

    Rounds of one prompt resemble each other, so that to draw from all runs alike would promise too much.
    """
    rng = np.random.default_rng(0)
    n_prompts, n_rounds = shape
    prompts = rng.integers(n_prompts, size=(RESAMPLES, n_prompts, 1))
    return prompts, rng.integers(n_rounds, size=(RESAMPLES, n_prompts, n_rounds))


def _estimate(value: float, resampled: Figures) -> Estimate:
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Estimate(value, float(low), float(high))
