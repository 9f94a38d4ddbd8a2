"""Options that several commands have, alike in all of them."""

from pathlib import Path
from typing import Annotated

import typer

from specli.errors import UsageError

Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show llama.cpp's log.")]
Format = Annotated[str, typer.Option("--format", metavar="text|json", help="What stdout gets.")]
ModelsFile = Annotated[
    Path | None, typer.Option("--models-file", metavar="FILE", help="Models of your own, beside the known ones.")
]


def check_format(format: str) -> None:
    """Refuse what is neither text nor json.

    Raises:
        UsageError: It is neither.
    """
    if format not in ("text", "json"):
        raise UsageError(f"--format {format}: not one of text, json")
