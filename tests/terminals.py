"""Terminals for the tests: an emulator, a pseudo-terminal to run programs in, and tmux."""

import contextlib
import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
import pytest
from pyte.screens import wcwidth

UNSET = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TMUX", "LC_ALL", "LC_CTYPE", "PYTHONUTF8", "COLORTERM")
TIMEOUT = 200.0


CACHE = tempfile.mkdtemp(prefix="specli-tests-")
"""What runs learn must not reach the user's own cache, nor come from there."""


def environment(**changes: str) -> dict[str, str]:
    """The environment without what would change the output, with drafts of 4 tokens, and with these changes."""
    kept = {k: v for k, v in os.environ.items() if k not in UNSET and not k.startswith(("LLAMA_ARG_", "SPECLI_"))}
    fixed = {"XDG_CACHE_HOME": CACHE, "LLAMA_ARG_SPEC_DRAFT_N_MAX": "4"}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **fixed, **changes}


class Emulator(pyte.HistoryScreen):
    """A terminal's screen and scrollback; pyte's, made to wrap as terminals do."""

    def __init__(self, columns: int, lines: int = 24) -> None:
        super().__init__(columns, lines, history=100_000)
        self._stream = pyte.ByteStream(self)

    def receive(self, data: bytes) -> None:
        self._stream.feed(data)

    def draw(self, data: str) -> None:
        for char in data:
            if wcwidth(char) == 2 and self.cursor.x == self.columns - 1:
                self.cursor.x = self.columns  # a wide character does not fit: it wraps whole
            if wcwidth(char) == 0 and self.cursor.x == self.columns:
                self._mark_last(char)
            else:
                super().draw(char)

    def _mark_last(self, mark: str) -> None:
        """Put a mark on the character that fills the row, without wrapping."""
        line, x = self.buffer[self.cursor.y], self.columns - 1
        line[x] = line[x]._replace(data=unicodedata.normalize("NFC", line[x].data + mark))

    def cursor_up(self, count: int | None = None) -> None:
        self._leave_wrap()
        super().cursor_up(count)

    def index(self) -> None:
        waiting = self.cursor.x == self.columns
        super().index()
        if waiting:
            self._leave_wrap()

    def _leave_wrap(self) -> None:
        """Moving ends the wait for the next character to wrap: the cursor stands on the last column."""
        self.cursor.x = min(self.cursor.x, self.columns - 1)

    @property
    def rows(self) -> list[str]:
        """Every row, scrollback first, without the blanks to its right and the empty rows at the end."""
        past = [self._row(line) for line in self.history.top]
        rows = past + [self._row(self.buffer[y]) for y in range(self.lines)]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _row(self, line: dict[int, pyte.screens.Char]) -> str:
        return "".join(line[x].data for x in range(self.columns)).rstrip()


@contextlib.contextmanager
def in_pty(
    command: list[str], columns: int = 80, lines: int = 24, env: dict[str, str] | None = None, **more: object
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a program whose controlling terminal is a new one; gives the process and the terminal's other end."""
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    streams = {"stdin": slave, "stdout": slave, "stderr": slave, **more}

    def take_terminal() -> None:
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        command, env=env or environment(), start_new_session=True, preexec_fn=take_terminal, **streams
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)


def read_until(master: int, enough: Callable[[bytes], bool] = lambda data: False) -> bytes:
    """Read what a program writes to its terminal, to the program's end or until it is enough."""
    data, deadline = b"", time.monotonic() + TIMEOUT
    while not enough(data):
        if not select.select([master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(data)
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        data += chunk
    return data


def run_in_pty(command: list[str], columns: int = 80, lines: int = 24, env: dict[str, str] | None = None) -> bytes:
    """Run a program to its end and return all that it wrote to its terminal."""
    with in_pty(command, columns, lines, env) as (process, master):
        data = read_until(master)
        assert process.wait(TIMEOUT) == 0, data
    return data


def python(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, arguments)]


class Tmux:
    """A tmux server of its own with one window, in which one command runs."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which("tmux"):
            pytest.skip("needs tmux")
        self._base = ["tmux", "-S", str(folder / "socket"), "-u", "-f", "/dev/null"]
        self._done = folder / "done"

    def start(self, command: str, columns: int, lines: int = 20) -> None:
        script = f"{command}; echo $? > {self._done}; sleep 60"
        self._tmux(
            *("start-server", ";", "set", "-g", "history-limit", "50000", ";", "set", "-g", "status", "off", ";"),
            *("new-session", "-d", "-x", str(columns), "-y", str(lines), script),
        )

    @property
    def ended(self) -> bool:
        return self._done.exists() and self._done.read_text().strip() == "0"

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def rows(self) -> list[str]:
        """The screen's rows."""
        return self._tmux("capture-pane", "-p").split("\n")

    def text(self) -> str:
        """Scrollback and screen, wrapped lines joined."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-")

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            assert time.monotonic() < deadline, self.text()[-2000:]
            time.sleep(0.02)

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run([*self._base, *arguments], env=environment(), capture_output=True, check=True)
        return done.stdout.decode()
