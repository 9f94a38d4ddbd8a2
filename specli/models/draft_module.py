"""Drafts that are no models of their own: what a file drafts as, and which target it was trained for."""

from dataclasses import dataclass
from pathlib import Path

from specli.errors import SpecliError
from specli.models.description import Description, describe
from specli.models.gguf_header import read_header

MODEL, MTP, EAGLE3, DFLASH, DSPARK = "model", "mtp", "eagle3", "dflash", "dspark"
"""A model of its own; heads of a target without its layers; modules trained on a target's hidden states."""

_HEAD = ".nextn.eh_proj.weight"
_FIRST_LAYER = "blk.0.attn_norm.weight"
_BLOCK_SIZE = 16  # llama.cpp's, where the file does not tell


@dataclass(frozen=True)
class DraftModule:
    """What a draft that reads a target's hidden states says of itself.

    Attributes:
        kind: MTP, EAGLE3, DFLASH or DSPARK.
        target_width: Of the hidden states, in values.
        target_layers: Whose inputs it reads; the number of the target's layers stands for the last one's output; empty
            for heads, which read that.
        block_size: The most tokens of a block, the last one of the text included; None: it drafts one by one.
        n_vocab: How many ids its own vocabulary has; None: all of the target's.
        from_anchor: Whether the last token's own row proposes, so that a block drafts one token more.
        n_candidates: How many tokens DFlash 2 proposes for each place; None: it is none.
        has_confidence: Whether it has a head that tells how sure it is.
        is_causal: Whether a token of a block sees only those before it.
    """

    kind: str
    target_width: int
    target_layers: tuple[int, ...] = ()
    block_size: int | None = None
    n_vocab: int | None = None
    from_anchor: bool = False
    n_candidates: int | None = None
    has_confidence: bool = False
    is_causal: bool = False

    @property
    def most(self) -> int | None:
        """The most tokens of a draft; None: any number."""
        return self.block_size if self.block_size is None or self.from_anchor else max(0, self.block_size - 1)

    def mismatch(self, target: str, n_layers: int, width: int) -> str | None:
        """Why it cannot have been trained for a target; None where it may have been.

        Args:
            target: Its name.
            n_layers: How many it has.
            width: Of its layers' inputs, or of its last hidden states where heads read these.
        """
        if self.target_width != width:
            return f"it reads hidden states {self.target_width} wide, and those of {target} are {width} wide"
        if wrong := [layer for layer in self.target_layers if not 0 <= layer <= n_layers]:
            return f"it reads the input of layer {wrong[0]}, and {target} has {n_layers} layers"
        return None


def drafter_kind(path: Path) -> str:
    """MODEL, or a ``DraftModule``'s kind.

    Raises:
        SpecliError: The file cannot be read, or is damaged.
    """
    values = read_header(path).values
    architecture = values.get("general.architecture")
    if architecture not in ("eagle3", "dflash") and not values.get(f"{architecture}.nextn_predict_layers"):
        return MODEL
    module = draft_module(describe(path))
    return module.kind if module else MODEL


def has_mtp_heads(path: Path) -> bool:
    """Whether a file holds heads for further tokens; its metadata may name some that were left out.

    Raises:
        SpecliError: The file cannot be read, or is damaged, or holds other heads than its metadata say.
    """
    values = read_header(path).values
    if not values.get(f"{values.get('general.architecture')}.nextn_predict_layers"):
        return False
    model = describe(path)
    there = sum(tensor.name.endswith(_HEAD) for tensor in model.tensors)
    if there not in (0, model.n_mtp_layers):
        raise SpecliError(
            f"{path}: its metadata name {model.n_mtp_layers} heads for further tokens, and it holds {there}",
            "--drafter none goes without; else convert it again.",
        )
    return there > 0


def draft_module(model: Description) -> DraftModule | None:
    """What a draft's file says of itself; None: it is a model of its own."""
    width = model.number("embedding_length") or 0
    layers = tuple(model.numbers("target_layers"))
    reduced = next((tensor.n_values for tensor in model.tensors if tensor.name == "d2t"), None)
    if model.architecture == "eagle3":
        return DraftModule(EAGLE3, model.number("target_hidden_size") or width, layers, n_vocab=reduced)
    if model.architecture == "dflash":
        is_dspark = any(tensor.name.startswith("markov_w1") for tensor in model.tensors)
        return DraftModule(
            DSPARK if is_dspark else DFLASH,
            width,
            layers,
            block_size=model.number("block_size") or (0 if is_dspark else _BLOCK_SIZE),
            n_vocab=reduced,
            from_anchor=is_dspark and model.flag("sample_from_anchor", default=True),
            n_candidates=model.number("selector_top_k"),
            has_confidence=any(tensor.name.startswith("conf_proj") for tensor in model.tensors),
            is_causal=model.flag("attention.causal", default=False),
        )
    if model.n_mtp_layers and _has(model, _HEAD) and not _has(model, _FIRST_LAYER):
        return DraftModule(MTP, width)
    return None


def _has(model: Description, ending: str) -> bool:
    return any(tensor.name.endswith(ending) for tensor in model.tensors)
