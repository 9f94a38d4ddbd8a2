"""Which drafted tokens stay, and the token that follows them: match, token and block verification.

All three leave exactly the target's distribution. Draft token i (from 0) was drawn from ``draft_distributions[i]``;
``target(i)`` is the target's distribution after i draft tokens, for i = 0 … γ.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from specli.sampling.distribution import Distribution
from specli.sampling.draws import Draws, Purpose

Target = Callable[[int], Distribution]


class Verdict(NamedTuple):
    """What a round adds to the text: the first ``n_accepted`` draft tokens, then ``token``."""

    n_accepted: int
    token: int


Verify = Callable[[Sequence[int], Sequence[Distribution], Target, Draws, int], Verdict]


def verify_match(
    tokens: Sequence[int], draft_distributions: Sequence[Distribution], target: Target, draws: Draws, position: int
) -> Verdict:
    """Sample every position as plain decoding would, and keep the draft while it agrees.

    The text is plain decoding's for the same seed, whatever the draft. At temperature 0 this is greedy verification.
    """
    for i, drafted in enumerate(tokens):
        if (token := draws.race(target(i), position + i)) != drafted:
            return Verdict(i, token)
    return Verdict(len(tokens), draws.race(target(len(tokens)), position + len(tokens)))


def verify_token(
    tokens: Sequence[int], draft_distributions: Sequence[Distribution], target: Target, draws: Draws, position: int
) -> Verdict:
    """Accept each token with probability min(1, p/q) (Leviathan et al., 2023; Chen et al., 2023)."""
    for i, (token, q) in enumerate(zip(tokens, draft_distributions, strict=True)):
        p = target(i)
        if not draws.accept(_ratio(p, q, token), position, i):
            return Verdict(i, _draw_residual(_residual(1.0, p, q), p, draws, position, i))
    return Verdict(len(tokens), _draw_bonus(target(len(tokens)), draws, position, len(tokens)))


def verify_block(
    tokens: Sequence[int], draft_distributions: Sequence[Distribution], target: Target, draws: Draws, position: int
) -> Verdict:
    """Accept the longest prefix that its own joint test keeps (block verification: Sun et al., ICLR 2025).

    Never accepts fewer tokens in expectation than token verification, because a likely continuation can make up for an
    unlikely token. The tests do not depend on each other, so the longest prefix comes first: residuals of whole
    vocabularies are only worked out where it falls short.
    """
    weights = [1.0]
    for i, (token, q) in enumerate(zip(tokens, draft_distributions, strict=True)):
        weight = min(weights[-1] * _ratio(target(i), q, token), 1.0)
        if weight == 0.0:
            break  # nothing that contains this token can be kept
        weights.append(weight)
    if not tokens:
        return Verdict(0, _draw_bonus(target(0), draws, position, 0))
    if len(weights) > len(tokens) and draws.accept(weights[-1], position, len(tokens) - 1):
        return Verdict(len(tokens), _draw_bonus(target(len(tokens)), draws, position, len(tokens)))
    for i in range(min(len(weights), len(tokens)) - 1, 0, -1):
        residual = _residual(weights[i], target(i), draft_distributions[i])
        excess = residual.total / draft_distributions[i].total
        denominator = excess + 1.0 - weights[i]
        if draws.accept(excess / denominator if denominator > 0.0 else 0.0, position, i - 1):
            return Verdict(i, _draw_residual(residual, target(i), draws, position, i))
    return Verdict(0, _draw_residual(_residual(1.0, target(0), draft_distributions[0]), target(0), draws, position, 0))


def _ratio(p: Distribution, q: Distribution, token: int) -> float:
    """p(token) / q(token), where token was drawn from q."""
    return p.probability(token) / q.probability(token)


def _residual(weight: float, p: Distribution, q: Distribution) -> Distribution:
    """(weight·p − q)₊ in units of q's total: weights, perhaps all 0, over the ids of p."""
    residual = p.weights * (weight * q.total / p.total)
    residual -= q.weights_over(p)
    return Distribution(p.ids, np.maximum(residual, 0.0, out=residual))


def _draw_residual(residual: Distribution, p: Distribution, draws: Draws, position: int, offset: int) -> int:
    """Draw from a residual of p, or from p where nothing but rounding is left of it."""
    return draws.choose(residual if residual.total > 0.0 else p, Purpose.RESIDUAL, position, offset)


def _draw_bonus(p: Distribution, draws: Draws, position: int, offset: int) -> int:
    """Draw the token after a draft that was wholly accepted; after none at all, the one that plain decoding draws."""
    return draws.choose(p, Purpose.TOKEN, position, offset) if offset else draws.race(p, position)


VERIFICATIONS: dict[str, Verify] = {"match": verify_match, "token": verify_token, "block": verify_block}
