"""Sets of prompts: read from files of the common shapes, and chosen from."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from specli.errors import SpecliError, UsageError

_SUFFIXES = (".jsonl", ".txt", ".md")
_TEXT = "text"


@dataclass(frozen=True)
class Prompt:
    """One question, or a conversation of several.

    Attributes:
        id: Its name, unique within its category.
        category: What kind of question it is.
        turns: What the user says, turn by turn; the model's own answers stand between.
        system: The system message, if there is one.
    """

    id: str
    category: str
    turns: tuple[str, ...]
    system: str | None = None


def default_prompts() -> list[Prompt]:
    """The set inside the package."""
    return _inside("prompts.jsonl")


def story_prompts() -> list[Prompt]:
    """The set for the pair inside the package, which can only tell stories."""
    return _inside("stories.jsonl")


def read_prompts(paths: Sequence[Path]) -> list[Prompt]:
    """Read files: one JSON object a line (.jsonl), else a text that is one prompt; of folders all such files.

    A JSON object has ``turns`` (Spec-Bench, SPEED-Bench), ``messages`` (whose own answers are left out: the model
    gives its own) or ``prompt``, and may have ``question_id`` or ``id`` and ``category``.

    Raises:
        SpecliError: A file that cannot be read, or a line that is no prompt, by number.
        UsageError: No prompts, or one twice.
    """
    prompts = [prompt for path in paths for file in _files(path) for prompt in _read(file)]
    if not prompts:
        raise UsageError(f"--prompts {', '.join(map(str, paths))}: there are no prompts in it")
    seen = set()
    for prompt in prompts:
        if (name := (prompt.category, prompt.id)) in seen:
            raise UsageError(f"--prompts: question {prompt.id} of category {prompt.category} is there twice")
        seen.add(name)
    return prompts


def choose(
    prompts: Sequence[Prompt], categories: Sequence[str] = (), limit: int | None = None, seed: int | None = None
) -> list[Prompt]:
    """Choose prompts.

    Args:
        prompts: Those there are.
        categories: The wanted ones, in that order; none: all.
        limit: The most of each category.
        seed: Which of them; None: the first.

    Raises:
        UsageError: There is no such category.
    """
    by_category: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    for name in categories:
        if name not in by_category:
            raise UsageError(f"--categories {name}: not one of {', '.join(by_category)}")
    chosen = []
    for name in dict.fromkeys(categories or by_category):
        group = by_category[name]
        if seed is not None:
            group = random.Random(f"{seed} {name}").sample(group, len(group))
        chosen += group[:limit]
    return chosen


def _inside(name: str) -> list[Prompt]:
    return list(_parse_lines((files("specli.bench") / name).read_text(encoding="utf-8"), name))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())


def _read(path: Path) -> list[Prompt]:
    if path.is_char_device() or path.is_block_device():
        raise SpecliError(f"--prompts {path}: a device, not a file")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SpecliError(f"--prompts {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecliError(f"--prompts {path}: not text in UTF-8 (byte {error.start})") from error
    if path.suffix == ".jsonl":
        return list(_parse_lines(text, str(path)))
    if not text.strip():
        raise SpecliError(f"--prompts {path}: empty")
    return [Prompt(path.name, _TEXT, (text.removesuffix("\n"),))]


def _parse_lines(text: str, name: str) -> Iterator[Prompt]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _parse(json.loads(line), f"{Path(name).stem}:{number}")
            except (ValueError, TypeError, RecursionError) as error:
                raise SpecliError(f"--prompts {name}, line {number}: {error}") from error


def _parse(row: Any, name: str) -> Prompt:
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    system, turns = None, row.get("turns")
    if turns is None and "messages" in row:
        system, turns = _conversation(row["messages"])
    if turns is None and "prompt" in row:
        turns = [row["prompt"]]
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
        raise ValueError("neither turns, messages nor prompt holds a question")
    given = row.get("question_id", row.get("id", name))
    return Prompt(str(given), str(row.get("category", _TEXT)), tuple(turns), system)


def _conversation(messages: Any) -> tuple[str | None, list[Any]]:
    """The system message and what the user says."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError("messages is not a list of objects with role and content")
    said = {role: [m.get("content") for m in messages if m.get("role") == role] for role in ("system", "user")}
    system = "\n".join(map(str, said["system"])) if said["system"] else None
    return system, said["user"]
