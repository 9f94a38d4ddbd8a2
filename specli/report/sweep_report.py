"""The results of a sweep as a whole: tables, reasons and recommendations, or rows for programs."""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from specli.bench.analysis import Verdict
from specli.bench.summary import Results
from specli.errors import SpecliError
from specli.report import sweep_words as words
from specli.report.charts import terminal_chart
from specli.report.plain import PipedConsole, plain
from specli.report.text_cursor import printable

_WIDE = 160  # columns of a table that goes to a file or a pipe

FORMATS = ("text", "json", "csv", "markdown")


def print_sweep(results: Results, format: str, *, by_category: bool = False) -> None:
    """Print what was measured, to stdout.

    Raises:
        SpecliError: Nothing was, beside plain decoding.
    """
    if results.is_empty:
        raise SpecliError("nothing was measured beside plain decoding yet", "Continue the sweep with --resume.")
    categories: list[str | None] = [None, *(results.categories if by_category else ())]
    if format in ("json", "csv"):
        _print_rows(results, categories, format)
        return
    console = PipedConsole()
    if not console.is_terminal:
        console.width = _WIDE
    for category in categories:
        if format == "markdown":
            for temperature in results.temperatures:
                title = _title(temperature, category)
                print(words.markdown(results.standings(temperature, category), title) + "\n")
        else:
            for table in tables(results, console.width, category):
                console.print(table)
                console.print()
    if format == "text":
        for temperature in results.temperatures:
            print("\n".join([f"temp {temperature:g}, × plain:", *terminal_chart(results.standings(temperature)), ""]))
    for temperature, found in results.verdicts().items():
        for line in _conclusions(results, temperature, found):
            print(line)


def print_comparison(old: Results, new: Results) -> None:
    """Print the speed-ups of two sweeps side by side, to stdout."""
    for temperature in dict.fromkeys([*old.temperatures, *new.temperatures]):
        sides = [{words.name(one.point): one for one in side.standings(temperature)} for side in (old, new)]
        table = Table(title=plain(_title(temperature, None)), title_justify="left", box=None, pad_edge=False)
        for column in ("", "old × plain", "new × plain"):
            table.add_column(column, justify="right" if column else "left")
        for name in dict.fromkeys([*sides[0], *sides[1]]):
            cells = (words.estimate(side[name].request) if name in side else "–" for side in sides)
            table.add_row(*map(plain, (name, *cells)))
        PipedConsole().print(table)


def tables(results: Results, columns: int, category: str | None = None) -> Iterator[Table]:
    """A table a temperature, for a terminal of so many columns."""
    for temperature in results.temperatures:
        if standing := results.standings(temperature, category):
            best = max(standing, key=lambda one: one.request.value)
            yield words.table(standing, _title(temperature, category), columns, best.point)


def _title(temperature: float, category: str | None) -> str:
    return f"temp {temperature:g}" + (f", {printable(' '.join(category.split()))}" if category else "")


def _print_rows(results: Results, categories: Sequence[str | None], format: str) -> None:
    rows = [
        {"category": category, **row}
        for category in categories
        for temperature in results.temperatures
        for row in words.rows(results.standings(temperature, category))
    ]
    if format == "json":
        found = [_recommendation(results, temperature, found) for temperature, found in results.verdicts().items()]
        document = {"schema": "specli.standings/1", "standings": rows, "recommendations": found}
        print(json.dumps(document, ensure_ascii=False))
    else:
        writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _conclusions(results: Results, temperature: float, found: Verdict) -> Iterator[str]:
    yield f"temp {temperature:g}: {words.conclusion(found)}"
    standing = results.standings(temperature)
    explained = [one for one in standing if one.predicted is not None]
    if explained:
        best = max(explained, key=lambda one: one.decode.value)
        for line in words.why(best, results.target_seconds(temperature)):
            yield f"  {words.name(best.point)}: {line}"
    recommendation = _recommendation(results, temperature, found)
    if not found.decided:
        yield "  for now:"
    yield f"  {recommendation['run']}"
    if lacking := recommendation["not_in_server"]:
        yield f"  llama-server has no {lacking}; its nearest:"
    yield f"  {recommendation['server']}"


def _recommendation(results: Results, temperature: float, found: Verdict) -> dict[str, Any]:
    """What to take, and the lines to paste: llama-server's of the fastest setting that it has, if not of this one."""
    point, options = found.recommended.point, results.settings["words"]
    standings = [one for one in results.standings(temperature) if words.in_server(one.point)]
    nearest = point if words.in_server(point) else max(standings, key=lambda one: one.request.value).point
    return {
        "temperature": temperature,
        "setting": words.name(point),
        "decided": found.decided,
        "run": words.run_line(point, results.target, options["run"]),
        "server": words.server_line(nearest, results.target, options["server"]),
        "not_in_server": words.without_counterpart(point),
    }
