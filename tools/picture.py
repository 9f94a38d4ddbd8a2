"""Records the moving picture of a real run.

termtosvg runs the command in a terminal and writes what that shows, at the pace at which it did, as an animated SVG. It
gets an environment of its own.
"""

import argparse
import os
import pty
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

_ENVIRONMENT = Path(__file__).parents[1] / "build" / "termtosvg"
_PACKAGES = ("termtosvg==1.1.0", "setuptools<80")
_COLUMNS, _LINES = 96, 36
_LONGEST_PAUSE, _AT_THE_END = 3000, 8000  # milliseconds


def _termtosvg() -> Path:
    if not (_ENVIRONMENT / "bin/termtosvg").exists():
        venv.create(_ENVIRONMENT, with_pip=True)
        subprocess.run([_ENVIRONMENT / "bin/pip", "install", "--quiet", *_PACKAGES], check=True)
    return _ENVIRONMENT / "bin/termtosvg"


def main() -> None:
    """Record ``specli run``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the SVG file")
    out = parser.parse_args().out
    shown = shlex.quote("\033[1m$ specli run\033[0m\n")
    script = f"printf {shown}; {shlex.quote(str(Path(sys.executable).parent / 'specli'))} run"
    size = ("-g", f"{_COLUMNS}x{_LINES}")
    pace = ("-m", "40", "-M", str(_LONGEST_PAUSE), "-D", str(_AT_THE_END))
    recording = (str(out), *size, *pace, "-t", "window_frame", "-c", shlex.join(("bash", "-c", script)))
    keyboard, stdin = pty.openpty()  # nobody types, and termtosvg stops recording where its input ends
    subprocess.run([_termtosvg(), *recording], check=True, stdin=stdin)
    os.close(keyboard)
    os.close(stdin)
    drawn = out.read_text(encoding="utf-8")
    out.write_text(re.sub(r"<!--.*?-->", "", drawn, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
