"""The live view: the text whole and in order in any terminal, one status line below it, no trace of that at the end."""

import io
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fake_run
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from terminals import Emulator, Tmux, environment, in_pty, python, read_until, run_in_pty

from specli.decoding.stats import Stats
from specli.report.live import LiveView
from specli.report.status import status_line
from specli.report.terminal import Piece, TextWithStatus
from specli.report.text_cursor import TextCursor, printable

FAKE = Path(fake_run.__file__)
STATUS = re.compile(r"accepted (\d+)/(\d+) · (?:rejected \d+ · )?\d+ % · (?:τ \d+\.\d\d · )?\d+\.\d tok/s")
N_LEFT_BEHIND = 8  # a window resized to where the text fills a row can keep a few characters of a status
ESCAPE = b"\x1b"
GREEN, RED_TEXT = b"\x1b[32m", b"\x1b[31m"


def shown(text: str) -> str:
    """The text as a terminal should get it: control characters made visible, tabs as spaces."""
    return TextCursor().advance(printable(text))


def plainly(text: str, columns: int) -> list[str]:
    """The rows that a terminal makes of a text alone."""
    screen = Emulator(columns)
    screen.receive(shown(text).replace("\n", "\r\n").encode())
    return screen.rows


class _Screen:
    """The text with its status on an emulated terminal."""

    def __init__(self, columns: int, lines: int) -> None:
        self.terminal = Emulator(columns, lines)
        self.written = ""
        self.view = TextWithStatus(self._write, lambda: os.terminal_size((columns, lines)), clock=lambda: 0.0)

    def _write(self, data: str) -> None:
        self.terminal.receive(data.replace("\n", "\r\n").encode())

    def update(self, text: str, status: bool = True) -> None:
        self.written += text
        self.view.update([Piece(text)], (lambda columns: "STATUS"[:columns]) if status else None)


WORDS = st.sampled_from(
    ["a", "word ", "\n", "\n\n", "列", "表的", "🎉", "e\u0301", "\t", "\x1b[2J", "x" * 37, "界" * 19]
)


@given(st.lists(WORDS, max_size=60), st.integers(10, 45), st.integers(2, 9))
@settings(deadline=None, max_examples=150)
def test_after_every_piece_the_terminal_shows_the_text_and_one_status_line_below(
    pieces: list[str], columns: int, lines: int
) -> None:
    screen = _Screen(columns, lines)
    for piece in pieces:
        screen.update(piece)
        *text, status = screen.terminal.rows
        assert status == "STATUS"
        _same_rows(text, plainly(screen.written, columns))
    screen.view.finish()
    _same_rows(screen.terminal.rows, plainly(screen.written, columns))
    assert screen.terminal.cursor.x == 0


def _same_rows(found: list[str], expected: list[str]) -> None:
    while found and not found[-1]:
        found = found[:-1]
    assert found == expected


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_text_comes_through_a_terminal_whole(columns: int) -> None:
    """Scrollback and screen hold the text's rows and nothing else."""
    raw = run_in_pty(python(FAKE, "--repeat", 2, "--load", 0.5), columns)
    screen = Emulator(columns)
    screen.receive(raw)
    *rows, last = screen.rows
    assert last.startswith("shown:")
    assert rows == plainly(fake_run.TEXT * 2, columns)


def test_control_characters_of_the_text_are_shown_not_obeyed() -> None:
    raw = run_in_pty(python(FAKE, "--n-max", 0), 80)
    for sequence in (b"\x1b[2J", b"\x1b]0", b"\x07", b"\x7f", b"\x08s", "\x9b".encode()):
        assert sequence not in raw
    screen = Emulator(80)
    screen.receive(raw)
    assert "Hijack: ␛[2J␛]0;title␇ bell␇ del␡ csi�31m back␈space" in screen.rows


def test_accepted_tokens_are_coloured_and_no_others() -> None:
    accepted = re.findall(rb"\x1b\[32m([^\x1b]*)\x1b\[0m", run_in_pty(python(FAKE, "--n-max", 4), 200))
    text = b"".join(accepted).decode()
    rounds = list(fake_run.rounds(fake_run.TEXT, 0, 4))
    expected = "".join(piece for round_ in rounds for piece in round_.texts[: round_.n_accepted])
    counts = {str(round_.n_accepted) for round_ in rounds}
    assert _without_numbers(text) == _without_numbers(shown(expected)) and counts > {"0", "4"}
    assert GREEN not in run_in_pty(python(FAKE, "--n-max", 0), 200)


