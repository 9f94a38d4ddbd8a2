"""Figures measured in turn, and how sure they are: bootstrap intervals (Efron, 1979)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES = 2_000
Figures = npt.NDArray[np.float64]
"""One figure of every run, shape (n_prompts, n_rounds)."""


Resampled = Callable[[npt.NDArray[np.int64]], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
"""Indices of bootstrap samples, prompts and rounds, by each prompt's number of rounds."""


class Estimate(NamedTuple):
    """A figure and its bootstrap 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} … {self.high:.3f})"


def median_estimate(figures: Sequence[Sequence[float]]) -> Estimate:
    """The median over all runs, every prompt counting alike.

    Args:
        figures: By prompt, then by round; prompts may have different numbers of rounds, at least one.
    """
    return _median_estimate(figures, _resampled)


def noise_estimate(figures: Sequence[Sequence[float]]) -> Estimate:
    """The same median, and how far another measurement of the very same prompts may be off: only rounds are drawn."""
    return _median_estimate(figures, _resampled_rounds)


def _median_estimate(figures: Sequence[Sequence[float]], resampled: Resampled) -> Estimate:
    n_rounds = np.array([len(runs) for runs in figures])
    padded = np.array([[*runs, *[0.0] * (n_rounds.max() - len(runs))] for runs in figures])
    medians = np.median(padded[resampled(n_rounds)], axis=(1, 2))
    return _estimate(_median(np.concatenate(figures), np.repeat(1.0 / n_rounds, n_rounds)), medians)


def _median(figures: Figures, weights: Figures) -> float:
    """The weighted median; between two figures their mean."""
    order = np.argsort(figures)
    cumulative = weights[order].cumsum()
    half, slack = cumulative[-1] / 2, 1e-9 * cumulative[-1]
    return float(figures[order][np.searchsorted(cumulative, [half - slack, half + slack])].mean())


def median_ratio(a: Figures, b: Figures) -> Estimate:
    """The median over all pairs of a run of ``a`` and the run of ``b`` beside it."""
    return median_estimate((a / b).tolist())


def pooled_ratio(a: tuple[Figures, Figures], b: tuple[Figures, Figures]) -> Estimate:
    """The ratio of two rates, each the sum of its first array over the sum of its second."""
    rate_a, rate_b = (float(count.sum() / per.sum()) for count, per in (a, b))
    chosen = _resampled(np.full(*a[0].shape))
    rates = [count[chosen].sum((1, 2)) / per[chosen].sum((1, 2)) for count, per in (a, b)]
    return _estimate(rate_a / rate_b, rates[0] / rates[1])


def _resampled(n_rounds: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Indices of bootstrap samples: prompts drawn with replacement, and within each of them its rounds.

    Rounds of one prompt resemble each other, so that to draw from all runs alike would promise too much.
    """
    rng = np.random.default_rng(0)
    prompts = rng.integers(len(n_rounds), size=(RESAMPLES, len(n_rounds), 1))
    shares = rng.random((RESAMPLES, len(n_rounds), int(n_rounds.max())))
    return prompts, (shares * n_rounds[prompts]).astype(np.int64)


def _resampled_rounds(n_rounds: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same with every prompt once, in its place."""
    shares = np.random.default_rng(0).random((RESAMPLES, len(n_rounds), int(n_rounds.max())))
    prompts = np.arange(len(n_rounds))[:, np.newaxis]
    return prompts, (shares * n_rounds[prompts]).astype(np.int64)


def _estimate(value: float, resampled: Figures) -> Estimate:
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Estimate(value, float(low), float(high))
