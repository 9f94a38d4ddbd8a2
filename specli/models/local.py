"""GGUF models already on this disk, whoever put them there."""

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

from specli.models import stories
from specli.models.file_names import is_projector, part_of, parts_of

SPECLI = "specli"
HUB, LLAMA_CPP, LM_STUDIO, OLLAMA = "Hub", "llama.cpp", "LM Studio", "Ollama"
_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]+)")


@dataclass(frozen=True)
class LocalModel:
    """A model on this disk.

    Attributes:
        name: What it can be called: USER/REPOSITORY/FILE, or the name its owner gave it.
        paths: Its file, or all parts where it is split.
        owner: Which program put it there.
        bytes: Size of all its parts.
    """

    name: str
    paths: tuple[Path, ...]
    owner: str
    bytes: int

    @property
    def path(self) -> Path:
        """Its file; of a split model, the first part."""
        return self.paths[0]


def find_models() -> list[LocalModel]:
    """All of them, by owner, then by name; a file that two owners share once; split ones only where they are whole.

    Those of other programs come first: a name means theirs before it means one of the pair inside specli.
    """
    found: dict[Path, LocalModel] = {}
    for model in (*_hub(), *_llama_cpp(), *_lm_studio(), *_ollama(), *_stories()):
        found.setdefault(model.path.resolve(), model)
    return list(found.values())


def _hub() -> Iterator[LocalModel]:
    for repository in sorted(Path(constants.HF_HUB_CACHE).glob("models--*--*")):
        user_and_name = repository.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in sorted((repository / "snapshots").glob("*")):
            yield from _in_folder(snapshot, HUB, f"{user_and_name}/")


def _llama_cpp() -> Iterator[LocalModel]:
    if given := os.environ.get("LLAMA_CACHE"):
        folder = Path(given)
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "llama.cpp"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llama.cpp"
    yield from _in_folder(folder, LLAMA_CPP, "")


def _lm_studio() -> Iterator[LocalModel]:
    for folder in (Path.home() / ".lmstudio" / "models", Path.home() / ".cache" / "lm-studio" / "models"):
        yield from _in_folder(folder, LM_STUDIO, "")


def _ollama() -> Iterator[LocalModel]:
    """Ollama keeps manifests by name, and files by their digest."""
    folder = Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models")
    manifests = folder / "manifests"
    for manifest in sorted(path for path in manifests.rglob("*") if path.is_file()):
        parts = manifest.relative_to(manifests).parts
        name = ":".join(("/".join(part for part in parts[1:-1] if part != "library"), parts[-1]))
        if (path := _ollama_file(folder, manifest)) is not None:
            yield LocalModel(name, (path,), OLLAMA, path.stat().st_size)


def _stories() -> Iterator[LocalModel]:
    for name, path in ((stories.NAME, stories.TARGET), (stories.DRAFT_NAME, stories.DRAFT)):
        if path.is_file():
            yield LocalModel(name, (path,), SPECLI, path.stat().st_size)


def _ollama_file(folder: Path, manifest: Path) -> Path | None:
    """The model a manifest names, if it is there; a manifest may say anything."""
    try:
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        digest = next(layer["digest"] for layer in layers if layer["mediaType"] == _OLLAMA_MODEL)
        match = _DIGEST.fullmatch(digest)
        path = folder / "blobs" / f"sha256-{match[1]}" if match else None
        if path is None or not path.is_file():
            return None
        with path.open("rb") as file:
            return path if file.read(4) == b"GGUF" else None
    except (OSError, ValueError, KeyError, TypeError, StopIteration, RecursionError):
        return None


def _in_folder(folder: Path, owner: str, prefix: str) -> Iterator[LocalModel]:
    """The models below a folder."""
    for path in sorted(folder.rglob("*.gguf")):
        part = part_of(path.name)
        if is_projector(path.name) or (part and part.number != 1):
            continue
        parts = parts_of(path)
        try:
            size = sum(one.stat().st_size for one in parts)
        except OSError:  # a part that is not there yet, a link to what is no longer there
            continue
        yield LocalModel(prefix + path.relative_to(folder).as_posix(), tuple(parts), owner, size)
