"""The live view: the text as it comes, in the colours of who wrote it, and how drafting fares, below it."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import IO

from rich.console import Console

from specli.decoding.round import Round
from specli.decoding.stats import Stats
from specli.llama.decoder import OnProgress
from specli.report.progress import DelayedBar
from specli.report.reasoning_text import Part, ReasoningText
from specli.report.status import status_line
from specli.report.terminal import Piece, TextWithStatus

_ACCEPTED, _REASONING = "\x1b[32m", "\x1b[2m"  # green, dim
_REFRESH = 0.1  # seconds between two states of the status line
_LOADING_DELAY, _PREFILL_DELAY = 0.2, 0.3  # seconds
_LONG_PROMPT = 512  # tokens
_UNKNOWN_SIZE = os.terminal_size((80, 24))


class LiveView:
    """Shows a text being generated; leaving it erases the status and ends the text's last line.

    On a terminal: the text with accepted draft tokens in a colour of their own, and a status line below it. Elsewhere:
    the bare text to stdout, and the status on stderr where that is a terminal and stdout is not a pipe, whose other end
    may be writing to the same terminal.

    Args:
        stdout: Where the text goes; None: standard output.
        stderr: Where progress bars go, and the status when stdout is no terminal; None: standard error.
        n_max: The most tokens a round drafts; 0: plain decoding; None: automatic.
        text: False: write nothing to stdout; the status is on stderr.
        stdout_is_terminal: None: ask.
        stderr_is_terminal: None: ask.
    """

    def __init__(
        self,
        stdout: Console | None = None,
        stderr: Console | None = None,
        n_max: int | None = 0,
        *,
        text: bool = True,
        stdout_is_terminal: bool | None = None,
        stderr_is_terminal: bool | None = None,
    ) -> None:
        stdout, stderr = stdout or Console(), stderr or Console(stderr=True)
        # Not rich's opinion, which environment variables can change: control sequences must not get into files.
        on_terminal = text and _is_terminal(stdout.file, stdout_is_terminal)
        stderr_is_capable = _is_terminal(stderr.file, stderr_is_terminal) and not _is_dumb()
        self._bar_console = stderr if stderr_is_capable else None
        self._bar: DelayedBar | None = None

        self._text: TextWithStatus | _BareText | None = None
        self._status_screen: TextWithStatus | None = None
        if on_terminal:
            self._text = screen = _screen(stdout.file)
            self._status_screen = None if _is_dumb() else screen
        else:
            self._text = _BareText(stdout.file) if text else None
            if stderr_is_capable and not (text and _is_pipe(stdout.file)):
                self._status_screen = _screen(stderr.file)
        console = stdout if on_terminal else stderr
        self._status = _Status(console, n_max)
        can_paint = on_terminal and not _is_dumb() and console.color_system is not None
        self._accepted_colour = _ACCEPTED if can_paint and not console.no_color else ""
        self._reasoning_colour = _REASONING if can_paint else ""
        self._reasoning = ReasoningText()

    def __enter__(self) -> "LiveView":
        return self

    def __exit__(self, *exception: object) -> None:
        self._close_bar()
        for screen in (self._text, self._status_screen):
            if isinstance(screen, TextWithStatus):
                screen.finish()

    @contextmanager
    def loading(self, name: str) -> Iterator[Callable[[float], None]]:
        """Show how far loading a file is; the callable takes the fraction, 0 to 1."""
        with self._progress(f"Loading {name}", _LOADING_DELAY) as update:
            yield update

    @contextmanager
    def prefilling(self, n_tokens: int) -> Iterator[tuple[OnProgress, OnProgress]]:
        """Show how far target and draft model are with reading a prompt, if that takes a while.

        The callables, for one and the other, take (tokens done, tokens in all). The bar ends with the first round
        shown, so rounds may be iterated over within.
        """
        delay = 0.0 if n_tokens > _LONG_PROMPT else _PREFILL_DELAY
        label = f"Reading the prompt, {n_tokens} tokens"
        with self._progress(label, delay) as update:
            yield (
                lambda done, total: update(done / total),
                lambda done, total: update(done / total, f"Draft model: {label.lower()}"),
            )

    @contextmanager
    def recording(self) -> Iterator[OnProgress]:
        """Show how far recording a trace is; the callable takes (positions done, positions in all)."""
        with self._progress("Recording what drafters propose", 0.0) as update:
            yield lambda done, total: update(done / total)

    def begin(self, prompt: str) -> None:
        """Begin a text after a prompt, or the end of one: it may have begun the reasoning, which is dimmed."""
        self._reasoning = ReasoningText(prompt)

    def show(self, round_: Round, stats: Stats) -> None:
        """Show what a round added to the text, and the status after it."""
        self._close_bar()
        colours = [self._accepted_colour] * round_.n_accepted + [""] * (len(round_.texts) - round_.n_accepted)
        ended = round_.stop_reason is not None
        changed = self._status.refresh(stats, at_once=ended)
        self._update(self._painted(zip(round_.texts, colours, strict=True), ended=ended), changed)

    def write(self, text: str) -> None:
        """Write text that belongs to no round, such as what an interruption found held back, and ends the text."""
        self._close_bar()
        self._update(self._painted([(text, "")], ended=True), status_changed=False)

    def _painted(self, texts: Iterable[tuple[str, str]], *, ended: bool) -> list[Piece]:
        """Texts with their colours, and what of them is reasoning dimmed."""
        parts = [part for text in texts for part in self._reasoning.push(*text)]
        parts += self._reasoning.flush() if ended else ()
        return list(map(self._piece, parts))

    def _piece(self, part: Part) -> Piece:
        return Piece(part.text, (self._reasoning_colour if part.is_reasoning else "") + part.colour)

    def _update(self, pieces: Sequence[Piece], status_changed: bool) -> None:
        together = self._text is self._status_screen
        if self._text:
            self._text.update(pieces, self._status.render if together else None)
        if self._status_screen and not together and status_changed:
            self._status_screen.update((), self._status.render)

    @contextmanager
    def _progress(self, label: str, delay: float) -> Iterator[Callable[..., None]]:
        self._close_bar()
        if self._bar_console is None:
            yield lambda fraction, label=None: None
            return
        self._bar = DelayedBar(self._bar_console, label, delay)
        try:
            yield self._bar.update
        finally:
            self._close_bar()

    def _close_bar(self) -> None:
        if self._bar:
            self._bar.close()
            self._bar = None


class _Status:
    """The status line as it was last refreshed, for any width."""

    def __init__(self, console: Console, n_max: int | None) -> None:
        self._console = console
        self._n_max = n_max
        self._due = 0.0
        self._stats = Stats()
        self._rendered: tuple[int, str] | None = None

    def refresh(self, stats: Stats, at_once: bool) -> bool:
        """Take over the present state of things if it is time to; return whether it was."""
        now = time.monotonic()
        if now < self._due and not at_once:
            return False
        self._due = now + _REFRESH
        self._stats = copy(stats)
        self._rendered = None
        return True

    def render(self, columns: int) -> str:
        if self._rendered is None or self._rendered[0] != columns:
            line = status_line(self._stats, self._n_max, columns)
            with self._console.capture() as capture:
                self._console.print(line, end="", soft_wrap=True)
            self._rendered = columns, capture.get()
        return self._rendered[1]


class _BareText:
    """A text that goes to a file or a pipe, untouched."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def update(self, pieces: Sequence[Piece], status: object = None) -> None:
        _write_at_once(self._file, "".join(piece.text for piece in pieces))


def _screen(file: IO[str]) -> TextWithStatus:
    def size() -> os.terminal_size:
        try:
            found = os.get_terminal_size(file.fileno())
        except (OSError, ValueError):
            return _UNKNOWN_SIZE
        return found if found.columns else _UNKNOWN_SIZE

    return TextWithStatus(partial(_write_at_once, file), size)


def _write_at_once(file: IO[str], text: str) -> None:
    file.write(text)
    file.flush()


def _is_terminal(file: IO[str], known: bool | None) -> bool:
    return file.isatty() if known is None else known


def _is_pipe(file: IO[str]) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _is_dumb() -> bool:
    return os.environ.get("TERM") in ("dumb", "unknown")
