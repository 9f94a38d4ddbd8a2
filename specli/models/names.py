"""What people call a model: a path, a name of the registry, or USER/REPOSITORY[:QUANT] as llama.cpp has it."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from specli.errors import SpecliError
from specli.models.file_names import model_of, quantization_of
from specli.models.local import LocalModel, find_models
from specli.models.registry import Entry, Registry, is_safe_path

_HUB = re.compile(r"(?P<repository>\w[\w.-]*/\w[\w.-]*)(?::(?P<quantization>[\w.-]+)|/(?P<file>.+\.gguf))?")


class HubName(NamedTuple):
    """A model of the Hub.

    Attributes:
        repository: USER/REPOSITORY.
        quantization: The one wanted, if any.
        file: The file wanted, if any.
        entry: The registry's, if it is named by that.
    """

    repository: str
    quantization: str | None = None
    file: str | None = None
    entry: Entry | None = None

    def is_of_entry(self, file: str) -> bool:
        """Whether a file is of the entry's model, in whichever quantisation; any is where none was named."""
        return self.entry is None or self.entry.file is None or model_of(file) == model_of(self.entry.file)


def hub_name(text: str, registry: Registry) -> HubName | None:
    """What a name means on the Hub: one of the registry's, with or without :QUANT, or the Hub's own; None: neither."""
    name, _, quantization = text.partition(":")
    if entry := registry.entries.get(name):
        return HubName(entry.repository, quantization or None, None if quantization else entry.file, entry)
    match = _HUB.fullmatch(text)
    if match is None or (match["file"] and not is_safe_path(match["file"])) or match["repository"].endswith(".gguf"):
        return None
    return HubName(match["repository"], match["quantization"], match["file"])


def is_path(text: str) -> bool:
    """Whether a text means what is there, whatever models are called: a folder may just happen to have one's name."""
    path = Path(text)
    return path.is_file() or (path.is_dir() and path.name != text)


def locate(text: str, registry: Registry) -> Path:
    """The file of a model on this disk.

    Args:
        text: A path or a name.
        registry: The known names.

    Raises:
        SpecliError: It is not there; says how to get it.
    """
    path = Path(text)
    if is_path(text):
        return path
    here = find_models()
    if found := find(text, registry, here):
        return found[0].path
    if text and path.exists():
        return path
    if hub_name(text, registry) and not (text.endswith(".gguf") and path.parent.is_dir()):
        raise SpecliError(f"{text}: not on this disk", f"Fetch it: specli pull {text}")
    if "/" in text or text.endswith(".gguf"):
        return path  # whoever opens it says what is wrong
    close = difflib.get_close_matches(text, [*registry.entries, *(model.name for model in here)], 3)
    raise SpecliError(
        f"{text}: no such file, and no model of that name is known",
        f"Did you mean {' or '.join(close)}?" if close else "specli models --all lists those that are.",
    )


def find(text: str, registry: Registry, here: Sequence[LocalModel]) -> list[LocalModel]:
    """The models on this disk that a name can mean, the likeliest first."""
    if named := [model for model in here if text in (model.name, model.name.removesuffix(".gguf"))]:
        return named
    wanted = hub_name(text, registry)
    if wanted is None:
        return []
    prefix = f"{wanted.repository}/"
    found = [model for model in here if model.name.startswith(prefix) and wanted.is_of_entry(model.name)]
    if wanted.quantization:
        quantization = quantization_of(f"{wanted.quantization}.gguf")
        return [model for model in found if quantization_of(model.name) == quantization]
    if wanted.file:
        exact = [model for model in found if model.name == prefix + wanted.file]
        return exact if exact or wanted.entry is None else found
    return found


def entry_of(text: str, registry: Registry) -> Entry | None:
    """The registry's entry that a name means."""
    wanted = hub_name(text, registry)
    if wanted is None or wanted.entry:
        return wanted and wanted.entry
    same = [entry for entry in registry.entries.values() if entry.repository == wanted.repository]
    if wanted.file:
        same = [entry for entry in same if entry.file and model_of(entry.file) == model_of(wanted.file)]
    return next((entry for entry in same if entry.drafts), next(iter(same), None))


def entry_of_model(model: LocalModel, registry: Registry) -> Entry | None:
    """The registry's entry that a model on this disk is of."""
    for entry in registry.entries.values():
        if (
            model.name.startswith(f"{entry.repository}/")
            and entry.file
            and model_of(entry.file) == model_of(model.name)
        ):
            return entry
    return None
