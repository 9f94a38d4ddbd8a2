"""The commands and the options of the program itself."""

from typing import Annotated

import typer

from specli.cli import doctor, inspect, models, pull, report, run, sweep, verify
from specli.cli.help import GroupedHelp

app = typer.Typer(
    name="specli",
    help="Speculative decoding for GGUF models: run it, see it, and know that it is lossless.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
app.command("run", cls=GroupedHelp)(run.command)
app.command("sweep", cls=GroupedHelp)(sweep.command)
app.command("verify", cls=GroupedHelp)(verify.command)
app.command("report", cls=GroupedHelp)(report.command)
app.command("inspect", cls=GroupedHelp)(inspect.command)
app.command("pull", cls=GroupedHelp)(pull.command)
app.command("doctor", cls=GroupedHelp)(doctor.command)
app.add_typer(models.app, name="models")


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
