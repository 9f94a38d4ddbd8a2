"""As what a model's file can draft, by its metadata and tensors: a model of its own, or heads of another."""

from pathlib import Path

from specli.models.description import Description, describe
from specli.models.gguf_header import read_header

_HEAD = ".nextn.eh_proj.weight"
_FIRST_LAYER = "blk.0.attn_norm.weight"
_MARKOV_HEAD = "markov_w1"


def drafter_kind(path: Path) -> str:
    """'model', 'mtp' (heads of a target, without its layers), 'eagle3', 'dflash' or 'dspark'.

    Raises:
        SpecliError: The file cannot be read, or is damaged.
    """
    values = read_header(path).values
    architecture = values.get("general.architecture")
    if architecture == "eagle3":
        return "eagle3"
    if architecture == "dflash":
        return "dspark" if any(_MARKOV_HEAD in tensor.name for tensor in describe(path).tensors) else "dflash"
    if values.get(f"{architecture}.nextn_predict_layers"):
        model = describe(path)
        if _has_heads(model) and not any(tensor.name == _FIRST_LAYER for tensor in model.tensors):
            return "mtp"
    return "model"


def has_mtp_heads(path: Path) -> bool:
    """Whether a file holds heads for further tokens; its metadata may name some that were left out.

    Raises:
        SpecliError: The file cannot be read, or is damaged.
    """
    values = read_header(path).values
    return bool(values.get(f"{values.get('general.architecture')}.nextn_predict_layers")) and _has_heads(describe(path))


def _has_heads(model: Description) -> bool:
    return any(tensor.name.endswith(_HEAD) for tensor in model.tensors)
