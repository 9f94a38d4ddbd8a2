"""The status line: what speculation achieves right now, on one line."""

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from specli.decoding.stats import Stats

SEPARATOR = " · "


def status_line(stats: Stats, n_max: int | None, columns: int) -> Text:
    """Return the status in at most so many columns; what matters least goes first when they are few."""
    parts = _plain_parts(stats) if n_max == 0 else _draft_parts(stats, n_max)
    while len(parts) > 1 and _length(parts) > columns:
        parts.remove(min(parts, key=lambda part: part[0]))
    line = Text.from_markup(_joined(parts), style="dim")
    if cell_len(line.plain) > columns:
        line = Text(set_cell_size(line.plain, columns))
    return line


def _plain_parts(stats: Stats) -> list[tuple[int, str]]:
    return [(1, f"{stats.tokens} tokens"), (2, _speed(stats))]


def _draft_parts(stats: Stats, n_max: int | None) -> list[tuple[int, str]]:
    """The parts of the line as (importance, markup)."""
    rate, length = stats.acceptance_rate, stats.mean_accepted_length
    return [
        (4, "accepted"),
        (7, f"[green]{stats.accepted}[/]/{stats.drafted}"),
        (2, f"rejected [red]{stats.rejected}[/]"),
        (5, "– %" if rate is None else f"{rate:.0%}".replace("%", " %")),
        (3, "τ –" if length is None else f"τ {length:.2f}"),
        (6, _speed(stats)),
        (1, f"n-max {'auto' if n_max is None else n_max}"),
    ]


def _speed(stats: Stats) -> str:
    speed = stats.tokens_per_second
    return "– tok/s" if speed is None else f"{speed:.1f} tok/s"


def _joined(parts: list[tuple[int, str]]) -> str:
    """The parts as one markup text; a word belongs to the number after it."""
    return SEPARATOR.join(text for _, text in parts).replace(f"accepted{SEPARATOR}", "accepted ")


def _length(parts: list[tuple[int, str]]) -> int:
    return cell_len(Text.from_markup(_joined(parts)).plain)
