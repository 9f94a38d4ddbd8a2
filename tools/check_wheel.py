"""Builds the wheel and tries it as its users would: pip, pipx and uv, each in an empty home: make check-wheel.

llama-cpp-python is built once, beforehand; everything else comes as it does for anybody.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from importlib.metadata import requires
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_BUILD = _ROOT / "build" / "wheels"
_INSIDE = (
    "specli/models/models.toml",
    "specli/bench/prompts.jsonl",
    "specli/bench/stories.jsonl",
    "specli/stories/stories.gguf",
    "specli/stories/stories-draft.gguf",
    "specli/stories/MODEL_CARD.md",
)


def main() -> None:
    """Build, look inside, install in three ways, and use each."""
    wheel = build()
    missing = set(_INSIDE) - set(zipfile.ZipFile(wheel).namelist())
    if missing:
        sys.exit(f"{wheel.name} lacks {', '.join(sorted(missing))}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder:
        for install in (with_pip, with_pipx, with_uv):
            home = Path(folder) / install.__name__
            home.mkdir()
            use(install.__name__.removeprefix("with_"), install(wheel, home), home)


def build() -> Path:
    """The wheel, and beside it the one of llama-cpp-python that it needs."""
    for old in _BUILD.glob("specli-*"):
        old.unlink()
    [llama] = [name for name in requires("specli") or () if name.startswith("llama-cpp-python")]
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(_BUILD))
    _run(*pip, "--no-binary", "llama-cpp-python", llama)
    _run(*pip, str(_ROOT))
    [wheel] = _BUILD.glob("specli-*.whl")
    return wheel


def with_pip(wheel: Path, home: Path) -> Path:
    """``pip install`` in a new environment."""
    venv.create(home / "venv", with_pip=True)
    _run(str(home / "venv/bin/pip"), "install", "--quiet", "--find-links", str(_BUILD), str(wheel))
    return home / "venv/bin/specli"


def with_pipx(wheel: Path, home: Path) -> Path:
    """``pipx install``."""
    tool = _tool("pipx", home)
    places = {"PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "bin")}
    _run(tool, "install", "--pip-args", f"--find-links {_BUILD}", str(wheel), **places)
    return home / "bin/specli"


def with_uv(wheel: Path, home: Path) -> Path:
    """``uv tool install``."""
    tool = _tool("uv", home)
    places = {"UV_TOOL_DIR": "uv", "UV_TOOL_BIN_DIR": "bin", "UV_CACHE_DIR": "cache"}
    options = ("--quiet", "--python", sys.executable, "--find-links", str(_BUILD))
    _run(tool, "tool", "install", *options, str(wheel), **{name: str(home / place) for name, place in places.items()})
    return home / "bin/specli"


def use(way: str, specli: Path, home: Path) -> None:
    """Run what an installation must be able to do, with nothing of the user's in reach.

    Args:
        way: How it was installed.
        specli: The program.
        home: An empty home.
    """
    empty = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

    def output(*arguments: str) -> str:
        command = [specli, *arguments]
        return subprocess.run(command, env=empty, cwd=home, check=True, capture_output=True, text=True).stdout

    first, total, text = timed_story(specli, home, empty)
    checks = {
        "--version": re.match(r"specli \d+\.\d+", output("--version")),
        "models --all": "qwen2.5-coder-1.5b" in output("models", "--all"),
        "doctor": json.loads(output("doctor", "--format", "json"))["failure"] is None,
        "run": text.endswith(("\nThe end.", "\n完。")),
    }
    if failed := [command for command, passed in checks.items() if not passed]:
        sys.exit(f"{way}: not as it should be: specli {', '.join(failed)}")
    print(f"{way}: a story of {len(text.split())} words; first word after {first:.1f} s, all after {total:.1f} s")


def timed_story(specli: Path, folder: Path, environment: dict[str, str]) -> tuple[float, float, str]:
    """``specli run``: seconds to the first character and to the end, and the text."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [specli, "run"],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    first = process.stdout.read(1)
    seconds = time.perf_counter() - started
    rest = process.stdout.read()
    if process.wait():
        sys.exit(f"{specli} run: exit code {process.returncode}")
    return seconds, time.perf_counter() - started, (first + rest).decode()


def _tool(name: str, home: Path) -> str:
    """A program from the package index, in an environment of its own."""
    venv.create(home / f"{name}-venv", with_pip=True)
    _run(str(home / f"{name}-venv/bin/pip"), "install", "--quiet", name)
    return str(home / f"{name}-venv/bin/{name}")


def _run(*command: str, **changes: str) -> None:
    subprocess.run(command, check=True, cwd=_ROOT, env={**os.environ, **changes}, stdout=sys.stderr)


if __name__ == "__main__":
    main()
