"""``specli models``: what is on this disk, what is known, and what goes with what."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from specli.cli.common_options import Debug, Format, ModelsFile, check_format
from specli.cli.completion import complete_model
from specli.cli.examples import EXAMPLES
from specli.cli.failures import note, worded
from specli.cli.help import CommandGroup
from specli.errors import SpecliError, UsageError
from specli.models import stories
from specli.models.file_names import quantization_of
from specli.models.local import HUB, SPECLI, LocalModel, find_models
from specli.models.names import entry_of_model, find, locate
from specli.models.registry import Registry, load_registry
from specli.report.plain import PipedConsole, plain
from specli.report.sizes import decimal_size

app = typer.Typer(
    help="Show the models on this disk and those that are known; find one, or remove it.",
    cls=CommandGroup,
    epilog=EXAMPLES["models"],
    rich_markup_mode=None,
)

_Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_model)]


@app.callback(invoke_without_command=True)
@worded
def command(
    context: typer.Context,
    show_all: Annotated[bool, typer.Option("--all", help="Also those that are known and not on this disk.")] = False,
    format: Format = "text",
    models_file: ModelsFile = None,
    debug: Debug = False,
) -> None:
    """List models."""
    if context.invoked_subcommand:
        if show_all or format != "text" or models_file:
            raise UsageError(f"specli models {context.invoked_subcommand}: its options come after it")
        return
    check_format(format)
    registry, here = load_registry(models_file), find_models()
    if format == "json":
        print(json.dumps(_document(registry, here, show_all=show_all), ensure_ascii=False))
        return
    console = PipedConsole(soft_wrap=True)
    console.print(_here_table(registry, here))
    if all(model.owner == SPECLI for model in here):
        console.print("specli pull fetches others.")
    if show_all:
        console.print()
        console.print(_known_table(registry, here))


@app.command("path")
@worded
def path_command(name: _Name, models_file: ModelsFile = None, debug: Debug = False) -> None:
    """Print the file of a model on this disk."""
    print(locate(name, load_registry(models_file)))


@app.command("remove")
@worded
def remove_command(name: _Name, models_file: ModelsFile = None, debug: Debug = False) -> None:
    """Remove a model from the Hub's cache; other programs' files are left to them."""
    found = find(name, load_registry(models_file), find_models())
    if not found:
        raise SpecliError(f"{name}: not on this disk")
    if len(found) > 1:
        raise UsageError(f"{name}: could be {', '.join(model.name for model in found)}", "Name one of them.")
    [model] = found
    if model.owner == SPECLI:
        raise SpecliError(f"{name}: this model is a part of specli, and stays as long as that does")
    if model.owner != HUB:
        raise SpecliError(f"{name}: {model.path} belongs to {model.owner}", f"Remove it with {model.owner}.")
    for part in model.paths:
        blob = part.readlink() if part.is_symlink() else None
        part.unlink()
        if blob is not None:  # one link deep: what a blob links to may be shared with other repositories
            (part.parent / blob).unlink(missing_ok=True)
    note(f"removed {model.name} ({decimal_size(model.bytes)})")


def _known_as(registry: Registry, model: LocalModel) -> str | None:
    """The registry's name of a model on this disk."""
    entry = entry_of_model(model, registry)
    return entry.name if entry else None


def _drafts_here(registry: Registry, model: LocalModel, here: Sequence[LocalModel]) -> list[str]:
    """The drafts of a model that are on this disk, too."""
    if stories.is_target(model.path):
        return [stories.DRAFT_NAME]
    entry = entry_of_model(model, registry)
    return [draft for draft in entry.drafts if find(draft, registry, here)] if entry else []


def _here_table(registry: Registry, here: Sequence[LocalModel]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("on this disk", "size", "of", "drafted for by"):
        table.add_column(column, justify="right" if column == "size" else "left", overflow="fold")
    for model in here:
        known = _known_as(registry, model)
        name = f"{known}:{quantization_of(model.name)} ({model.name})" if known else model.name
        drafts = ", ".join(_drafts_here(registry, model, here)) or "–"
        table.add_row(*map(plain, (name, decimal_size(model.bytes), model.owner, drafts)))
    return table


def _known_table(registry: Registry, here: Sequence[LocalModel]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("known", "family", "size", "drafts for it"):
        table.add_column(column, justify="right" if column == "size" else "left", overflow="fold")
    for entry in registry.entries.values():
        if not find(entry.name, registry, here):
            size = "–" if entry.bytes is None else decimal_size(entry.bytes)
            kind = f" ({entry.drafter})" if entry.drafter and entry.drafter != "model" else ""
            table.add_row(*map(plain, (entry.name + kind, entry.family, size, ", ".join(entry.drafts) or "–")))
    return table


def _document(registry: Registry, here: Sequence[LocalModel], *, show_all: bool) -> dict[str, object]:
    models = [
        {
            "name": model.name,
            "known_as": _known_as(registry, model),
            "path": str(model.path),
            "owner": model.owner,
            "bytes": model.bytes,
            "drafts_here": _drafts_here(registry, model, here),
        }
        for model in here
    ]
    known = [
        {
            "name": entry.name,
            "family": entry.family,
            "repository": entry.repository,
            "file": entry.file,
            "quantizations": list(entry.quantizations),
            "bytes": entry.bytes,
            "sha256": entry.sha256,
            "licence": entry.licence,
            "architecture": entry.architecture,
            "drafter": entry.drafter,
            "drafts": list(entry.drafts),
            "why": entry.why,
        }
        for entry in registry.entries.values()
    ]
    return {"schema": "specli.models/1", "here": models, **({"known": known} if show_all else {})}
