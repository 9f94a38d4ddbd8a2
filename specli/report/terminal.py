"""A growing text with one line kept below it, on a terminal.

Everything below the text's cursor is ours. The text itself is written once, as it is, and wrapped by the terminal, so
it can be copied whole, reflows when the window is resized, and stays in the scrollback with nothing in between.
"""

from collections.abc import Callable, Sequence
from os import terminal_size
from time import monotonic
from typing import NamedTuple

from specli.report.text_cursor import TextCursor, printable

_INDEX, _UP, _DOWN = "\x1bD", "\x1b[A", "\x1b[B"
_SAVE, _RESTORE = "\x1b7", "\x1b8"
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"
_WRAP_OFF, _WRAP_ON = "\x1b[?7l", "\x1b[?7h"
_SMALLEST = terminal_size((10, 2))
_SETTLED = 0.5  # seconds without a change of size


class Piece(NamedTuple):
    """A piece of the text and the escape sequence of its colour ('' for none)."""

    text: str
    colour: str = ""


class TextWithStatus:
    """Writes a text and a status line below it.

    Args:
        write: Writes a string to the terminal at once.
        size: Asks the terminal for its size.
        clock: The time in seconds.
    """

    def __init__(
        self, write: Callable[[str], object], size: Callable[[], terminal_size], clock: Callable[[], float] = monotonic
    ) -> None:
        self._write = write
        self._size = size
        self._clock = clock
        self._size_before = size()
        self._settled_at = clock()
        self._cursor = TextCursor()
        self._colour = ""
        self._has_status = False
        self._on_last = False  # the terminal's cursor stands on the text's last character, not after it
        self._line_is_open = False

    def update(self, pieces: Sequence[Piece], status: Callable[[int], str] | None = None) -> None:
        """Add to the text and draw the status anew.

        Args:
            pieces: What comes next in the text.
            status: Makes the line for a number of columns; None: no status.
        """
        size = self._size()
        if size != self._size_before:
            # While a window is being resized, what it says of its size is late: the text is safe, a status is not.
            self._size_before, self._settled_at = size, self._clock() + _SETTLED
        out = self._erase_status(size.columns)
        for text, colour in pieces:
            if text:
                self._colour = colour
                self._line_is_open = not text.endswith("\n")
                out += _painted(self._cursor.advance(printable(text)), colour)
        if status and self._has_room(size):
            out += self._draw(status, size.columns)
        if out:
            self._write(out)

    def _has_room(self, size: terminal_size) -> bool:
        big_enough = size.columns >= _SMALLEST.columns and size.lines >= _SMALLEST.lines
        return big_enough and self._clock() >= self._settled_at

    def finish(self) -> None:
        """Erase the status and leave the cursor at the start of a line."""
        out = self._erase_status(self._size().columns)
        if self._line_is_open:
            out += "\n"
            self._line_is_open = False
        if out:
            self._write(out)

    def _erase_status(self, columns: int) -> str:
        """Erase what is below the text and bring the cursor back to its end."""
        if not self._has_status:
            return ""
        self._has_status = False
        step_back = ""
        if not self._on_last and self._cursor.fills_row(columns):  # it does since the window was resized
            step_back, self._on_last = self._to_last(), True
        out = _below(_ERASE_BELOW, step_back)
        if self._on_last:
            self._on_last = False
            out += _painted(self._cursor.last, self._colour)
        return out

    def _draw(self, status: Callable[[int], str], columns: int) -> str:
        fills_row = self._cursor.fills_row(columns)
        if fills_row is None:  # the cursor could not be brought back for sure
            return ""
        self._has_status, self._on_last = True, fills_row
        # Unwrapped: a window made narrower this very moment must not move the text.
        line = f"{_ERASE_LINE}{_WRAP_OFF}{status(columns - 1)}{_WRAP_ON}"
        return _below(line, self._to_last() if fills_row else "")

    def _to_last(self) -> str:
        """Go from the end of a full row, where moving has made the cursor stand on it, to the last character."""
        return "\b" * (self._cursor.last_cells - 1)


def _below(action: str, step_back: str) -> str:
    """Do something at the start of the line below the text, which is made where the screen ends.

    Never at the text's cursor itself: erasing from the top left corner counts as clearing the screen in tmux, which
    keeps what was there in the scrollback.
    """
    return f"{_INDEX}{_UP}{step_back}{_SAVE}{_DOWN}\r{action}{_RESTORE}"


def _painted(text: str, colour: str) -> str:
    return f"{colour}{text}\x1b[0m" if colour else text
