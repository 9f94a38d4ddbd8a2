"""What a target computes for every token beside logits: hidden states, for drafters that were trained on them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from specli.errors import SpecliError
from specli.llama import staging
from specli.llama.model import Model

Rows = npt.NDArray[np.float32]

_LAYER_INPUTS = {
    *("llama", "qwen3", "qwen3moe", "qwen3next", "qwen35", "qwen35moe", "qwen4exp", "gemma4", "gpt-oss", "nemotron_h"),
    *("nemotron_h_moe", "lfm2", "lfm2moe", "mimo2", "minimax-01", "minimax-m2", "deepseek4", "hunyuan_vl"),
    *("bailingmoe3", "muse-glimmer", "nanbeige"),
}
_LAST_STATES = {
    *(
        "qwen35",
        "qwen35moe",
        "qwen3next",
        "bailingmoe3",
        "cohere2moe",
        "deepseek2",
        "deepseek32",
        "deepseek4",
        "gemma4",
    ),
    *("glm-dsa", "glm4moe", "glm5-next", "hy_v3", "mimo2", "nemotron_h", "nemotron_h_moe", "gpt-oss", "step35"),
}
"""The architectures that llama.cpp gives them for; asked for others, it ends the process or gives zeros."""


def can_draft_with_heads(architecture: str) -> bool:
    """Whether heads for further tokens of such a model can be run here."""
    return architecture in _LAST_STATES and staging.is_there()


class Features:
    """Hidden states of the tokens in a context's cache, by position.

    Args:
        context: llama.cpp's handle of it.
        model: Its model.
        layers: Whose inputs to keep, side by side; the number of layers stands for the last one's output.
        n_ctx: How many tokens the cache can hold.

    Attributes:
        width: float32 values a token.

    Raises:
        SpecliError: llama.cpp does not give them, for this architecture or at all.
        ValueError: A layer that there is not.
    """

    def __init__(self, context: Any, model: Model, layers: Sequence[int], n_ctx: int) -> None:
        self._context = context
        self._layers = list(layers)
        self._n_layer = model.n_layer
        self._n_embd = model.n_embd
        self.width = model.n_embd * len(self._layers)
        self._rows: Rows = np.empty((0, self.width), np.float32)
        self._n_ctx = n_ctx
        for layer in self._layers:
            known = _LAST_STATES if layer == model.n_layer else _LAYER_INPUTS
            if not 0 <= layer <= model.n_layer:  # llama.cpp would end the process
                raise ValueError(f"layer {layer} of {model.n_layer}")
            if model.architecture not in known:
                raise SpecliError(
                    f"{model.path}: llama.cpp does not give the hidden states of a {model.architecture} model",
                    "Another drafter, such as a draft model or suffix, works with it.",
                )
            if layer == model.n_layer:
                staging.function("llama_set_embeddings_nextn")(context, True, False)
            else:
                staging.function("llama_set_embeddings_layer_inp")(context, layer, True)

    def take(self, start: int, n_tokens: int) -> None:
        """Copy what the last forward pass computed, for tokens from position ``start``."""
        end = start + n_tokens
        if end > len(self._rows):
            grown = np.empty((min(self._n_ctx, max(end, 2 * len(self._rows), _FIRST)), self.width), np.float32)
            grown[:start] = self._rows[:start]
            self._rows = grown
        for i, layer in enumerate(self._layers):
            columns = self._rows[start:end, i * self._n_embd : (i + 1) * self._n_embd]
            columns[:] = np.ctypeslib.as_array(self._pointer(layer), (n_tokens, self._n_embd))

    def rows(self, start: int, end: int) -> Rows:
        """Those of the tokens at positions from ``start`` to ``end``: a view, shape (end − start, width)."""
        return self._rows[start:end]

    def _pointer(self, layer: int) -> Any:
        if layer == self._n_layer:
            return staging.function("llama_get_embeddings_nextn")(self._context)
        return staging.function("llama_get_embeddings_layer_inp")(self._context, layer)


_FIRST = 512  # tokens there is room for at first
