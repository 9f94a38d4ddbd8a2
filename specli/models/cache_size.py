"""What a context takes beside the weights: keys and values, and the state of recurrent layers."""

from dataclasses import dataclass

from specli.models.description import Description
from specli.models.ggml_types import BY_NAME, GgmlType

_PADDING = 256  # llama.cpp rounds contexts, and the caches of sliding windows, up to these
_STATE_BYTES = 4  # recurrent state is kept in single precision

_WINDOW_PATTERNS = {
    **dict.fromkeys(("gemma2", "gpt-oss"), 2),
    **dict.fromkeys(("llama4", "cohere2", "exaone4", "olmo2", "afmoe", "exaone-moe"), 4),
    **{"gemma3n": 5, "gemma3": 6, "plamo3": 8},
}
"""Every so many-th layer sees the whole context, where the file does not say which; llama.cpp's own numbers."""


_INTERVALS = dict.fromkeys(("qwen35", "qwen35moe", "qwen3next"), 4)
"""Every so many-th layer is attention, where the file does not say."""

_SHARE_CACHES = ("gemma3n", "gemma4")
"""Some of their layers use other layers' keys and values: they take less than is worked out here."""


@dataclass(frozen=True)
class CacheSize:
    """Bytes of a context.

    Attributes:
        full: Keys and values of layers that see all of it.
        window: Keys and values of layers that see a sliding window.
        state: Of recurrent layers.
        exact: Whether llama.cpp will take just that; else it may take less.
    """

    full: int
    window: int
    state: int
    exact: bool

    @property
    def total(self) -> int:
        """All of it."""
        return self.full + self.window + self.state


def cache_size(model: Description, n_ctx: int, type_k: str, type_v: str, n_ubatch: int = 512) -> CacheSize | None:
    """What llama.cpp allocates for a context of one sequence; None where the file does not tell.

    Args:
        model: The model.
        n_ctx: Tokens.
        type_k: Of the keys, such as f16 or q8_0.
        type_v: Of the values.
        n_ubatch: Tokens computed at a time (-ub): a sliding window's cache has room for them too.
    """
    n_layers = model.n_layers
    if not n_layers or n_layers > _MOST_LAYERS:
        return None
    n_ctx = _padded(n_ctx)
    kinds, exact = _layer_kinds(model, n_layers)
    sizes = _token_bytes(model, n_layers, BY_NAME[type_k], BY_NAME[type_v])
    if sizes is None:
        return None
    n_window = min(n_ctx, _padded((model.number("attention.sliding_window") or 0) + n_ubatch))
    full = sum(size for size, kind in zip(sizes, kinds, strict=True) if kind == "full") * n_ctx
    window = sum(size for size, kind in zip(sizes, kinds, strict=True) if kind == "window") * n_window
    state = kinds.count("recurrent") * _state_bytes(model)
    return CacheSize(full, window, state, exact and model.architecture not in _SHARE_CACHES)


_MOST_LAYERS = 4096


def _padded(n_tokens: int) -> int:
    return -(-n_tokens // _PADDING) * _PADDING


def _layer_kinds(model: Description, n_layers: int) -> tuple[list[str], bool]:
    """Of each layer 'full', 'window' or 'recurrent', and whether that is certain."""
    if model.number("ssm.inner_size"):
        if recurrent := model.header.arrays.get(f"{model.architecture}.attention.recurrent_layers"):
            return ["recurrent" if flag else "full" for flag in recurrent[:n_layers]], len(recurrent) >= n_layers
        if interval := model.number("full_attention_interval") or _INTERVALS.get(model.architecture):
            return ["full" if (i + 1) % interval == 0 else "recurrent" for i in range(n_layers)], True
        heads = model.per_layer("attention.head_count_kv", n_layers)
        return ["full" if n else "recurrent" for n in heads or [0] * n_layers], True
    if not model.number("attention.sliding_window"):
        return ["full"] * n_layers, True
    pattern = model.header.arrays.get(f"{model.architecture}.attention.sliding_window_pattern")
    if pattern and len(pattern) >= n_layers:
        return ["window" if windowed else "full" for windowed in pattern[:n_layers]], True
    if period := model.number("attention.sliding_window_pattern") or _WINDOW_PATTERNS.get(model.architecture):
        return ["full" if (i + 1) % period == 0 else "window" for i in range(n_layers)], True
    return ["full"] * n_layers, False


def _token_bytes(model: Description, n_layers: int, type_k: GgmlType, type_v: GgmlType) -> list[int] | None:
    """Bytes of a token's keys and values, by layer."""
    n_embd, heads = model.number("embedding_length"), model.per_layer("attention.head_count", n_layers)
    heads_kv = model.per_layer("attention.head_count_kv", n_layers) or heads
    if not n_embd or not heads or not heads_kv or not max(heads):
        return [0] * n_layers if model.number("ssm.inner_size") else None
    latent = model.number("attention.kv_lora_rank")
    if latent and model.number("attention.key_length_mla"):  # multi-head latent attention keeps one vector for both
        return [_row_bytes(type_k, latent + (model.number("rope.dimension_count") or 0))] * n_layers
    default = n_embd // max(heads)
    length_k, length_v = (model.number(f"attention.{name}_length") or default for name in ("key", "value"))
    return [_row_bytes(type_k, length_k * n) + _row_bytes(type_v, length_v * n) for n in heads_kv]


def _row_bytes(kind: GgmlType, n_values: int) -> int:
    return n_values // kind.block * kind.bytes


def _state_bytes(model: Description) -> int:
    """Of one recurrent layer: the convolution's last inputs, and the state itself."""
    inner, state = model.number("ssm.inner_size") or 0, model.number("ssm.state_size") or 0
    groups, convolution = model.number("ssm.group_count") or 0, model.number("ssm.conv_kernel") or 0
    return _STATE_BYTES * (max(0, convolution - 1) * (inner + 2 * groups * state) + state * inner)
