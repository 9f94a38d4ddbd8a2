"""The status line: what speculation achieves right now, on one line."""

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from specli.decoding.stats import Stats

SEPARATOR = " · "


def status_line(stats: Stats, n_max: int, columns: int) -> Text:
    """Return the status in at most so many columns; what matters least goes first when they are few."""
    parts = _plain_parts(stats) if n_max == 0 else _draft_parts(stats, n_max)
    while len(parts) > 1 and _length(parts) > columns:
        parts.remove(min(parts, key=lambda part: part[0]))
    line = Text(SEPARATOR, style="dim").join(Text.from_markup(text) for _, text in parts)
    if cell_len(line.plain) > columns:
        line = Text(set_cell_size(line.plain, columns))
    return line


def _plain_parts(stats: Stats) -> list[tuple[int, str]]:
    return [(1, f"{stats.tokens} tokens"), (2, _speed(stats))]


def _draft_parts(stats: Stats, n_max: int) -> list[tuple[int, str]]:
    """The parts of the line as (importance, markup)."""
    rate, length = stats.acceptance_rate, stats.mean_accepted_length
    return [
        (6, f"accepted [green]{stats.accepted}[/]/{stats.drafted}"),
        (2, f"rejected [red]{stats.rejected}[/]"),
        (4, "– %" if rate is None else f"{rate:.0%}".replace("%", " %")),
        (3, "τ –" if length is None else f"τ {length:.2f}"),
        (5, _speed(stats)),
        (1, f"n-max {n_max}"),
    ]


def _speed(stats: Stats) -> str:
    speed = stats.tokens_per_second
    return "– tok/s" if speed is None else f"{speed:.1f} tok/s"


def _length(parts: list[tuple[int, str]]) -> int:
    return cell_len(SEPARATOR.join(Text.from_markup(text).plain for _, text in parts))
