"""llama.cpp's log: kept, searched for facts, printed only when asked."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import llama_cpp

from specli.llama.callbacks import keeps_interrupt

_CONTINUED = 5  # GGML_LOG_LEVEL_CONT: the text goes on the line before

_captures: list[list[str]] = []
_verbose = False


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
@keeps_interrupt(None)
def _on_log(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    line = text.decode("utf-8", errors="replace")
    for capture in _captures:
        if level == _CONTINUED and capture:
            capture[-1] += line
        else:
            capture.append(line)
    if _verbose:
        sys.stderr.write(line)


def install(*, verbose: bool = False) -> None:
    """Take over llama.cpp's log.

    Args:
        verbose: Also print it to stderr as it comes.
    """
    global _verbose
    _verbose = verbose
    llama_cpp.llama_log_set(_on_log, ctypes.c_void_p(0))


@contextmanager
def capture() -> Iterator[list[str]]:
    """Collect the lines logged inside the ``with`` block."""
    lines: list[str] = []
    _captures.append(lines)
    try:
        yield lines
    finally:
        _captures[:] = [capture for capture in _captures if capture is not lines]


def failure(lines: list[str]) -> str:
    """Pick the line of a failed call that says why, without the function's name."""
    words = ("error", "fail", "insufficient", "unable", "cannot", "does not divide")
    failures = [line.split(": ", 1)[-1].strip() for line in lines if any(word in line.lower() for word in words)]
    return failures[0] if failures else "no reason given; --verbose shows llama.cpp's log"
