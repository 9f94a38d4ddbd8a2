"""What bash is told when the Tab key is pressed: commands, flags, names of models, files."""

import subprocess
from pathlib import Path

import pytest
from terminals import environment, python


def completed(words: str, folder: Path) -> list[str]:
    """What would complete the last of the words."""
    count = len(words.split(" ")) - 1
    asked = {"_SPECLI_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    result = subprocess.run(
        python("-m", "specli"),
        capture_output=True,
        text=True,
        env=environment(**asked),
        cwd=folder,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("specli sw", {"sweep"}),
        ("specli run --n-ma", {"--n-max"}),
        ("specli pull qwen2.5-coder-1.", {"qwen2.5-coder-1.5b"}),
        ("specli run --target qwen2.5-coder-1.", {"qwen2.5-coder-1.5b"}),
        ("specli run --draft ./a", {"./a.gguf", "./around/"}),
        ("specli run --target nothing-such", set()),
    ],
)
def test_what_is_completed(words: str, expected: set[str], tmp_path: Path) -> None:
    for name in ("a.gguf", "a.txt", "b.gguf"):
        (tmp_path / name).touch()
    (tmp_path / "around").mkdir()
    assert set(completed(words, tmp_path)) == expected
