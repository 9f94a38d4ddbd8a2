"""A context whose model fills in masked tokens beside keys and values made of a target's hidden states."""

from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

from specli.llama import callbacks, staging
from specli.llama.context import Context
from specli.llama.features import Rows
from specli.llama.hidden_context import hidden_batch, with_small_batches
from specli.llama.model import Model
from specli.llama.options import ContextOptions

_MULTIMODAL_ROPE = (llama_cpp.LLAMA_ROPE_TYPE_MROPE, llama_cpp.LLAMA_ROPE_TYPE_IMROPE)
Row = npt.NDArray[np.float32]


class BlockContext(Context):
    """The cache of one sequence of hidden states, after which blocks of tokens are filled in (a ``BlockDecoder``).

    Args:
        model: The draft's.
        options: llama.cpp's context options.
        target: The context whose hidden states are injected, and whose embeddings serve where the draft has none.
        block_size: The most tokens of a block.
        causal: Whether a token of a block sees only those before it.

    Raises:
        LoadError: llama.cpp could not make it.
        SpecliError: It does not give hidden states.
    """

    _has_lattice = False

    def __init__(
        self, model: Model, options: ContextOptions, target: Context, block_size: int, *, causal: bool
    ) -> None:
        self._target = target
        self._block = np.empty((0, 0), np.float32)
        self._n_positions = 4 if llama_cpp.llama_model_rope_type(model.handle) in _MULTIMODAL_ROPE else 1
        self._get_states = staging.function("llama_get_embeddings_nextn")
        give_states = staging.function("llama_set_embeddings_nextn")
        super().__init__(model, with_small_batches(options, block_size), block_size)
        give_states(self._context, True, not self._has_lattice)
        llama_cpp.llama_set_causal_attn(self._context, causal)

    def _adjust(self, params: Any) -> None:
        params.ctx_other = self._target._context

    def inject(self, tokens: Sequence[int], features: Rows) -> None:
        """Append hidden states to the cache, at most ``n_ubatch`` of them: for more llama.cpp ends the process.

        Args:
            tokens: Whose they are.
            features: float32, shape (n, width).

        Raises:
            DecodeError: The cache is as it was before.
        """
        batch, _alive = hidden_batch(features, len(self.tokens), outputs=False, n_positions=self._n_positions)
        self._compute(llama_cpp.llama_decode, batch, len(tokens))
        self.tokens.extend(tokens)
        callbacks.raise_kept()

    def fill_in(self, block: Sequence[int]) -> None:
        """Decode a block after the cache, which holds it afterwards.

        Args:
            block: The last token, then masks.

        Raises:
            DecodeError: The cache is as it was before.
        """
        self._block = self.decode(block, len(block))

    def row(self, i: int, before: int) -> Row:
        """Logits at place ``i`` of the block, float32, shape (n_vocab,), after the token ``before``."""
        row: Row = self._block[i]
        return row

    def confidence(self, i: int) -> float:
        """How sure a confidence head is of place ``i`` of the block, 0 to 1."""
        return float(self._states()[i, 0])

    def _states(self) -> Rows:
        """What the last call computed beside logits, a row a place of the block."""
        return np.ctypeslib.as_array(self._get_states(self._context), (self.n_outputs, self.model.n_embd_out))


class LatticeContext(BlockContext):
    """That of DFlash 2, which tells of each place a few candidates, and how well each follows each of those before it.

    A row of the lattice holds n candidates' ids, then n scores for each candidate of the place before.

    Args:
        model: The draft's.
        options: llama.cpp's context options.
        target: The context whose hidden states are injected.
        block_size: The most tokens of a block.
        n_candidates: How many there are of each place.
        causal: Whether a token of a block sees only those before it.
    """

    _has_lattice = True

    def __init__(
        self,
        model: Model,
        options: ContextOptions,
        target: Context,
        block_size: int,
        n_candidates: int,
        *,
        causal: bool,
    ) -> None:
        self._n_candidates = n_candidates
        super().__init__(model, options, target, block_size, causal=causal)

    def row(self, i: int, before: int) -> Row:
        """The scores of the candidates at place ``i`` after the token ``before``, −∞ elsewhere, shape (n_vocab,)."""
        n, lattice = self._n_candidates, self._states()
        place = 0 if i == 1 else self._candidates(i - 1).index(before)
        logits = np.full(self.model.vocab.n_tokens, -np.inf, np.float32)
        logits[self._candidates(i)] = lattice[i, n * (1 + place) : n * (2 + place)]
        return logits

    def _candidates(self, i: int) -> list[int]:
        return [int(token) for token in self._states()[i, : self._n_candidates]]
