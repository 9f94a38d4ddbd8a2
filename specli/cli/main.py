"""The ``specli`` program: what comes before and after a command."""

import io
import os
import signal
import sys

from specli.cli import child
from specli.errors import SpecliError


def main() -> None:
    """Run the command line: commands that load models in a child process, everything else here."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback before a command is there to handle it
    child.let_interrupt()
    _open_what_is_closed()
    arguments = sys.argv[1:]
    if child.wanted(arguments):
        sys.exit(child.run(arguments))
    _write_any_character()
    try:
        sys.exit(_execute(arguments))
    except SpecliError as error:
        if "--debug" in arguments:
            raise
        from specli.cli.failures import complain

        complain(error)
        sys.exit(error.exit_code)


def _execute(arguments: list[str]) -> int:
    from specli.cli.execution import execute  # slower to import than all that the parent of a child process does

    if arguments[:1] == ["doctor"]:
        from specli.cli import doctor  # without llama.cpp, which may be what is broken

        return execute(doctor.app, arguments)
    try:
        from specli.cli.app import app
    except (ImportError, OSError, RuntimeError) as error:  # what llama_cpp raises without its library
        if isinstance(error, ImportError) and error.name != "llama_cpp":
            raise
        raise SpecliError(f"llama.cpp cannot be loaded: {error}", "specli doctor says more.") from error
    return execute(app, arguments)


def _open_what_is_closed() -> None:
    """Give output that nobody wants (``>&-``) a place to go, before another file gets its number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115 (for good)


def _write_any_character() -> None:
    """Write UTF-8, or on a terminal of another encoding '?' for what that lacks; never fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")
