"""What the names of GGUF files say: parts of a split model, quantisation, what it is a file of."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
_QUANTIZATION = re.compile(r"I?Q\d\w*|TQ\d\w*|MXFP4\w*|NVFP4|BF16|F(?:P)?16|F32", re.IGNORECASE)
_DYNAMIC = "ud"  # before the names of Unsloth's own mixtures


class Part(NamedTuple):
    """A file of a split model.

    Attributes:
        stem: What the names of all parts begin with.
        number: Which it is, from 1.
        of: How many there are.
    """

    stem: str
    number: int
    of: int


def part_of(name: str) -> Part | None:
    """Which part of a split model a file is; None: it is whole."""
    match = _PART.fullmatch(name)
    return Part(match[1], int(match[2]), int(match[3])) if match else None


def parts_of(path: Path) -> list[Path]:
    """The files of a model by one of its parts; one file that is whole is alone."""
    part = part_of(path.name)
    if part is None:
        return [path]
    return [path.with_name(f"{part.stem}-{i:05d}-of-{part.of:05d}.gguf") for i in range(1, part.of + 1)]


def quantization_of(name: str) -> str:
    """The quantisation in a file's name, upper case and without Unsloth's 'UD-'; '' where there is none."""
    return next((word.upper() for word in reversed(_words(name)) if _QUANTIZATION.fullmatch(word)), "")


def model_of(name: str) -> str:
    """What a file is of: its name in lower case without quantisation, part and folder."""
    words = _words(name)
    kept = [word for i, word in enumerate(words) if not _is_quantization(words, i)]
    return "-".join(kept).lower()


def is_projector(name: str) -> bool:
    """Whether it is no model of its own, but what shows images to one."""
    return "mmproj" in PurePosixPath(name).name.lower()


def _is_quantization(words: list[str], i: int) -> bool:
    following: Iterable[str] = words[i + 1 : i + 2] if words[i].lower() == _DYNAMIC else words[i : i + 1]
    return any(_QUANTIZATION.fullmatch(word) for word in following)


def _words(name: str) -> list[str]:
    part = part_of(name)
    stem = part.stem if part else name.removesuffix(".gguf")
    return re.split(r"[-.]", PurePosixPath(stem).name)
