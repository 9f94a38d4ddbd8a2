"""Measuring what decoding costs here, before the first text."""

import time
from collections.abc import Sequence

from specli.decoding.costs import CostCurve, Costs
from specli.llama.decoder import Decoder

_WIDTHS = (1, 5, 2, 9, 17, 3, 33)  # the most telling first
_READ_WIDTH = 64
_BUDGET = 2.0  # seconds; a model too slow for more is measured while it writes


def measure_costs(target: Decoder, draft: Decoder | None, n_max: int) -> Costs:
    """Time forward passes of several widths; both caches are empty afterwards.

    Args:
        target: The target.
        draft: The draft model, if there is one.
        n_max: The most tokens a round will draft.
    """
    deadline = time.perf_counter() + _BUDGET
    curve = CostCurve(_time_widths(target, [width for width in _WIDTHS if width <= n_max + 1], deadline))
    if draft is None:
        return Costs(curve)
    seconds = _time_widths(draft, (1, _READ_WIDTH), deadline)
    read = {"model": seconds[_READ_WIDTH] / _READ_WIDTH} if _READ_WIDTH in seconds else {}
    return Costs(curve, {"model": seconds[1]}, read)


def _time_widths(decoder: Decoder, widths: Sequence[int], deadline: float) -> dict[int, float]:
    """The best of two times at each width, the first at any rate, others while the time lasts."""
    seconds: dict[int, float] = {}
    for width in widths:
        if seconds and time.perf_counter() + 2 * seconds[1] * min(width, 4) > deadline:
            break
        seconds[width] = min(_time(decoder, width) for _ in range(2))
    decoder.truncate(0)
    return seconds


def _time(decoder: Decoder, width: int) -> float:
    decoder.truncate(0)
    started = time.perf_counter()
    decoder.decode([0] * width, 1 if width == _READ_WIDTH else width)
    return time.perf_counter() - started
