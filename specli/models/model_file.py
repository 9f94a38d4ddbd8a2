"""Whether a file can be a model to generate text with, said before llama.cpp is asked to load it."""

import stat
from pathlib import Path

from specli.errors import SpecliError
from specli.models.file_names import parts_of
from specli.models.gguf_header import FETCH_AGAIN, GgufHeader, read_header

_ENCODERS = (
    *("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "modern-bert", "neo-bert", "eurobert"),
    *("gemma-embedding", "t5encoder"),
)

_MOST_PARTS = 99_999  # what the five digits of their names can count


def check_model_file(path: Path) -> GgufHeader:
    """Check that a file can be a text-generating model, and that no split part of it is missing.

    Raises:
        SpecliError: Saying what the file is instead, or which part is missing.
    """
    check_regular(path)
    header = read_header(path)
    part_paths(path, header)
    architecture = str(header.values.get("general.architecture", "unknown"))
    if (kind := header.values.get("general.type", "model")) != "model":
        raise SpecliError(
            f"{path}: a GGUF file of type {kind!r}, not a model",
            "Name the model it was made for" + (", and this file with --lora." if kind == "adapter" else "."),
        )
    if header.n_tensors == 0 and "split.count" not in header.values:
        raise SpecliError(f"{path}: holds a vocabulary only, no weights", "Generating text takes the whole model.")
    _check_layers(path, header, architecture)
    causal = header.values.get(f"{architecture}.attention.causal", True)
    if architecture in _ENCODERS or (not causal and f"{architecture}.pooling_type" in header.values):
        raise SpecliError(
            f"{path}: an embedding model ({architecture}), which cannot generate text",
            "Name a language model, such as a chat or an instruct model.",
        )
    return header


def _check_layers(path: Path, header: GgufHeader, architecture: str) -> None:
    """Refuse numbers of layers that llama.cpp ends the process for."""
    layers = header.values.get(f"{architecture}.block_count")
    heads = header.values.get(f"{architecture}.nextn_predict_layers", 0)
    if isinstance(layers, int) and isinstance(heads, int) and not 0 <= heads < layers:
        raise SpecliError(
            f"{path}: the GGUF header is damaged: {heads} heads for further tokens among {layers} layers", FETCH_AGAIN
        )


def check_regular(path: Path) -> None:
    """Check that there is a file with something in it.

    Raises:
        SpecliError: Saying what is there instead.
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
        raise SpecliError(f"{path}: the file is empty", FETCH_AGAIN)


def part_paths(path: Path, header: GgufHeader) -> list[Path]:
    """The files of a model, of which this is the first.

    Raises:
        SpecliError: It is not the first, or some are missing.
    """
    number, n_parts = header.values.get("split.no", 0), header.values.get("split.count", 0)
    if not isinstance(number, int) or not isinstance(n_parts, int) or n_parts <= 1:
        return [path]
    if n_parts > _MOST_PARTS:
        raise SpecliError(f"{path}: the GGUF header is damaged: a model split into {n_parts} files", FETCH_AGAIN)
    ending = f"-{number + 1:05d}-of-{n_parts:05d}.gguf"
    if not path.name.endswith(ending):
        raise SpecliError(
            f"{path}: part {number + 1} of a model split into {n_parts}, under another name",
            f"llama.cpp finds the parts by their names: this one must end in {ending}",
        )
    parts = parts_of(path)
    if missing := [part.name for part in parts if not part.exists()]:
        raise SpecliError(
            f"{path}: the model is split into {n_parts} files and {', '.join(missing[:3])} is missing",
            "All parts must lie in the same folder.",
        )
    if number != 0:
        raise SpecliError(f"{path}: part {number + 1} of {n_parts}", f"Name the first part: {parts[0]}")
    return parts


def _inside(folder: Path) -> str:
    there = sorted(file.name for file in folder.glob("*.gguf"))
    return (
        f"In {folder} there is {', '.join(there[:5])}." if there else f"There is no .gguf file in {folder.resolve()}."
    )
