"""A context whose model reads hidden states beside, or instead of, tokens: MTP heads and trained draft modules."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import llama_cpp
import numpy as np

from specli.llama import callbacks, staging
from specli.llama.context import Context
from specli.llama.decoder import Logits
from specli.llama.features import Features, Rows
from specli.llama.model import Model
from specli.llama.options import ContextOptions

_MTP = 1  # LLAMA_CONTEXT_TYPE_MTP


class HiddenContext(Context):
    """The cache of one sequence of (token, hidden state) pairs (a ``HiddenDecoder``).

    Args:
        model: The draft's model; MTP heads inside a target's file have the target's.
        options: llama.cpp's context options.
        target: The context whose hidden states are read.
        is_mtp: Whether the model's MTP heads are run, not its layers.

    Raises:
        LoadError: llama.cpp could not make it.
        SpecliError: It does not give hidden states.
    """

    def __init__(self, model: Model, options: ContextOptions, target: Context, *, is_mtp: bool = False) -> None:
        self._target = target
        self._is_mtp = is_mtp
        self._hidden_width = model.n_embd_out
        self._states = staging.function("llama_get_embeddings_nextn")
        give_states = staging.function("llama_set_embeddings_nextn")
        super().__init__(model, options if is_mtp else with_small_batches(options))
        give_states(self._context, True, True)

    def _check_memory(self, model: Model, options: ContextOptions) -> None:
        if not self._is_mtp:  # heads have one layer of the many that the metadata counts
            super()._check_memory(model, options)

    def _adjust(self, params: Any) -> None:
        params.ctx_other = self._target._context
        if self._is_mtp:
            params.ctx_type = _MTP

    def _make_batch(self) -> None:
        """Allocate a batch of tokens and hidden states; llama.cpp's own function allocates one or the other."""
        n = self._n_batch
        self._batch = llama_cpp.llama_batch_init(n, self._hidden_width, 1)
        self._batch_hidden = np.ctypeslib.as_array(self._batch.embd, (n, self._hidden_width))
        self._token_array = np.zeros(n, np.int32)
        self._batch.token = self._token_array.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self._view_batch()

    @property
    def is_recurrent(self) -> bool:
        """Whether (part of) what it remembers cannot be cut; the heads of a recurrent model are attention alone."""
        return self.model.is_recurrent and not self._is_mtp

    def decode_hidden(self, tokens: Sequence[int], hidden: Rows, *, logits: bool) -> Logits:
        """Append pairs to the cache.

        The last is computed alone where logits are wanted: of several pairs some of llama.cpp's graphs give the hidden
        states of all, others of those with logits, and llama.cpp takes the first rows for these either way.

        Args:
            tokens: At least one.
            hidden: Of each, shape (n, width).
            logits: Whether logits are wanted for the last pair.

        Returns:
            float32, shape (1 or 0, n_vocab): llama.cpp's own buffer, which the next call overwrites.
        """
        n_before = len(tokens) - logits
        for start in range(0, n_before, self.n_ubatch):
            end = min(n_before, start + self.n_ubatch)
            self._batch_hidden[: end - start] = hidden[start:end]
            self._decode_piece(tokens[start:end], 0)
        if logits:
            self._batch_hidden[:1] = hidden[-1:]
            self._decode_piece(tokens[-1:], 1)
        return self._logits(int(logits))

    def hidden(self) -> Rows:
        """The hidden state behind the last call's logits: a view, shape (1, width), overwritten by the next."""
        return self._outputs(1)

    def _outputs(self, n_rows: int) -> Rows:
        return np.ctypeslib.as_array(self._states(self._context), (n_rows, self._hidden_width))

    def encode(self, features: Rows) -> Rows:
        """Run the model's encoder, which looks at each row alone.

        Args:
            features: A target's hidden states, shape (n, any width).

        Returns:
            What its decoder reads, float32, shape (n, width).

        Raises:
            DecodeError: It could not be computed.
        """
        encoded = np.empty((len(features), self._hidden_width), np.float32)
        for start in range(0, len(features), self.n_ubatch):
            rows = features[start : start + self.n_ubatch]
            batch, _alive = hidden_batch(rows, len(self.tokens), outputs=True)  # llama.cpp wants them after the cache
            self._compute(llama_cpp.llama_encode, batch, len(rows))
            encoded[start : start + len(rows)] = self._outputs(len(rows))
        callbacks.raise_kept()
        return encoded

    def select_head(self, i: int) -> None:
        """Let the i-th MTP head be run from now on."""
        staging.function("llama_set_nextn_layer_offset")(self._context, i)

    def close(self) -> None:
        """Free the context's memory; the object cannot be used afterwards."""
        if self._context:
            self._batch.token = None  # numpy's, not llama.cpp's to free
        super().close()


_SMALL_BATCH = 64


def with_small_batches(options: ContextOptions, n_least: int = 1) -> ContextOptions:
    """Options for a draft module, of which llama.cpp computes logits for all tokens of a batch, wanted or not.

    Args:
        options: The user's.
        n_least: How many tokens must be computed in one go.
    """
    return replace(
        options,
        batch_size=max(n_least, min(options.batch_size, _SMALL_BATCH)),
        ubatch_size=max(n_least, min(options.ubatch_size, _SMALL_BATCH)),
    )


class EncodedFeatures:
    """A target's hidden states as EAGLE-3's decoder reads them: fused by its encoder (a ``FeatureSource``).

    Args:
        context: EAGLE-3's.
        features: The target's.

    Attributes:
        width: Values a token.
    """

    def __init__(self, context: HiddenContext, features: Features) -> None:
        self._context = context
        self._features = features
        self.width = context.model.n_embd_out

    def rows(self, start: int, end: int) -> Rows:
        """Those of the tokens from position ``start`` to ``end``, float32, shape (end − start, width)."""
        return self._context.encode(self._features.rows(start, end))

    def rehearse(self, n_tokens: int) -> Rows:
        """Rows of the same shape, made of zeros."""
        return self._context.encode(self._features.rehearse(n_tokens))


def hidden_batch(rows: Rows, start: int, *, outputs: bool, n_positions: int = 1) -> tuple[Any, list[Any]]:
    """Make a batch of hidden states alone.

    Args:
        rows: They, shape (n, width).
        start: The first one's position.
        outputs: Whether something is wanted of each.
        n_positions: How many numbers make a position: 4 with multimodal rotary embeddings, of which text needs three.

    Returns:
        The batch, and what must stay alive as long as it.
    """
    n = len(rows)
    states = np.ascontiguousarray(rows, np.float32)
    positions = np.zeros((n_positions, n), np.int32)
    positions[: min(3, n_positions)] = np.arange(start, start + n)
    n_sequences = np.ones(n, np.int32)
    wanted = np.full(n, outputs, np.int8)
    sequence = ctypes.c_int32(0)
    sequences = (ctypes.POINTER(ctypes.c_int32) * n)(*[ctypes.pointer(sequence)] * n)
    batch = llama_cpp.llama_batch(n_tokens=n)
    batch.embd = states.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    batch.pos = positions.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
    batch.n_seq_id = n_sequences.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
    batch.seq_id = sequences
    batch.logits = wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))
    return batch, [states, positions, n_sequences, wanted, sequence, sequences]
