"""``specli report``: what a sweep found, again."""

from pathlib import Path
from typing import Annotated

import typer

from specli.bench.results import read
from specli.bench.summary import Results
from specli.cli.failures import worded
from specli.errors import UsageError
from specli.report.charts import check_plot, write_plot
from specli.report.sweep_report import FORMATS, print_comparison, print_sweep


@worded
def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE [NEWER]", help="What specli sweep --out wrote.")],
    format: Annotated[
        str, typer.Option("--format", metavar="text|json|csv|markdown", help="What stdout gets.")
    ] = "text",
    by_category: Annotated[bool, typer.Option("--by-category", help="A table for each category too.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .html, or .png or .svg with matplotlib.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Print the tables and recommendations of a sweep's file, or two of them side by side."""
    if format not in FORMATS:
        raise UsageError(f"--format {format}: not one of {', '.join(FORMATS)}")
    if len(files) > 2:
        raise UsageError(f"{files[2]}: two sweeps can be compared, not more")
    if len(files) == 2 and (format != "text" or by_category or plot):
        raise UsageError("two sweeps are compared as text only", "Leave out --format, --by-category and --plot.")
    if plot:
        check_plot(plot)
        if plot.exists() and plot.samefile(files[0]):
            raise UsageError(f"--plot {plot}: this report reads that file")
    results = [Results(*read(file)) for file in files]
    if len(results) == 2:
        print_comparison(*results)
    else:
        print_sweep(results[0], format, by_category=by_category)
    if plot:
        write_plot(plot, results[0])
