"""Parsing and running a command line."""

from typing import Any

import typer

from specli.cli.failures import INTERRUPTED_CODE
from specli.errors import UsageError

_BadUsage: Any = typer.BadParameter.__base__  # click's UsageError, which typer does not name


def execute(app: typer.Typer, arguments: list[str]) -> int:
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
