"""The commands and the options of the program itself."""

from typing import Annotated, Any

import typer

from specli.cli import report, run, sweep
from specli.cli.failures import INTERRUPTED_CODE
from specli.cli.help import GroupedHelp
from specli.errors import UsageError

_BadUsage: Any = typer.BadParameter.__base__  # click's UsageError, which typer does not name

app = typer.Typer(
    name="specli",
    help="Speculative decoding for GGUF models: run it, see it, and know that it is lossless.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
app.command("run", cls=GroupedHelp)(run.command)
app.command("sweep", cls=GroupedHelp)(sweep.command)
app.command("report", cls=GroupedHelp)(report.command)


def _print_version(given: bool) -> None:
    if given:
        from importlib.metadata import version

        print(f"specli {version('specli')} (llama-cpp-python {version('llama-cpp-python')})")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def execute(arguments: list[str]) -> int:
    """Parse and run a command line; return its exit code.

    Raises:
        SpecliError: What a user has to know.
    """
    try:
        return int(app(arguments or ["--help"], prog_name="specli", standalone_mode=False) or 0)
    except typer.Abort:
        return INTERRUPTED_CODE
    except _BadUsage as error:
        command = next(iter(arguments[:1]), "")
        raise UsageError(error.format_message(), f"See: specli {command} --help") from error
