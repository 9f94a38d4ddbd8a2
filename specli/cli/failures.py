"""How a command ends: exit codes, and errors worded for people."""

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import typer

from specli.errors import SpecliError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def worded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn a command's exceptions into messages and exit codes; ``debug=True`` lets tracebacks through.

    A closed pipe is no failure: whoever read the output had enough.
    """

    @functools.wraps(command)
    def guarded(*, debug: bool, **values: Any) -> None:
        _interrupt_once()
        try:
            command(debug=debug, **values)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to complain at exit
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except SpecliError as error:
            if debug:
                raise
            complain(error)
            raise typer.Exit(error.exit_code) from None
        except (OSError, MemoryError) as error:
            if debug:
                raise
            complain(SpecliError(_system_error(error)))
            raise typer.Exit(FAILED) from None

    return guarded


def complain(error: SpecliError) -> None:
    """Print an error and what to do about it to stderr."""
    print(f"specli: error: {error.message}", file=sys.stderr)
    if error.hint:
        print(error.hint, file=sys.stderr)


def warn(message: str) -> None:
    """Print a warning to stderr."""
    print(f"specli: warning: {message}", file=sys.stderr)


def _system_error(error: OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        return "memory ran out"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _interrupt_once() -> None:
    """Let the first Ctrl-C interrupt; further ones must not cut short the report of what there is."""

    def on_interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    def on_terminate(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    signal.signal(signal.SIGTERM, on_terminate)
