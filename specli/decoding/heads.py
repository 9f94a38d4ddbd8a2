"""A target's own heads for further tokens: whether to load them."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from specli.drafters.names import MTP
from specli.llama.features import can_draft_with_heads
from specli.llama.options import ModelOptions
from specli.models.draft_module import has_mtp_heads
from specli.models.model_file import check_model_file


def usable_heads(target: Path) -> bool:
    """Whether a target has heads that can draft here.

    Raises:
        SpecliError: It is no model.
    """
    architecture = str(check_model_file(target).values.get("general.architecture"))
    return can_draft_with_heads(architecture) and has_mtp_heads(target)


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
