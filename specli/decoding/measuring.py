"""Measuring what decoding costs here, before the first text."""

import time
from collections.abc import Callable, Mapping, Sequence

from specli.decoding.costs import CostCurve, Costs
from specli.llama.decoder import Decoder

_WIDTHS = (1, 4, 2, 8, 16, 32, 3, 9, 17)  # the most telling first: kernels have steps after 4, 8, 16 and 32
_READ_WIDTH = 64
_BUDGET = 2.0  # seconds, and a quarter of that for each drafter; slower models are measured while they write
_AGAIN = 0.2  # seconds, for times that are soon measured again
_NARROW = 4  # tokens; so short a pass is timed twice, for a hiccup might be as long


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
        seconds = _time_widths(rehearse, (1, _READ_WIDTH), _BUDGET / 4)
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
    """The best time at each width, the first at any rate, others while they fit into the budget, in seconds.

    Where that is soon done they are timed again, a round of all widths at a time: a hiccup of the machine may well be
    longer than two passes, and what is remembered is believed for long.
    """
    deadline = time.perf_counter() + budget
    seconds: dict[int, float] = {}
    for width in widths:
        n_times = 2 if width <= _NARROW else 1
        widest = max(seconds, default=width)
        if seconds and time.perf_counter() + n_times * seconds[widest] * width / widest > deadline:
            break
        seconds[width] = min(_time(work, width) for _ in range(n_times))
    deadline = min(deadline, time.perf_counter() + _AGAIN)
    while time.perf_counter() + sum(seconds.values()) < deadline:
        seconds = {width: min(best, _time(work, width)) for width, best in seconds.items()}
    return seconds


def _time(work: Rehearse, width: int) -> float:
    started = time.perf_counter()
    work(width)
    return time.perf_counter() - started
