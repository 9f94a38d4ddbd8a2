"""``specli inspect``: what a model's file says, whether a draft suits it, and whether both fit this machine."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from specli.cli.common_options import Debug, Format, ModelsFile, check_format
from specli.cli.completion import complete_model
from specli.cli.failures import worded
from specli.llama import devices, log, memory
from specli.llama.features import missing_state
from specli.llama.vocab import VocabMismatch, shared_vocab
from specli.llama.vocab_file import open_vocab
from specli.models.description import Description, describe
from specli.models.draft_module import EAGLE3, MTP, DraftModule, draft_module
from specli.models.names import locate
from specli.models.registry import Registry, load_registry
from specli.report.inspection import document, print_inspection

_LARGEST_DRAFT = 0.5  # of the target's bytes: a draft step that takes longer hardly ever pays


@worded
def command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|NAME",
            help="A GGUF file (of a split model, the first part), or a name that specli models lists.",
            autocompletion=complete_model,
        ),
    ],
    draft: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="FILE|NAME",
            help="Also: whether this draft model suits it.",
            autocompletion=complete_model,
        ),
    ] = None,
    models_file: ModelsFile = None,
    format: Format = "text",
    debug: Debug = False,
) -> None:
    """Show what a GGUF file is, what it takes of memory, and whether a draft model suits it."""
    check_format(format)
    log.install()
    model = describe(_located(file, models_file))
    drafts = None if draft is None else describe(_located(draft, models_file))
    pair = None if drafts is None else _pair(model, drafts, load_registry(models_file))
    if format == "json":
        print(json.dumps({**document(model), "with": None if drafts is None else document(drafts), "pair": pair}))
        return
    print_inspection(model, _memories())
    if drafts is not None and pair is not None:
        print()
        print_inspection(drafts, ())
        print()
        for line in _pair_words(pair):
            print(line)


def _located(name: Path, models_file: Path | None) -> Path:
    """The file of a model on this disk; a damaged models.toml is no matter where a path was given."""
    return name if name.exists() else locate(str(name), load_registry(models_file))


def _pair(target: Description, draft: Description, registry: Registry) -> dict[str, Any]:
    """Whether a draft suits a target, for programs."""
    difference = None
    with open_vocab(target.paths[0]) as mine, open_vocab(draft.paths[0]) as theirs:
        try:
            shared_vocab(mine, theirs)
        except VocabMismatch as mismatch:
            difference = mismatch.difference
    sizes = [one.n_weight_bytes for one in (target, draft)]
    ratio = sizes[1] / sizes[0] if sizes[0] and sizes[1] is not None else None
    published = registry.published(target.paths[0].name, draft.paths[0].name)
    module = draft_module(draft)
    made_for_another = _unfit(target, module) if module else None
    return {
        "made_for_another": made_for_another,
        "vocabulary_difference": difference,
        "size_ratio": ratio,
        "published": [asdict(one) for one in published],
    }


def _unfit(target: Description, module: DraftModule) -> str | None:
    """Why a draft module cannot draft for a target; None where it may."""
    name, n_layers = target.paths[0].name, target.n_layers or 0
    if draft_module(target):
        return f"{name} drafts for other models"
    if why := module.mismatch(name, n_layers, target.number("embedding_length") or 0):
        return why
    ends = {n_layers: None} if module.kind == EAGLE3 else {}  # it reads the last hidden state there
    wanted = [None] if module.kind == MTP else [ends.get(layer, layer) for layer in module.target_layers]
    return next((missing for layer in wanted if (missing := missing_state(target.architecture, n_layers, layer))), None)


def _pair_words(pair: dict[str, Any]) -> list[str]:
    if why := pair["made_for_another"]:
        return [f"They do not go together: {why}.", "Take the draft that was trained with this target."]
    if difference := pair["vocabulary_difference"]:
        return [f"They do not go together: {difference}.", "Take a draft of the target's own family."]
    lines = ["The vocabularies match."]
    if (ratio := pair["size_ratio"]) is not None:
        lines.append(f"The draft is {ratio:.0%} of the target's size, which is about what a step of it takes.")
        if ratio > _LARGEST_DRAFT:
            lines.append("That is a lot: a smaller draft, or --drafter suffix, is likely to gain more.")
    lines += [f"Measured elsewhere: {one['gain']} ({one['hardware']}; {one['source']})" for one in pair["published"]]
    lines.append("What it gains here: unknown before it is measured; specli sweep does so.")
    return lines


def _memories() -> list[tuple[str, int]]:
    """This machine's memories by name, in bytes."""
    found = [(f"{device.name} ({device.description})", device.memory) for device in devices.list_devices()]
    ram = memory.ram_bytes()
    return found if ram is None else [("RAM", ram), *found]
