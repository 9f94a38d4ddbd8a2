"""Whether models fit into memory, worked out from their files before any of it is taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specli.llama import devices, memory
from specli.llama.errors import LoadError
from specli.llama.options import ContextOptions, ModelOptions
from specli.models.cache_size import cache_size
from specli.models.description import describe

_LOGIT_BYTES = 4
_MAPPED = ("auto", "mmap")
_GIB = 2**30


@dataclass(frozen=True)
class Need:
    """What a model takes of this machine's own memory, in bytes; 0 of what a GPU may hold.

    Attributes:
        name: Of its file.
        weights: All tensors.
        cache: Keys, values and recurrent state of its context.
        logits: One row for each token they are asked of.
        is_mapped: Whether weights are read from the file where they are used, and can be dropped again.
        flag: What the flags of its context end with: 'd' for a draft's.
    """

    name: str
    weights: int
    cache: int
    logits: int
    is_mapped: bool
    flag: str = ""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.logits


def need_of(
    path: Path, model: ModelOptions, context: ContextOptions, most: int | None, n_outputs: int, flag: str = ""
) -> Need:
    """Work out what a model takes.

    Args:
        path: Its file.
        model: How it is loaded.
        context: Its context's options; 0 tokens: as many as it was trained with.
        most: Of the context's tokens not more than it was trained with and this; None: all of them.
        n_outputs: Of how many tokens logits are asked at once.
        flag: What the flags of its context end with.

    Raises:
        SpecliError: The file is no model.
    """
    file = describe(path)
    trained = file.number("context_length") or 0
    n_ctx = (context.ctx_size or trained) if most is None else min(most, trained or most)
    size = cache_size(file, n_ctx, context.cache_type_k, context.cache_type_v, context.ubatch_size)
    on_gpu = devices.supports_offload() and model.n_gpu_layers != 0 and model.device != ()
    return Need(
        name=path.name,
        weights=0 if on_gpu else file.n_weight_bytes or 0,
        cache=size.total if size and not (on_gpu and context.kv_offload) else 0,
        logits=n_outputs * (file.n_vocab or 0) * _LOGIT_BYTES,
        is_mapped=model.load_mode in _MAPPED,
        flag=flag,
    )


def check_fits(needs: Sequence[Need]) -> str | None:
    """Refuse what cannot fit; return a warning where it fits only if weights are read from the disk again and again.

    Raises:
        LoadError: Saying what takes how much, what is free, and which flag to change.
    """
    free = memory.free_bytes()
    if free is None:
        return None
    address_space = memory.address_space_left()
    total = sum(need.total for need in needs)
    kept = total - sum(need.weights for need in needs if need.is_mapped)
    limit = free if address_space is None else min(free, address_space)
    if kept > limit or (address_space is not None and total > address_space):
        raise LoadError(f"not enough memory: {_words(needs)}, and {limit / _GIB:.1f} GiB are free", _hint(needs))
    if total > free:
        return (
            f"{_words(needs)}, and {free / _GIB:.1f} GiB are free: weights are read from the disk again and again, or "
            "the process is killed (--no-repack leaves them in the file)"
        )
    return None


def _words(needs: Sequence[Need]) -> str:
    parts = []
    for need in needs:
        sizes = {"weights": need.weights, "KV cache": need.cache, "logits": need.logits}
        named = [f"{size / _GIB:.1f} GiB of {what}" for what, size in sizes.items() if size > 0.05 * _GIB]
        parts.append(f"{need.name} takes {' and '.join(named) or 'next to nothing'}")
    return ", ".join(parts)


def _hint(needs: Sequence[Need]) -> str:
    """What to change about whatever takes most."""
    largest = max(needs, key=lambda need: need.total)
    if largest.cache >= max(largest.weights, largest.logits):
        context = "--draft-ctx-size" if largest.flag else "-c"
        return (
            f"A smaller context ({context}) or a quantised cache "
            f"(-ctk{largest.flag} q8_0 -ctv{largest.flag} q8_0) takes less."
        )
    if largest.logits > largest.weights:
        return "A smaller --n-max takes less."
    if largest.flag:
        return "Leave out --draft, or use a smaller one."
    return "A smaller or more strongly quantised model takes less (specli inspect shows sizes)."
