"""Measuring what decoding costs here, before the first text."""

import math
import time
from collections.abc import Callable, Mapping, Sequence

from specli.decoding.costs import CostCurve, Costs
from specli.llama.decoder import Decoder

_WIDTHS = (1, 4, 2, 8, 16, 32, 3, 9, 17)  # the most telling first: kernels have steps after 4, 8, 16 and 32
_READ_WIDTH = 64
_BUDGET = 4.0  # seconds, and an eighth of that for each drafter; slower models are measured while they write
_ROUNDS = 2  # of all widths, at least, as far as the budget goes
_AGAIN = 0.2  # seconds, for further rounds

Rehearse = Callable[[int], None]
"""Does the work of reading so many tokens and proposing one after them."""


def measure_costs(target: Decoder, drafters: Mapping[str, Rehearse], n_max: int) -> Costs:
    """Time forward passes of several widths; the target's cache is empty afterwards.

    Args:
        target: The target.
        drafters: Those that compute, by name.
        n_max: The most tokens a round will draft.
    """

    def forward_pass(width: int) -> None:
        target.truncate(0)
        target.decode([0] * width, width)[width - 1]

    widths = [width for width in _WIDTHS if width <= n_max + 1]
    costs = Costs(CostCurve(_time_widths(forward_pass, widths, _BUDGET)))
    costs.save_seconds = _time_saving(target, n_max)
    target.truncate(0)
    for name, rehearse in drafters.items():
        seconds = _time_widths(rehearse, (1, _READ_WIDTH), _BUDGET / 8)
        costs.step_seconds[name] = seconds[1]
        if _READ_WIDTH in seconds:
            costs.read_seconds[name] = seconds[_READ_WIDTH] / _READ_WIDTH
    return costs


def _time_saving(target: Decoder, n_max: int) -> float:
    """Seconds to remember the target's state for a draft; 0 where its memory can be cut."""
    target.truncate(0)
    target.decode([0] * 2, 0)
    started = time.perf_counter()
    target.checkpoint(n_max)
    seconds = time.perf_counter() - started
    target.decode([0] * 2, 0)
    target.truncate(3)
    return seconds if len(target.tokens) < 3 else 0.0


def _time_widths(work: Rehearse, widths: Sequence[int], budget: float) -> dict[int, float]:
    """The best time at each width, the first at any rate, others as long as they fit into the budget, in seconds.

    All widths are timed in turn, and then again: what is remembered is believed for long, and whatever else the
    machine does for a moment slows down passes that follow each other. Where that is soon done they are timed more
    often.
    """
    started = time.perf_counter()
    seconds: dict[int, float] = {}
    n_rounds = 0
    while n_rounds < _ROUNDS or time.perf_counter() + sum(seconds.values()) < started + min(_AGAIN, budget):
        for width in widths:
            widest = max(seconds, default=width)
            expected = seconds.get(width, seconds[widest] * width / widest if seconds else 0.0)
            if time.perf_counter() + expected <= started + budget or not seconds:
                seconds[width] = min(seconds.get(width, math.inf), _time(work, width))
        n_rounds += 1
    return seconds


def _time(work: Rehearse, width: int) -> float:
    started = time.perf_counter()
    work(width)
    return time.perf_counter() - started
