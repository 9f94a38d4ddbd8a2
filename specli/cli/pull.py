"""``specli pull``: bring a model, and the draft that suits it, onto this disk."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specli.cli.common_options import Debug, ModelsFile
from specli.cli.completion import complete_model
from specli.cli.failures import note, worded
from specli.errors import SpecliError, UsageError
from specli.models.file_names import quantization_of
from specli.models.local import find_models
from specli.models.names import HubName, entry_of, find, hub_name
from specli.models.registry import Registry, load_registry
from specli.report.downloads import download_view
from specli.report.sizes import decimal_size

if TYPE_CHECKING:  # what downloads takes half a second to import, and every command line would
    from specli.models.hub import RemoteFile, RemoteModel


@worded
def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…",
            help="A name that specli models --all lists, USER/REPOSITORY[:QUANT] or USER/REPOSITORY/FILE.gguf.",
            autocompletion=complete_model,
        ),
    ] = None,
    with_draft: Annotated[
        bool, typer.Option("--with-draft/--without-draft", help="Also the draft that suits it, where one is known.")
    ] = True,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="A plain copy there, instead of the Hub's cache.")
    ] = None,
    models_file: ModelsFile = None,
    debug: Debug = False,
) -> None:
    """Download a model and the draft that suits it, into the Hub's cache, where other programs find them too.

    What was downloaded is not downloaded again, and an interrupted download goes on where it stopped.
    """
    registry = load_registry(models_file)
    wanted = names or [_ask_which(registry)]
    if with_draft:
        wanted += [draft for name in wanted for draft in _draft_of(name, registry, wanted)]
    for name in dict.fromkeys(wanted):
        print(pull(name, registry, to), flush=True)


def pull(name: str, registry: Registry, folder: Path | None = None) -> Path:
    """Bring a model onto this disk, if it is not there yet.

    Args:
        name: Of the registry, or of the Hub.
        registry: The known names.
        folder: Where to; None: the Hub's cache.

    Returns:
        Its file; of a split model, the first part.

    Raises:
        SpecliError: It is not known, or cannot be fetched.
    """
    from specli.models.hub import fetch

    wanted = hub_name(name, registry)
    if wanted is None:
        raise UsageError(
            f"{name}: neither a known model nor USER/REPOSITORY[:QUANT]", "specli models --all lists those known."
        )
    if folder is None and (here := _here(name, wanted, registry)):
        return here
    files = _files(wanted)
    if wanted.entry and wanted.entry.licence:
        note(f"{wanted.entry.name}: licence {wanted.entry.licence}")
    with download_view() as show:
        return fetch(files, folder, show, note)[0]


def _here(name: str, wanted: HubName, registry: Registry) -> Path | None:
    """What is wanted, if it is on this disk already: that very file, where the name says which."""
    for model in find(name, registry, find_models()):
        if wanted.file is None or model.name == f"{wanted.repository}/{wanted.file}":
            return model.path
    return None


def _files(wanted: HubName) -> "Sequence[RemoteFile]":
    """The files of a model, checked against the registry where it knows them."""
    from specli.models.hub import choose, models_of

    there = models_of(wanted.repository)
    if wanted.file:
        found = [model for model in there if model.name == wanted.file]
        what = f"no file {wanted.file}"
    else:
        found = choose([model for model in there if wanted.is_of_entry(model.name)], wanted.quantization)
        what = f"no {wanted.quantization}" if wanted.quantization else "no GGUF file"
    if not found:
        raise SpecliError(f"{wanted.repository}: there is {what} in it", _offer(there))
    model = found[0] if len(found) == 1 else _ask_among(wanted.repository, found)
    entry, first = wanted.entry, model.files[0]
    if entry and entry.file == first.name and entry.sha256 and first.sha256 not in (None, entry.sha256):
        note(f"{first.name}: the Hub has another file now than the one that is known; it is checked against the Hub's")
    return model.files


def _draft_of(name: str, registry: Registry, wanted: Sequence[str]) -> list[str]:
    """The best draft of a model, unless another that suits is wanted already."""
    entry = entry_of(name, registry)
    drafts = registry.drafts_for(entry.name) if entry else []
    if entry is None or not drafts or {draft.name for draft in drafts} & set(wanted):
        return []
    note(f"{drafts[0].name} drafts for {entry.name}" + (f": {entry.why}" if entry.why else ""))
    return [drafts[0].name]


def _offer(models: "Sequence[RemoteModel]") -> str | None:
    if not models:
        return None
    return f"There is {', '.join(quantization_of(model.name) or model.name for model in models[:20])}."


def _ask_among(repository: str, models: "Sequence[RemoteModel]") -> "RemoteModel":
    """Let the user choose on a terminal; elsewhere say what there is."""
    if not sys.stdin.isatty():
        names = ", ".join(model.name for model in models[:20])
        raise UsageError(f"{repository}: several files fit: {names}", f"Name one: specli pull {repository}/FILE.gguf")
    for i, model in enumerate(models, start=1):
        size = "" if model.bytes is None else f" ({decimal_size(model.bytes)})"
        note(f"{i:3} {model.name}{size}")
    number = int(typer.prompt("Which", type=int, err=True))
    if not 1 <= number <= len(models):
        raise UsageError(f"{number}: not one of 1 to {len(models)}")
    return models[number - 1]


def _ask_which(registry: Registry) -> str:
    """Show what is known and ask, on a terminal."""
    if not sys.stdin.isatty():
        raise UsageError("which model?", "Name one: specli pull NAME. specli models --all lists those known.")
    for entry in registry.entries.values():
        if drafts := registry.drafts_for(entry.name):
            size = "" if entry.bytes is None else f", {decimal_size(entry.bytes)}"
            note(f"{entry.name} ({entry.family}{size}), drafted for by {drafts[0].name}")
    return str(typer.prompt("Which model", err=True)).strip()
