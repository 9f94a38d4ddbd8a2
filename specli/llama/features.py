"""What a target computes for every token beside logits: hidden states, for drafters that were trained on them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from specli.errors import SpecliError
from specli.llama import staging
from specli.llama.model import Model

Rows = npt.NDArray[np.float32]

_FIRST_ROWS = 512

_LAYER_INPUTS = {
    *("llama", "qwen3", "qwen3moe", "qwen3next", "qwen35", "qwen35moe", "gemma4", "gpt-oss", "nemotron_h", "lfm2"),
    *("nemotron_h_moe", "lfm2moe", "mimo2", "minimax-01", "minimax-m2", "deepseek4", "hunyuan_vl", "bailingmoe3"),
    *("muse-glimmer", "nanbeige"),
}
"""The architectures whose layers' inputs llama.cpp gives; asked for others', it ends the process."""

_INPUT_AFTER_THE_LAST = {"nemotron_h", "nemotron_h_moe", "mimo2", "deepseek4"}
"""Those of them whose last layer's output it gives like the input of one more."""

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
"""The architectures whose last hidden states, those that heads for further tokens read, it gives; of others, zeros."""


def can_draft_with_heads(architecture: str) -> bool:
    """Whether heads for further tokens of such a model can be run here."""
    return architecture in _LAST_STATES and staging.is_there()


class Features:
    """Hidden states of the tokens in a context's cache, by position (a ``FeatureSource``).

    All of them stay, 4 bytes a value: a text that shares its beginning with the one before, or drafts late, needs them.

    Args:
        context: llama.cpp's handle of it.
        model: Its model.
        layers: Whose inputs to keep, side by side; None: the last hidden state instead.
        n_ctx: How many tokens the cache can hold.
        is_last_state: Whether the number of layers, among ``layers``, stands for the last hidden state (EAGLE-3).

    Attributes:
        width: Values a token.

    Raises:
        SpecliError: llama.cpp does not give them, for this architecture or at all.
    """

    def __init__(
        self, context: Any, model: Model, layers: Sequence[int] | None, n_ctx: int, *, is_last_state: bool = False
    ) -> None:
        self._context = context
        self._n_ctx = n_ctx
        self._parts: list[tuple[int | None, int]] = []  # layer, or None for the last hidden state; width
        for layer in (None,) if layers is None else layers:
            last = layer is None or (is_last_state and layer == model.n_layer)
            self._parts.append((None, model.n_embd_out) if last else (layer, model.n_embd))
        for layer, _ in self._parts:
            _check(model, layer)
            if layer is None:
                staging.function("llama_set_embeddings_nextn")(context, True, False)
            else:
                staging.function("llama_set_embeddings_layer_inp")(context, layer, True)
        self.width = sum(width for _, width in self._parts)
        self._rows: Rows = np.empty((0, self.width), np.float32)

    def take(self, start: int, n_tokens: int) -> None:
        """Copy what the last forward pass computed, for tokens from position ``start``."""
        end = start + n_tokens
        if end > len(self._rows):
            n_rows = min(self._n_ctx, max(end, 2 * len(self._rows), _FIRST_ROWS))
            grown = np.empty((n_rows, self.width), np.float32)
            grown[:start] = self._rows[:start]
            self._rows = grown
        column = 0
        for layer, width in self._parts:
            computed = np.ctypeslib.as_array(self._pointer(layer), (n_tokens, width))
            self._rows[start:end, column : column + width] = computed
            column += width

    def rows(self, start: int, end: int) -> Rows:
        """Those of the tokens at positions from ``start`` to ``end``: a view, float32, shape (end − start, width)."""
        return self._rows[start:end]

    def rehearse(self, n_tokens: int) -> Rows:
        """Zeros, float32, shape (n_tokens, width): rows are there without work."""
        return np.zeros((n_tokens, self.width), np.float32)

    def _pointer(self, layer: int | None) -> Any:
        if layer is None:
            return staging.function("llama_get_embeddings_nextn")(self._context)
        return staging.function("llama_get_embeddings_layer_inp")(self._context, layer)


def missing_state(architecture: str, n_layer: int, layer: int | None) -> str | None:
    """Which hidden state llama.cpp does not give, and would end the process for; None where it gives it.

    Args:
        architecture: Of the target.
        n_layer: How many layers it has.
        layer: Whose input is wanted; None: the last hidden state.
    """
    if layer is None:
        is_given = architecture in _LAST_STATES
    elif layer == n_layer:
        is_given = architecture in _INPUT_AFTER_THE_LAST
    else:
        is_given = architecture in _LAYER_INPUTS and 0 <= layer < n_layer
    if is_given:
        return None
    which = "the last hidden state" if layer is None else f"the hidden state before layer {layer}"
    return f"llama.cpp does not give {which} of a {architecture} model"


def _check(model: Model, layer: int | None) -> None:
    if missing := missing_state(model.architecture, model.n_layer, layer):
        hint = "Another drafter, such as a draft model or suffix, works with it."
        raise SpecliError(f"{model.path}: {missing}", hint)
