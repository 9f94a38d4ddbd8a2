"""The live view: the text as it comes, in the colours of who wrote it, and how drafting fares, below it."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console

from specli.decoding.loop import OnProgress, Round
from specli.decoding.stats import Stats
from specli.report.progress import DelayedBar
from specli.report.status import status_line
from specli.report.terminal import Piece, TextWithStatus

_ACCEPTED = "\x1b[32m"  # green
_REFRESH = 0.1  # seconds between two states of the status line
_LOADING_DELAY, _PREFILL_DELAY = 0.2, 0.3  # seconds
_LONG_PROMPT = 512  # tokens


class LiveView:
    """Shows a text being generated.

    On a terminal: the text with accepted draft tokens in a colour of their own, and a status line below it. Elsewhere:
    the bare text to stdout, and the status on stderr where that is a terminal and stdout is not a pipe, whose other end
    may be writing to the same terminal.

    Args:
        stdout: Where the text goes; None: standard output.
        stderr: Where progress bars go, and the status when stdout is no terminal; None: standard error.
        n_max: The most tokens a round drafts; 0: plain decoding.
        text: False: write nothing to stdout; the status is on stderr.
        stdout_is_terminal: None: ask.
        stderr_is_terminal: None: ask.
    """

    def __init__(
        self,
        stdout: Console | None = None,
        stderr: Console | None = None,
        n_max: int = 0,
        *,
        text: bool = True,
        stdout_is_terminal: bool | None = None,
        stderr_is_terminal: bool | None = None,
    ) -> None:
        self._stdout = stdout or Console()
        self._stderr = stderr or Console(stderr=True)
        self._n_max = n_max
        self._text = text
        # Not rich's opinion, which environment variables can change: control sequences must not get into files.
        on_terminal = text and _is_terminal(self._stdout, stdout_is_terminal)
        self._bars = _is_terminal(self._stderr, stderr_is_terminal) and not _is_dumb()
        self._text_screen = _screen(self._stdout) if on_terminal else None
        self._status_screen = None
        if on_terminal and not _is_dumb():
            self._status_screen, self._status_console = self._text_screen, self._stdout
        elif not on_terminal and self._bars and not (text and _is_pipe(self._stdout)):
            self._status_screen, self._status_console = _screen(self._stderr), self._stderr
        in_colour = self._status_screen is not None and self._stdout.color_system and not self._stdout.no_color
        self._accepted_colour = _ACCEPTED if in_colour else ""
        self._bar: DelayedBar | None = None
        self._status_due = 0.0
        self._status_stats = Stats()
        self._status = _Cached()

    def __enter__(self) -> "LiveView":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()
        for screen in {self._text_screen, self._status_screen} - {None}:
            screen.finish()

    @contextmanager
    def loading(self, name: str) -> Iterator[Callable[[float], None]]:
        """Show how far loading a file is; the callable takes the fraction, 0 to 1."""
        with self._progress(f"Loading {name}", _LOADING_DELAY) as update:
            yield update

    @contextmanager
    def prefilling(self, n_tokens: int) -> Iterator[OnProgress]:
        """Show how far reading a prompt is, if that takes a while; the callable takes (tokens done, tokens in all).

        The bar ends with the first round shown, so rounds may be iterated over within.
        """
        delay = 0.0 if n_tokens > _LONG_PROMPT else _PREFILL_DELAY
        with self._progress(f"Reading the prompt, {n_tokens} tokens", delay) as update:
            yield lambda done, total: update(done / total if total else 1.0)

    @contextmanager
    def _progress(self, label: str, delay: float) -> Iterator[Callable[[float], None]]:
        self._close_bar()
        self._bar = DelayedBar(self._stderr, label, delay) if self._bars else None
        try:
            yield self._bar.update if self._bar else lambda fraction: None
        finally:
            self._close_bar()

    def _close_bar(self) -> None:
        if self._bar:
            self._bar.close()
            self._bar = None
