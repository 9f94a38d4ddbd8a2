"""The header of a GGUF file: enough of it to say what is wrong with a file before llama.cpp is asked to load it."""

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from specli.errors import SpecliError

_MAGIC = b"GGUF"
_NEWEST_VERSION = 3
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_ENCODERS = (
    *("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "modern-bert", "neo-bert", "eurobert"),
    *("gemma-embedding", "t5encoder"),
)

Value = str | int | float | bool


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says about itself, arrays left out."""

    version: int
    n_tensors: int
    values: dict[str, Value]


def read_header(path: Path) -> GgufHeader:
    """Read a GGUF file's header.

    Raises:
        SpecliError: Not a readable, whole GGUF header of a known version.
    """
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as error:
        raise SpecliError(f"{path}: cannot be read: {error.strerror}") from error
    except (struct.error, KeyError) as error:
        raise SpecliError(f"{path}: the GGUF header is cut short or damaged", _FETCH_AGAIN) from error


_FETCH_AGAIN = "The download may have stopped early: fetch the file again."
_CONVERT = "convert_hf_to_gguf.py, which comes with llama.cpp, makes a GGUF file of a Hugging Face model folder."


def _read(path: Path, file: BinaryIO) -> GgufHeader:
    magic = file.read(4)
    if magic != _MAGIC:
        raise SpecliError(
            f"{path}: not a GGUF file (it begins with {magic!r})", f"llama.cpp runs GGUF files; {_CONVERT}"
        )
    version: int = struct.unpack("<I", file.read(4))[0]
    if not 2 <= version <= _NEWEST_VERSION:
        raise SpecliError(
            f"{path}: GGUF version {version}; this version of llama.cpp reads versions 2 to {_NEWEST_VERSION}",
            f"Fetch a newer file or make one: {_CONVERT}" if version < 2 else "A newer specli may read it.",
        )
    n_tensors, n_values = struct.unpack("<QQ", file.read(16))
    size = os.fstat(file.fileno()).st_size
    values: dict[str, Value] = {}
    for _ in range(n_values):
        key = _read_string(file, size)
        value = _read_value(file, _unpack(file, "<I"), size)
        if value is not None:
            values[key] = value
    _bounded(file.tell(), size)
    return GgufHeader(version, n_tensors, values)


def _unpack(file: BinaryIO, layout: str) -> int:
    value: int = struct.unpack(layout, file.read(struct.calcsize(layout)))[0]
    return value


def _read_string(file: BinaryIO, size: int) -> str:
    return file.read(_bounded(_unpack(file, "<Q"), size)).decode("utf-8", errors="replace")


def _bounded(n_bytes: int, size: int) -> int:
    """Refuse a length that no part of the file can have, before memory is asked for it."""
    if n_bytes > size:
        raise struct.error("a length larger than the file")
    return n_bytes


def _read_value(file: BinaryIO, kind: int, size: int) -> Value | None:
    if kind == _STRING:
        return _read_string(file, size)
    if kind != _ARRAY:
        return _unpack(file, _SCALARS[kind])
    kind, n = _unpack(file, "<I"), _unpack(file, "<Q")
    if kind == _STRING:
        for _ in range(_bounded(n, size)):
            file.seek(_bounded(_unpack(file, "<Q"), size), os.SEEK_CUR)
    else:  # llama.cpp has no arrays of arrays either
        file.seek(_bounded(n * struct.calcsize(_SCALARS[kind]), size), os.SEEK_CUR)
    return None


def check_model_file(path: Path) -> GgufHeader:
    """Check that a file can be a text-generating model, and that no split part of it is missing.

    Raises:
        SpecliError: Saying what the file is instead, or which part is missing.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise SpecliError(f"{path}: no such file", _inside(path.parent)) from None
    except (OSError, ValueError) as error:
        raise SpecliError(f"{path}: cannot be read: {error}", "Check its name and who may read it.") from error
    if stat.S_ISDIR(status.st_mode):
        raise SpecliError(f"{path}: a folder, not a GGUF file", _inside(path))
    if not stat.S_ISREG(status.st_mode):
        raise SpecliError(f"{path}: not a regular file", "llama.cpp loads GGUF files from a disk.")
    if status.st_size == 0:
        raise SpecliError(f"{path}: the file is empty", _FETCH_AGAIN)
    header = read_header(path)
    _check_parts(path, header)
    architecture = str(header.values.get("general.architecture", "unknown"))
    if (kind := header.values.get("general.type", "model")) != "model":
        raise SpecliError(
            f"{path}: a GGUF file of type {kind!r}, not a model",
            "Name the model it was made for" + (", and this file with --lora." if kind == "adapter" else "."),
        )
    if header.n_tensors == 0 and "split.count" not in header.values:
        raise SpecliError(f"{path}: holds a vocabulary only, no weights", "Generating text takes the whole model.")
    causal = header.values.get(f"{architecture}.attention.causal", True)
    if architecture in _ENCODERS or (not causal and f"{architecture}.pooling_type" in header.values):
        raise SpecliError(
            f"{path}: an embedding model ({architecture}), which cannot generate text",
            "Name a language model, such as a chat or an instruct model.",
        )
    return header


def _inside(folder: Path) -> str:
    there = sorted(file.name for file in folder.glob("*.gguf"))
    return (
        f"In {folder} there is {', '.join(there[:5])}." if there else f"There is no .gguf file in {folder.resolve()}."
    )


def _check_parts(path: Path, header: GgufHeader) -> None:
    number, n_parts = header.values.get("split.no", 0), header.values.get("split.count", 0)
    if not isinstance(number, int) or not isinstance(n_parts, int) or n_parts <= 1:
        return
    ending = f"-{number + 1:05d}-of-{n_parts:05d}.gguf"
    if not path.name.endswith(ending):
        raise SpecliError(
            f"{path}: part {number + 1} of a model split into {n_parts}, under another name",
            f"llama.cpp finds the parts by their names: this one must end in {ending}",
        )
    stem = path.name.removesuffix(ending)
    parts = [path.with_name(f"{stem}-{i:05d}-of-{n_parts:05d}.gguf") for i in range(1, n_parts + 1)]
    if missing := [part.name for part in parts if not part.exists()]:
        raise SpecliError(
            f"{path}: the model is split into {n_parts} files and {', '.join(missing[:3])} is missing",
            "All parts must lie in the same folder.",
        )
    if number != 0:
        raise SpecliError(f"{path}: part {number + 1} of {n_parts}", f"Name the first part: {parts[0]}")
