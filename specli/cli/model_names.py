"""The models a command line names: found on this disk, or fetched where that is asked for."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from specli.cli.draft_options import DraftFile
from specli.cli.failures import note
from specli.cli.groups import OURS, option
from specli.cli.pull import pull
from specli.cli.target_options import TargetFlags
from specli.errors import UsageError
from specli.models import stories
from specli.models.draft_module import MODEL
from specli.models.local import find_models
from specli.models.names import entry_of, find, hub_name, is_path, locate
from specli.models.registry import Registry, load_registry

_PANEL = "Models by name"


@dataclass(frozen=True)
class NameFlags:
    """How models that are named, not pathed, are found."""

    pull: Annotated[bool, option(_PANEL, "--pull", f"Download the models that are not on this disk. {OURS}")] = False
    models_file: Annotated[
        Path | None,
        option(_PANEL, "--models-file", f"Models of your own, beside the known ones. {OURS}", metavar="FILE"),
    ] = None

    def located(
        self, target: TargetFlags, draft: DraftFile, draft_kinds: Collection[str]
    ) -> tuple[TargetFlags, DraftFile]:
        """The same models by their files; a known target's own draft where none was named and one is on this disk.

        Without any target they are the pair inside specli.

        Args:
            target: Names the target.
            draft: Names the draft, or none.
            draft_kinds: As what a draft may draft to be of use; none: there is no use for one.

        Raises:
            UsageError: A draft, and no target.
            SpecliError: A model that is not there.
        """
        if target.target is None:
            if draft.draft is not None:
                raise UsageError(
                    f"--draft (or LLAMA_ARG_SPEC_DRAFT_MODEL) names {draft.draft}, and no --target is named",
                    "Add --target FILE, or name no draft either to use the pair inside specli.",
                )
            note("no --target: the pair of models inside specli, which can only tell stories")
            return replace(target, target=stories.TARGET), _stories_draft(draft_kinds)
        name = str(target.path())
        if is_path(name) and (draft.draft is None or is_path(draft.draft)):
            return target, draft  # a damaged models.toml is no matter here
        registry = load_registry(self.models_file)
        target = replace(target, target=model_path(name, registry, may_pull=self.pull))
        if (path := draft.path()) is not None:
            draft = DraftFile(str(model_path(str(path), registry, may_pull=self.pull)))
        elif stories.is_target(target.path()):
            draft = _stories_draft(draft_kinds)
        elif beside := draft_beside(name, registry, draft_kinds):
            draft = DraftFile(str(beside))
        return target, draft


def model_path(name: str, registry: Registry, *, may_pull: bool) -> Path:
    """The file of a model.

    Args:
        name: A path, a name of the registry, or USER/REPOSITORY[:QUANT].
        registry: The known names.
        may_pull: Whether it may be downloaded.

    Raises:
        SpecliError: It is not on this disk, or cannot be fetched.
    """
    if may_pull and not Path(name).exists() and hub_name(name, registry):
        return pull(name, registry)
    return locate(name, registry)


def _stories_draft(kinds: Collection[str]) -> DraftFile:
    return DraftFile(str(stories.DRAFT)) if MODEL in kinds else DraftFile()


def draft_beside(target: str, registry: Registry, kinds: Collection[str]) -> Path | None:
    """The best draft of a known target that is on this disk and drafts as one of these; says which, in a line."""
    if (entry := entry_of(target, registry)) is None:
        return None
    here = find_models()
    for draft in registry.drafts_for(entry.name):
        if (draft.drafter or MODEL) not in kinds:
            continue
        if found := find(draft.name, registry, here):
            note(f"{draft.name} drafts for {entry.name}; --drafter none goes without")
            return found[0].path
    return None
