"""The speed-up that acceptance and costs predict, and what would have to change for a gain."""

from collections.abc import Callable, Sequence

_ENOUGH = 1.02  # a speed-up worth speaking of
_LENGTHS = range(1, 33)


def mean_accepted_length(acceptance: Sequence[float]) -> float:
    """Tokens a round, the target's own included: 1 + α₁ + α₁α₂ + … (Leviathan et al., 2023, with α by position).

    Args:
        acceptance: By position, the probability that a drafted token is accepted, those before it being accepted.
    """
    tokens, survival = 1.0, 1.0
    for probability in acceptance:
        survival *= probability
        tokens += survival
    return tokens


def predicted(acceptance: Sequence[float], target_seconds: Callable[[int], float], step_seconds: float) -> float:
    """τ·T₁ / (T_{γ+1} + γ·t_draft): the time of a forward pass by its width in place of a flat one.

    Args:
        acceptance: By position; as many as are drafted a round, γ.
        target_seconds: Of a forward pass of the target, by its width.
        step_seconds: Of one drafted token.
    """
    n_drafted = len(acceptance)
    round_seconds = target_seconds(n_drafted + 1) + n_drafted * step_seconds
    return mean_accepted_length(acceptance) * target_seconds(1) / round_seconds


def shortcut(acceptance: float, n_drafted: int, cost_ratio: float) -> float:
    """αN / (1 + N·c), which is often quoted: it counts tokens after a rejected one, and leaves out the target's own."""
    return acceptance * n_drafted / (1.0 + n_drafted * cost_ratio)


def best_predicted(acceptance: float, target_seconds: Callable[[int], float], step_seconds: float) -> float:
    """The largest predicted speed-up of any draft length, every token being accepted with the same probability."""
    return max(predicted([acceptance] * n, target_seconds, step_seconds) for n in _LENGTHS)


def needed_acceptance(target_seconds: Callable[[int], float], step_seconds: float) -> float | None:
    """The least acceptance at which some draft length gains; None: not even if all is accepted."""
    return _least(lambda acceptance: best_predicted(acceptance, target_seconds, step_seconds))


def needed_cheapness(acceptance: float, target_seconds: Callable[[int], float], step_seconds: float) -> float | None:
    """How many times cheaper a draft step must be for some length to gain; None: not even if it cost nothing."""
    share = _least(lambda saved: best_predicted(acceptance, target_seconds, step_seconds * (1.0 - saved)))
    if share is None:
        return None
    return float("inf") if share >= 1.0 else 1.0 / (1.0 - share)


def _least(speedup: Callable[[float], float]) -> float | None:
    """The least number in [0, 1] with a gain, found by halving; speed-ups grow with it."""
    if speedup(1.0) < _ENOUGH:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if speedup(middle) >= _ENOUGH else (middle, high)
    return high
