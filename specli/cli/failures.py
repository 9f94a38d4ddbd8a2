"""How a command ends: exit codes, and errors worded for people."""

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any

import typer

from specli.errors import SpecliError
from specli.llama.decoder import OnProgress
from specli.report.text_cursor import printable

INTERRUPTED_CODE = 130
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)

_held: list[int] = []  # the signal of each interruption since ``hold_interrupts``


def worded(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its exit codes: interruptions, closed pipes, and errors of the system.

    A closed pipe is no failure: whoever read the output had enough.
    """

    @functools.wraps(command)
    def guarded(**values: Any) -> None:
        interrupt_once()
        try:
            command(**values)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to complain at exit
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED_CODE) from None
        except MemoryError as error:
            raise SpecliError("memory ran out", "Use a smaller context (-c) or a smaller model.") from error
        except OSError as error:
            raise of_system(error) from error

    return guarded


def of_system(error: OSError) -> SpecliError:
    """An error of the system in words."""
    what = error.filename or "the output"  # all that is written without a name
    return SpecliError(f"{what}: {error.strerror or error}")


def warn(message: str) -> None:
    """Print a warning to stderr."""
    print(f"specli: warning: {message}", file=sys.stderr)


def complain(error: SpecliError) -> None:
    """Print an error to stderr."""
    print(f"specli: error: {printable(str(error))}", file=sys.stderr)


def note(message: str) -> None:
    """Print what a user may want to know to stderr."""
    print(f"specli: {message}", file=sys.stderr)


def hold_interrupts() -> None:
    """From now on let Ctrl-C interrupt only in ``raise_held``, so that nothing is left half done.

    Raised just anywhere an interruption can be lost, too: callbacks and destructors drop exceptions.
    """

    def on_interrupt(number: int, _frame: object) -> None:
        _held.append(number)

    _on_interrupt(on_interrupt)


def raise_held() -> None:
    """Raise the interruption that came since ``hold_interrupts``, if one did.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    if _held:
        raise KeyboardInterrupt


def forget_interrupts() -> None:
    """Go on after an interruption that was answered by something else than the end.

    Raises:
        KeyboardInterrupt: The end itself was asked for (SIGTERM).
    """
    while signal.SIGINT in _held:
        _held.remove(signal.SIGINT)
    if end_is_asked():
        raise KeyboardInterrupt


def end_is_asked() -> bool:
    """Whether SIGTERM came since ``hold_interrupts``."""
    return signal.SIGTERM in _held


def interruptible(show: OnProgress) -> OnProgress:
    """Let a computation that reports its progress be interrupted there, too."""

    def on_progress(done: int, total: int) -> None:
        raise_held()
        show(done, total)

    return on_progress


def interrupt_once(*numbers: int) -> None:
    """Let the first of these signals interrupt, by default Ctrl-C and SIGTERM.

    Further ones must not cut short the report of what there is.
    """

    def on_interrupt(_number: int, _frame: object) -> None:
        _on_interrupt(signal.SIG_IGN, numbers or _INTERRUPTS)
        raise KeyboardInterrupt

    _on_interrupt(on_interrupt, numbers or _INTERRUPTS)


def _on_interrupt(action: Callable[[int, Any], None] | signal.Handlers, numbers: Iterable[int] = _INTERRUPTS) -> None:
    for number in numbers:
        signal.signal(number, action)
