"""The commands and the options of the program itself."""

from typing import Annotated

import typer

from specli.cli import chat, doctor, inspect, models, pull, report, run, sweep, verify
from specli.cli.examples import EXAMPLES
from specli.cli.help import GroupedHelp

app = typer.Typer(
    name="specli",
    help="Speculative decoding for GGUF models: run it, see it, and know that it is lossless.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
for _name, _command in {
    "run": run.command,
    "chat": chat.command,
    "sweep": sweep.command,
    "verify": verify.command,
    "report": report.command,
    "inspect": inspect.command,
    "pull": pull.command,
    "doctor": doctor.command,
}.items():
    app.command(_name, cls=GroupedHelp, epilog=EXAMPLES[_name])(_command)
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
