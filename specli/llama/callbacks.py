"""Interruptions inside llama.cpp's callbacks: ctypes would drop them, so they are kept and raised after the call."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_interrupted = False


def keeps_interrupt(otherwise: R) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a callback keep a KeyboardInterrupt for ``raise_kept`` and return ``otherwise``."""

    def decorate(callback: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(callback)
        def guarded(*arguments: P.args, **more: P.kwargs) -> R:
            global _interrupted
            try:
                return callback(*arguments, **more)
            except KeyboardInterrupt:
                _interrupted = True
                return otherwise

        return guarded

    return decorate


def raise_kept() -> None:
    """Raise the KeyboardInterrupt that a callback kept, if one did.

    Raises:
        KeyboardInterrupt: The user interrupted while llama.cpp was calling back.
    """
    global _interrupted
    if _interrupted:
        _interrupted = False
        raise KeyboardInterrupt
