"""Take a picture (SVG) of a command in a real terminal: python tools/picture.py OUT.svg COMMAND ARGUMENTS.

Runs the command in tmux, waits for it to end, and draws what the terminal shows then, colours and all.
"""

import io
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

_COLUMNS, _LINES = 100, 60
_SESSION = "specli-picture"
_DONE = "specli-picture-is-done"


def _tmux(*arguments: str) -> str:
    return subprocess.run(["tmux", *arguments], check=True, capture_output=True, text=True).stdout


def _capture(command: list[str]) -> str:
    """What a terminal shows when the command has ended, as text with colour sequences."""
    script = f"{shlex.join(command)}; tmux wait-for -S {_DONE}; sleep 60"
    _tmux("new-session", "-d", "-s", _SESSION, "-x", str(_COLUMNS), "-y", str(_LINES), script)
    try:
        _tmux("wait-for", _DONE)
        time.sleep(0.5)
        return _tmux("capture-pane", "-p", "-e", "-S", "-", "-t", _SESSION)
    finally:
        _tmux("kill-session", "-t", _SESSION)


def _svg(screen: str, title: str) -> str:
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ ", style="bold") + Text(title))
    console.print(Text.from_ansi(screen.rstrip()))
    drawn = console.export_svg(title="specli")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # no fonts from elsewhere


def main() -> None:
    """Draw the command line's picture."""
    out, *command = sys.argv[1:]
    shown = shlex.join([Path(part).name if Path(part).exists() else part for part in command])
    Path(out).write_text(_svg(_capture(command), shown), encoding="utf-8")


if __name__ == "__main__":
    main()
