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
    if draft.architecture == _ASSISTANT:
        raise SpecliError(f"{draft.path}: Gemma 4's assistants read the target's own cache, which is not supported")
    module = draft_module(describe(draft.path))
    if module is None:
        context = Context(draft, options)
        return context, ModelDrafter(context, n_shared)
    target_model = target.model
    width = target_model.n_embd_out if module.kind == MTP else target_model.n_embd
    if why := module.mismatch(target_model.path.name, target_model.n_layer, width):
        raise SpecliError(f"{draft.path}: {why}", "Take the draft that was trained with this target.")
    n_vocab = n_shared if n_shared is None or n_shared < target_model.vocab.n_tokens else None
    options = replace(options, ctx_size=target.n_ctx)
    if module.kind == MTP:
        return mtp_drafter(draft, options, target, n_vocab)
    if module.kind == EAGLE3:
        return _eagle3_drafter(draft, module, options, target, n_vocab)
    return _block_drafter(draft, module, options, target, n_vocab)


_ASSISTANT = "gemma4-assistant"
_LARGEST_BLOCK = 256  # the smallest context holds it
_CONVERT = "Convert it again with a newer convert_hf_to_gguf.py."


def mtp_drafter(
    model: Model, options: ContextOptions, target: Context, n_vocab: int | None = None
) -> tuple[Context, TrainedDrafter]:
    """Make a drafter of MTP heads, the target's own or from a file of their own; as ``trained_drafter``."""
    features = target.keep_features(None)
    context = HiddenContext(model, replace(options, ctx_size=target.n_ctx), target, is_mtp=True)
    return context, HiddenStateDrafter(MTP, context, features, n_heads=model.n_mtp_heads, n_vocab=n_vocab)


def _eagle3_drafter(
    model: Model, module: DraftModule, options: ContextOptions, target: Context, n_vocab: int | None
) -> tuple[Context, TrainedDrafter]:
    features = target.keep_features(module.target_layers, is_last_state=True)
    context = HiddenContext(model, options, target)
    return context, HiddenStateDrafter(EAGLE3, context, EncodedFeatures(context, features), first=1, n_vocab=n_vocab)


def _block_drafter(
    model: Model, module: DraftModule, options: ContextOptions, target: Context, n_vocab: int | None
) -> tuple[Context, TrainedDrafter]:
    if module.block_size is None or not module.most or module.block_size > _LARGEST_BLOCK:
        raise SpecliError(f"{model.path}: drafts blocks of {module.most} tokens, by its metadata", _CONVERT)
    if not 0 <= model.vocab.mask < model.vocab.n_tokens:
        raise SpecliError(f"{model.path}: names no token of its vocabulary as the one to fill in", _CONVERT)
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
        model.vocab.mask,
        module.most,
        from_anchor=module.from_anchor,
        has_confidence=module.has_confidence,
        n_vocab=n_vocab,
    )
    return context, drafter
