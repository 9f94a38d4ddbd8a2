"""The drafters that compute, made of loaded models by their kind."""

from dataclasses import replace

from specli.drafters.block import BlockDrafter
from specli.drafters.drafter import TrainedDrafter
from specli.drafters.hidden_state import HiddenStateDrafter
from specli.drafters.model import ModelDrafter
from specli.drafters.names import DFLASH, DSPARK, EAGLE3, MTP
from specli.errors import SpecliError
from specli.llama.block_context import BlockContext, LatticeContext
from specli.llama.context import Context
from specli.llama.hidden_context import EncodedFeatures, HiddenContext
from specli.llama.model import MTP_HEADS, Model
from specli.llama.options import ContextOptions
from specli.models.description import describe


def trained_drafter(
    draft: Model, options: ContextOptions, target: Context, n_shared: int | None
) -> tuple[Context, TrainedDrafter]:
    """Make a drafter of a draft's file.

    Args:
        draft: The file, loaded.
        options: Of its context.
        target: The target's context.
        n_shared: How many token ids, counted from 0, it has in common with the target; None: all.

    Returns:
        Its context, to be closed before the model, and the drafter.

    Raises:
        SpecliError: It was made for another target, or llama.cpp does not give what it reads.
    """
    if draft.kind == MTP_HEADS:
        return mtp_drafter(draft, options, target)
    if draft.kind == EAGLE3:
        return _eagle3_drafter(draft, options, target)
    if draft.kind in (DFLASH, DSPARK):
        return _block_drafter(draft, options, target)
    context = Context(draft, options)
    return context, ModelDrafter(context, n_shared)


def mtp_drafter(model: Model, options: ContextOptions, target: Context) -> tuple[Context, TrainedDrafter]:
    """Make a drafter of MTP heads, the target's own or from a file of their own; as ``trained_drafter``."""
    _check_width(model, target, model.n_embd)
    features = target.keep_features([target.model.n_layer])
    context = HiddenContext(model, replace(options, ctx_size=target.n_ctx), target, is_mtp=True)
    return context, HiddenStateDrafter(MTP, context, features, model.n_embd, n_heads=model.n_mtp_heads)


def _eagle3_drafter(model: Model, options: ContextOptions, target: Context) -> tuple[Context, TrainedDrafter]:
    description = describe(model.path)
    _check_width(model, target, description.number("target_hidden_size"))
    features = target.keep_features(description.numbers("target_layers"))
    context = HiddenContext(model, replace(options, ctx_size=target.n_ctx), target)
    encoded = EncodedFeatures(context, features)
    return context, HiddenStateDrafter(EAGLE3, context, encoded, model.n_embd, first=1)


def _block_drafter(model: Model, options: ContextOptions, target: Context) -> tuple[Context, TrainedDrafter]:
    description = describe(model.path)
    _check_width(model, target, description.number("embedding_length"))
    if model.vocab.mask < 0:
        raise SpecliError(f"{model.path}: names no token that stands for one to fill in", "Convert it again.")
    block_size = description.number("block_size") or _BLOCK_SIZE
    from_anchor = model.kind == DSPARK and description.flag("sample_from_anchor", default=True)
    n_most = block_size if from_anchor else block_size - 1
    features = target.keep_features(description.numbers("target_layers"))
    causal = description.flag("attention.causal", default=False)
    options = replace(options, ctx_size=target.n_ctx)
    context = (
        LatticeContext(model, options, target, block_size, n_candidates, causal=causal)
        if (n_candidates := description.number("selector_top_k"))
        else BlockContext(model, options, target, block_size, causal=causal)
    )
    return context, BlockDrafter(
        model.kind,
        context,
        features,
        features.width,
        model.vocab.mask,
        n_most,
        from_anchor=from_anchor,
        has_confidence=any(tensor.name.startswith("conf_proj") for tensor in description.tensors),
    )


_BLOCK_SIZE = 16  # llama.cpp's, where the file does not tell


def _check_width(model: Model, target: Context, width: int | None) -> None:
    """Refuse a module that reads hidden states of another width than the target's."""
    if width != target.model.n_embd:
        raise SpecliError(
            f"{model.path}: reads hidden states of width {width}, and those of {target.model.path.name} are "
            f"{target.model.n_embd} wide",
            "Take the draft that was trained with this target.",
        )