def test_reasoning_is_dimmed(monkeypatch) -> None:
    """And what of it was drafted is in the drafts' colour all the same."""
    monkeypatch.setenv("TERM", "xterm")
    out, quiet = io.StringIO(), Console(file=io.StringIO())
    round_ = replace(next(fake_run.rounds("x", 0, 4)), texts=("why", "</think>", "so"), n_accepted=1)
    terminal = Console(file=out, force_terminal=True, color_system="standard")
    with LiveView(terminal, quiet, stdout_is_terminal=True) as view:
        view.begin("assistant\n<think>\n")
        view.show(round_, Stats())
    text = out.getvalue().partition("\x1bD")[0]  # what comes next is the status
    assert text == "\x1b[2m\x1b[32mwhy\x1b[0m\x1b[2m</think>\x1b[0mso"


def _without_numbers(text: str) -> str:
    return re.sub(r"[\d\s]", "", text)  # the status colours its numbers; a tab's width depends on what is before it


def test_no_colour_where_it_is_not_wanted() -> None:
    raw = run_in_pty(python(FAKE), 80, env=environment(NO_COLOR="1"))
    assert not re.search(rb"\x1b\[[\d;]*(3\d|4\d|9\d)[\d;]*m", raw)
    screen = Emulator(80)
    screen.receive(raw)
    assert screen.rows[:-1] == plainly(fake_run.TEXT, 80)


def test_a_dumb_terminal_gets_the_bare_text() -> None:
    raw = run_in_pty(python(FAKE, "--load", 0.5), 80, env=environment(TERM="dumb"))
    assert ESCAPE not in raw
    assert raw.decode().replace("\r\n", "\n").startswith(shown(fake_run.TEXT) + "\nshown:")


def test_a_pipe_gets_the_text_as_it_is() -> None:
    """Not a byte of it is changed, and there is no status anywhere."""
    done = subprocess.run(python(FAKE), env=environment(), capture_output=True, check=True)
    assert done.stdout.decode() == fake_run.TEXT
    assert done.stderr.decode().startswith("shown:")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_status_line_is_there_while_the_text_comes(columns: int) -> None:
    with in_pty(python(FAKE, "--repeat", 20, "--delay", 0.002), columns) as (_, master):
        screen, seen = Emulator(columns), []
        for _ in range(30):
            chunk = read_until(master, lambda data: data.endswith((b"\x1b8", b"\x1b[0m", b"\x1b[?7h")))
            screen.receive(chunk)
            if found := [STATUS.search(row) for row in screen.rows[-1:]]:
                seen += [match for match in found if match]
    assert len(seen) >= 10
    accepted, drafted = map(int, seen[-1].groups())
    assert 0 < accepted < drafted


@pytest.mark.parametrize("columns", [*range(10, 100), 200])
@pytest.mark.parametrize("n_max", [0, 4])
def test_the_status_fits_and_drops_what_matters_least(columns: int, n_max: int) -> None:
    stats = Stats(tokens=4956, rounds=1500, drafted=6000, accepted=3456, rejected=2544, decode_seconds=40.0)
    line = status_line(stats, n_max, columns).plain
    assert 0 < len(line) <= columns
    if n_max and columns >= 39:  # a terminal of 40 columns, whose last is left free
        assert STATUS.match(line)
    assert ("n-max" in line) == bool(n_max and columns >= 74)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    terminal = Tmux(tmp_path)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_tmux_shows_text_and_status(tmux: Tmux, columns: int) -> None:
    tmux.start(" ".join(python(FAKE, "--delay", 0.01)), columns)
    tmux.wait(lambda: any(STATUS.search(row) for row in tmux.rows()))
    *_, status = [row for row in tmux.rows() if row]
    assert STATUS.search(status)
    tmux.wait(lambda: tmux.ended)
    assert _letters(tmux.text().rsplit("\nshown:", 1)[0]) == _letters(shown(fake_run.TEXT))


@pytest.mark.parametrize("seed", [1, 2])
def test_resizing_loses_nothing(tmux: Tmux, seed: int) -> None:
    rng = random.Random(seed)
    tmux.start(" ".join(python(FAKE, "--repeat", 4, "--delay", 0.005, "--seed", seed)), 80)
    tmux.wait(lambda: any(STATUS.search(row) for row in tmux.rows()))
    n_resizes = 0
    while not tmux.ended:
        tmux.resize(rng.randint(20, 200), rng.randint(5, 40))
        n_resizes += 1
        time.sleep(rng.choice((0.05, 0.3, 0.7)))
    assert n_resizes > 4
    shown_letters = _letters(tmux.text().rsplit("\nshown:", 1)[0])
    expected = _letters(shown(fake_run.TEXT * 4))
    rest = iter(shown_letters)
    assert all(letter in rest for letter in expected)  # every character, in order
    assert len(shown_letters) - len(expected) <= N_LEFT_BEHIND


def _letters(text: str) -> str:
    """What a terminal is sure to keep: tmux joins what belongs to one cell in its own ways."""
    return re.sub(r"[\s\u200d\ufe0f\u0301]", "", text)
