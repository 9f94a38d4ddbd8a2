"""How a command ends: exit codes, and errors worded for people."""

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import typer

from specli.errors import SpecliError

INTERRUPTED = 130


def worded(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its exit codes: interruptions, closed pipes, and errors of the system.

    A closed pipe is no failure: whoever read the output had enough.
    """

    @functools.wraps(command)
    def guarded(**values: Any) -> None:
        _interrupt_once()
        try:
            command(**values)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to complain at exit
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except MemoryError as error:
            raise SpecliError("memory ran out", "Use a smaller context (-c) or a smaller model.") from error
        except OSError as error:
            raise SpecliError(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error

    return guarded


def complain(error: SpecliError) -> None:
    """Print an error and what to do about it to stderr."""
    print(f"specli: error: {error.message}", file=sys.stderr)
    if error.hint:
        print(error.hint, file=sys.stderr)


def warn(message: str) -> None:
    """Print a warning to stderr."""
    print(f"specli: warning: {message}", file=sys.stderr)


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
