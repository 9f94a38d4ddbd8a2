"""The line settings of the terminal on standard input, where the system has such: Windows does not."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import termios
except ImportError:
    termios = None  # type: ignore[assignment]


def line_settings() -> list[object] | None:
    """What they are; None: there are none."""
    return list(termios.tcgetattr(sys.stdin)) if termios and sys.stdin.isatty() else None


def set_line_settings(settings: list[object]) -> None:
    """Put them back."""
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)  # type: ignore[arg-type]


@contextmanager
def keys_unseen() -> Iterator[None]:
    """Neither show nor interpret what is typed meanwhile, save Ctrl-C and the like; it waits for the next prompt."""
    settings = line_settings()
    if settings is None:
        yield
        return
    quiet = list(settings)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)  # type: ignore[operator]
    set_line_settings(quiet)
    try:
        yield
    finally:
        set_line_settings(settings)
