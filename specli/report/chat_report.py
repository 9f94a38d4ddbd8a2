"""How a conversation fares, for people: a line after each answer, and a table when asked."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from specli.decoding.stats import Stats, summed
from specli.report.status import status_line


def print_answer_line(console: Console, stats: Stats, n_max: int | None) -> None:
    """Print one line about an answer: the status line as it was last, or as of plain decoding where nobody drafted."""
    console.print(status_line(stats, n_max if stats.drafted else 0, max(10, console.width - 1)), soft_wrap=True)


def print_stats(console: Console, answers: Sequence[Stats], n_used: int, n_ctx: int) -> None:
    """Print what the last answer and the whole conversation took.

    Args:
        console: Where.
        answers: Of each answer, in order.
        n_used: Tokens in the context.
        n_ctx: How many it holds.
    """
    last, total = answers[-1] if answers else Stats(), summed(answers)
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify)
    table.add_row("", "last answer", "all")
    for label, *values in zip(_LABELS, _column(last), _column(total), strict=True):
        table.add_row(label, *values)
    console.print(table, highlight=False)
    console.print(f"context: {n_used} of {n_ctx} tokens", highlight=False)


_LABELS = ("tokens", "accepted/drafted", "acceptance", "τ", "tok/s", "prompt tokens", "of them read anew")


def _column(stats: Stats) -> tuple[str, ...]:
    rate, length, speed = stats.acceptance_rate, stats.mean_accepted_length, stats.tokens_per_second
    return (
        str(stats.tokens),
        f"{stats.accepted}/{stats.drafted}",
        "–" if rate is None else f"{100 * rate:.1f} %",
        "–" if length is None else f"{length:.2f}",
        "–" if speed is None else f"{speed:.1f}",
        str(stats.prompt_tokens),
        str(stats.prompt_tokens - stats.kept_tokens),
    )
