"""What a round should have decided: verification written a second time, as the papers have it, over whole arrays.

Slower than ``sampling.verification`` and independent of it: probabilities come from llama.cpp's own sampler chain.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from specli.llama.decoder import Logits
from specli.llama.sampler_chain import sampler_chain
from specli.sampling.distribution import Distribution
from specli.sampling.transforms import SamplingOptions

Probabilities = npt.NDArray[np.float64]
"""Shape (n_vocab,), summing to 1."""

TOLERANCE = 1e-5
"""How far distributions worked out in single precision, in another order, may lie apart (total variation)."""

_EPSILON = float(np.finfo(np.float32).eps)
_ROUNDING = 1e-4  # of differences and quotients of such probabilities


class Chance(NamedTuple):
    """A probability, and how far rounding may move it."""

    value: float
    tolerance: float


def target_probabilities(logits: Logits, history: Sequence[int], options: SamplingOptions) -> Probabilities:
    """The distribution that llama.cpp's samplers make of a row of logits.

    Args:
        logits: float32, shape (n_vocab,).
        history: All tokens before.
        options: The transforms.
    """
    ids, values = sampler_chain(logits, history if options.penalizes else (), **asdict(options))
    probabilities = np.zeros(len(logits))
    if not len(values):  # a row of NaN: no distribution
        return probabilities
    weights = np.exp(values - values.max())
    probabilities[ids] = weights / weights.sum()
    return probabilities


def is_made_of(
    probabilities: Probabilities, logits: Logits, history: Sequence[int], options: SamplingOptions
) -> tuple[bool, Probabilities]:
    """Whether a distribution is what the transforms make of a row, and what they make of it.

    A token on the border of top-p may fall to either side of it by rounding, and of equal logits any may come first.
    """
    expected = target_probabilities(logits, history, options)
    largest = float(np.abs(logits[np.isfinite(logits)]).max(initial=0.0))
    tolerance = TOLERANCE
    if options.temperature > 0.0:  # llama.cpp divides in single precision
        tolerance += 4.0 * _EPSILON * largest / options.temperature
    for nudge in (0.0, -TOLERANCE, TOLERANCE):
        if nudge and not 0.0 < options.top_p < 1.0:
            break
        other = (
            target_probabilities(logits, history, replace(options, top_p=options.top_p + nudge)) if nudge else expected
        )
        if apart(probabilities, other) <= tolerance:
            return True, other
        if _differ_by_ties(probabilities, other, logits):
            return True, probabilities
    return False, expected


def _differ_by_ties(a: Probabilities, b: Probabilities, logits: Logits) -> bool:
    """Whether two distributions are the same but for tokens whose logits are equal."""
    only_a, only_b = np.flatnonzero((a > 0.0) & (b == 0.0)), np.flatnonzero((b > 0.0) & (a == 0.0))
    if not len(only_a) or len(only_a) != len(only_b):
        return False
    tied = np.array_equal(np.sort(logits[only_a]), np.sort(logits[only_b]))
    return tied and bool(np.abs(np.sort(a[a > 0.0]) - np.sort(b[b > 0.0])).max() <= TOLERANCE)


def spread(distribution: Distribution, n_vocab: int) -> Probabilities:
    """A distribution over a whole vocabulary."""
    probabilities = np.zeros(n_vocab)
    ids = np.arange(len(distribution.weights)) if distribution.ids is None else distribution.ids
    total = distribution.weights.sum(dtype=np.float64)
    probabilities[ids] = distribution.weights / (total if total > 0.0 else 1.0)
    return probabilities


def apart(a: Probabilities, b: Probabilities) -> float:
    """Total variation distance; infinite where one of them is no distribution at all."""
    distance = 0.5 * float(np.abs(a - b).sum())
    return distance if np.isfinite(distance) else np.inf


def acceptances(
    verification: str, tokens: Sequence[int], q: Sequence[Probabilities], p: Sequence[Probabilities]
) -> list[Chance]:
    """With which probability each drafted token (token verification) or each prefix that it ends (block) is kept.

    Args:
        verification: 'token' (Leviathan et al., 2023; Chen et al., 2023) or 'block' (Sun et al., ICLR 2025).
        tokens: The draft's, γ of them.
        q: What each was drawn from.
        p: The target's distributions after 0 … γ of them; as far as they are known.
    """
    weights = prefix_weights(verification, tokens, q, p)
    if verification == "token":
        return [Chance(weight, _ROUNDING) for weight in weights]
    kept = []
    for i, weight in enumerate(weights, start=1):
        if i == len(tokens) or i >= len(p):
            kept.append(Chance(weight, _ROUNDING))
            continue
        excess = float(np.maximum(weight * p[i] - q[i], 0.0).sum())
        denominator = excess + 1.0 - weight
        value = excess / denominator if denominator > 0.0 else 0.0
        kept.append(Chance(value, _ROUNDING / max(denominator, _ROUNDING)))
    return kept


def prefix_weights(
    verification: str, tokens: Sequence[int], q: Sequence[Probabilities], p: Sequence[Probabilities]
) -> list[float]:
    """min(1, p/q) of each token, or block verification's pᵢ: clipped running products of the ratios."""
    weights: list[float] = []
    running = 1.0
    for token, q_i, p_i in zip(tokens, q, p, strict=False):
        ratio = float(p_i[token]) / float(q_i[token]) if q_i[token] > 0.0 else np.inf
        running = min(1.0, ratio if verification == "token" else running * ratio)
        weights.append(running)
    return weights


def residual(weight: float, p: Probabilities, q: Probabilities) -> tuple[Probabilities, float]:
    """(weight·p − q)₊, normalised, and how far rounding may move it (total variation); p where nothing is left."""
    rest = np.maximum(weight * p - q, 0.0)
    total = float(rest.sum())
    return (rest / total if total > 0.0 else p), _ROUNDING / max(total, _ROUNDING)
