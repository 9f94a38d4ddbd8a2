"""Where a terminal's cursor stands after a text, worked out without asking the terminal."""

import unicodedata

_TAB = 8
_ZERO_WIDTH_JOINER = "\u200d"
_EMOJI_VARIATION = "\ufe0f"
_UNSAFE = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_UNSAFE |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def printable(text: str) -> str:
    """Return the text with control characters other than newline and tab made visible, so that none is obeyed."""
    return text.translate(_UNSAFE)


def cell_range(char: str, before: str) -> tuple[int, int]:
    """Return the fewest and the most columns terminals give a character that follows another.

    They agree on nearly all; they differ on joined emoji, on variants, and on what is newer than they are.
    """
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return 1, 1
    if char == _EMOJI_VARIATION:
        return 0, 1
    category = unicodedata.category(char)
    if category in ("Mn", "Me") or char == _ZERO_WIDTH_JOINER:
        return 0, 0
    wide = unicodedata.east_asian_width(char) in "WF"
    if before == _ZERO_WIDTH_JOINER or 0x1F3FB <= code <= 0x1F3FF:  # joined; skin tones
        return 0, 2
    if category in ("Mc", "Cf") or 0x1160 <= code <= 0x11FF:  # spacing marks; formats; Hangul's inner letters
        return 0, 1
    if category in ("Cn", "Co") or 0x1F1E6 <= code <= 0x1F1FF:  # unknown here; private; halves of flags
        return 1, 2
    return (2, 2) if wide else (1, 1)


class TextCursor:
    """Follows a text, to tell at any width whether its end fills a row.

    There a terminal's cursor waits on the last column for the next character to wrap, a state that does not survive
    moving the cursor, and moving differs from terminal to terminal.

    Attributes:
        last: The last character of the current line, with the marks on it; empty at the line's start.
    """

    def __init__(self) -> None:
        self._start_line()

    def _start_line(self) -> None:
        self.last = ""
        self._before = ""
        self._cells: list[tuple[int, int]] = []
        self._columns = 0
        self._measure_at(0)

    def _measure_at(self, width: int) -> None:
        self._width = width
        self._n_placed = 0
        self._narrow = self._wide = (0, 0)

    def advance(self, text: str) -> str:
        """Follow more of the text; return it with its tabs as spaces, which wrap where tabs would vanish."""
        out = []
        for char in text:
            if char == "\t":
                spaces = " " * (_TAB - self._columns % _TAB)
                out.append(spaces)
                for space in spaces:
                    self._put(space)
                continue
            out.append(char)
            if char == "\n":
                self._start_line()
            else:
                self._put(char)
        return "".join(out)

    def _put(self, char: str) -> None:
        cells = cell_range(char, self._before)
        self._before = char
        self._cells.append(cells)
        self._columns += cells[1]
        self.last = char if cells[1] and char != _EMOJI_VARIATION else self.last + char

    def fills_row(self, width: int) -> bool | None:
        """Return whether the text's end fills a row of this width; None: terminals may differ."""
        if width != self._width:
            self._measure_at(width)
        for narrow, wide in self._cells[self._n_placed :]:
            self._narrow = _after(self._narrow, narrow, width)
            self._wide = _after(self._wide, wide, width)
        self._n_placed = len(self._cells)
        row, column = self._wide
        if self._narrow == self._wide:
            return column == width
        return False if self._narrow[0] == row and column < width else None

    @property
    def last_cells(self) -> int:
        """Columns that ``last`` takes."""
        return next((wide for _, wide in reversed(self._cells) if wide), 0)


def _after(place: tuple[int, int], cells: int, width: int) -> tuple[int, int]:
    """Return (row, column) after one more character; column = width: the row is full and the wrap still to come."""
    row, column = place
    return (row, column + cells) if column + cells <= width else (row + 1, cells)
