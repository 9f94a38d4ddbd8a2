"""The drafters that compute, made of loaded models by their kind."""

from dataclasses import replace

from specli.drafters.block import BlockDrafter
from specli.drafters.drafter import TrainedDrafter
from specli.drafters.hidden_state import HiddenStateDrafter
from specli.drafters.model import ModelDrafter
from specli.drafters.names import EAGLE3, MTP
from specli.errors import SpecliError
from specli.llama.block_context import BlockContext, LatticeContext
from specli.llama.context import Context
from specli.llama.hidden_context import EncodedFeatures, HiddenContext
from specli.llama.model import Model
from specli.llama.options import ContextOptions
from specli.models.description import describe
from specli.models.draft_module import DraftModule, draft_module


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
    module = draft_module(describe(draft.path))
    if module is None:
        context = Context(draft, options)
        return context, ModelDrafter(context, n_shared)
    if why := module.mismatch(target.model.path.name, target.model.n_layer, target.model.n_embd):
        raise SpecliError(f"{draft.path}: {why}", "Take the draft that was trained with this target.")
    if module.kind == MTP:
        return mtp_drafter(draft, options, target)
    make = _eagle3_drafter if module.kind == EAGLE3 else _block_drafter
    return make(draft, module, replace(options, ctx_size=target.n_ctx), target)


def mtp_drafter(model: Model, options: ContextOptions, target: Context) -> tuple[Context, TrainedDrafter]:
    """Make a drafter of MTP heads, the target's own or from a file of their own; as ``trained_drafter``."""
    features = target.keep_features([target.model.n_layer])
    context = HiddenContext(model, replace(options, ctx_size=target.n_ctx), target, is_mtp=True)
    return context, HiddenStateDrafter(MTP, context, features, model.n_embd, n_heads=model.n_mtp_heads)


def _eagle3_drafter(
    model: Model, module: DraftModule, options: ContextOptions, target: Context
) -> tuple[Context, TrainedDrafter]:
    features = target.keep_features(module.target_layers)
    context = HiddenContext(model, options, target)
    encoded = EncodedFeatures(context, features)
    return context, HiddenStateDrafter(EAGLE3, context, encoded, model.n_embd, first=1)


def _block_drafter(
    model: Model, module: DraftModule, options: ContextOptions, target: Context
) -> tuple[Context, TrainedDrafter]:
    if model.vocab.mask < 0:
        raise SpecliError(f"{model.path}: names no token that stands for one to fill in", "Convert it again.")
    assert module.block_size and module.most  # of every block drafter
    features = target.keep_features(module.target_layers)
    context: BlockContext
    if module.n_candidates:
        context = LatticeContext(
            model, options, target, module.block_size, module.n_candidates, causal=module.is_causal
        )
    else:
        context = BlockContext(model, options, target, module.block_size, causal=module.is_causal)
    drafter = BlockDrafter(
        module.kind,
        context,
        features,
        features.width,
        model.vocab.mask,
        module.most,
        from_anchor=module.from_anchor,
        has_confidence=module.has_confidence,
    )
    return context, drafter
