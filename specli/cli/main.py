"""The ``specli`` program."""

import sys
from typing import Annotated

import typer

from specli.cli import child, run
from specli.cli.failures import complain
from specli.errors import SpecliError

app = typer.Typer(
    name="specli",
    help="Speculative decoding for GGUF models: run it, see it, and know that it is lossless.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)
app.command("run")(run.command)


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


def main() -> None:
    """Run the command line: commands that load models in a child process, everything else here."""
    if child.wanted(sys.argv[1:]):
        sys.exit(child.run(sys.argv[1:]))
    try:
        app()
    except SpecliError as error:
        if "--debug" in sys.argv:
            raise
        complain(error)
        sys.exit(error.exit_code)
