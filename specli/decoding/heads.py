"""A target's own heads for further tokens: whether to load them."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from specli.drafters.names import MTP
from specli.llama.features import can_draft_with_heads
from specli.llama.options import ModelOptions
from specli.models.draft_module import drafter_kind, has_mtp_heads
from specli.models.model_file import check_model_file


def usable_heads(target: Path) -> bool:
    """Whether a target has heads that can draft here.

    Raises:
        SpecliError: It is no model.
    """
    architecture = str(check_model_file(target).values.get("general.architecture"))
    return can_draft_with_heads(architecture) and has_mtp_heads(target)


def drafters_for_heads(
    drafters: Collection[str] | None, n_max: int | None, draft: Path | None
) -> Collection[str] | None:
    """The drafters by which to decide whether to load heads.

    Args:
        drafters: Those asked for; None: whatever suits.
        n_max: The most tokens of a draft; 0: plain decoding; None: automatic.
        draft: A draft's file, which a fixed length asks alone and which may hold the heads; None: there is none.
    """
    if n_max == 0:
        return ()
    if draft is not None and (drafters is None or MTP in drafters):
        kind = drafter_kind(draft)
        if kind == MTP or (drafters is None and n_max is not None):
            return ()
    return drafters


def with_heads(target: Path, options: ModelOptions, drafters: Collection[str] | None) -> ModelOptions:
    """How a target is loaded: with its heads where they will draft.

    Args:
        target: Its file.
        options: How it is loaded otherwise.
        drafters: The drafters that were asked for; None: whatever suits.

    Raises:
        SpecliError: The file cannot be read.
    """
    wanted = usable_heads(target) if drafters is None else MTP in drafters and has_mtp_heads(target)
    return replace(options, load_mtp=True) if wanted else options
