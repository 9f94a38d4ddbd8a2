"""A llama.cpp context with one sequence in its cache."""

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp
import numpy as np

from specli.errors import SpecliError
from specli.llama import callbacks, log, memory
from specli.llama.decoder import Logits
from specli.llama.errors import DecodeError, LoadError
from specli.llama.features import Features
from specli.llama.model import Model
from specli.llama.options import ContextOptions
from specli.models.cache_size import cache_size
from specli.models.description import describe

_FLASH_ATTN = {"auto": -1, "off": 0, "on": 1}
_SEQUENCE = 0
_BF16 = 30  # GGML_TYPE_BF16, which llama_cpp does not name
_CONTEXT_STEP = 256  # llama.cpp rounds contexts up to it, but batches down to what was asked for
_BOOKKEEPING_BYTES = 64  # a token of context, besides keys and values
_MOST_OF_MEMORY = 0.9  # the rest goes to what is computed beside the cache
_SNAPSHOT_BYTES = 1 << 30  # of recurrent state, at most; it lies where the model's layers do
_SNAPSHOTS_OF_UNKNOWN_SIZE = 8
_WHOLE_STATE = 0  # of LLAMA_STATE_SEQ_FLAGS: all that a sequence left
_PARTIAL_STATE = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: what a cut cannot undo (recurrent and sliding-window state)


def physical_cores() -> int:
    """Return how many threads llama.cpp would use by default: one a physical core this process may run on."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = set()
    for cpu in allowed:
        try:
            cores.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings").read_text())
        except OSError:
            cores.add(str(cpu))
    return max(1, len(cores))


class Saved(NamedTuple):
    """What a cache held.

    Attributes:
        tokens: The tokens.
        state: llama.cpp's own form of it; None where cutting off what follows them is enough.
    """

    tokens: tuple[int, ...]
    state: "ctypes.Array[ctypes.c_uint8] | None"


class Context:
    """The cache of one sequence and the computations on it (a ``Decoder``).

    Args:
        model: The model, which must outlive the context.
        options: llama.cpp's context options.
        n_outputs: The most tokens of one ``decode`` that logits are asked for; one fewer is the most that is drafted.

    Attributes:
        tokens: The tokens in the cache.
        n_ctx: How many tokens the cache can hold.
        n_ubatch: How many tokens llama.cpp computes at a time.
        n_outputs: As given.
        options: The options, with the defaults that were worked out.
        kv_bytes: Size of the cache, by llama.cpp's own account.
        n_snapshots: After how many of the last decode's tokens recurrent state can be gone back to; 0: none of them.
        seconds: Time spent inside llama.cpp since the context was made.

    Raises:
        LoadError: llama.cpp could not make it (most often: too large for memory).
        UsageError: Options that exclude each other.
    """

    def __init__(self, model: Model, options: ContextOptions, n_outputs: int = 1) -> None:
        options.check()
        self._check_memory(model, options)
        self.model = model
        self.tokens: list[int] = []
        self.n_outputs = n_outputs
        self.seconds = 0.0
        self._checkpoint: tuple[int, ctypes.Array[ctypes.c_uint8]] | None = None
        self._features: list[Features] = []
        params = self._params(options, n_outputs)
        params.n_rs_seq = _snapshots(model, n_outputs - 1, min(params.n_ubatch, params.n_ctx or model.n_ctx_train))
        self._adjust(params)
        with log.capture() as lines:
            self._context = llama_cpp.llama_init_from_model(model.handle, params)
        callbacks.raise_kept()
        if not self._context:
            why = log.failure(lines)
            raise LoadError(
                f"{model.path}: llama.cpp could not make a context of {params.n_ctx} tokens: {why}",
                "Another cache type may fit: -ctk f16 -ctv f16, for a draft -ctkd f16 -ctvd f16."
                if "does not divide" in why
                else "A smaller context (-c) or a quantised cache (-ctk q8_0 -ctv q8_0) takes less memory.",
            )
        self.kv_bytes = memory.kv_cache_bytes(lines)
        self.n_ctx: int = llama_cpp.llama_n_ctx_seq(self._context)
        self._n_batch: int = llama_cpp.llama_n_batch(self._context)
        self.n_ubatch: int = llama_cpp.llama_n_ubatch(self._context)
        self.n_snapshots: int = llama_cpp.llama_n_rs_seq(self._context)
        self._n_in_snapshots = 0  # how many tokens can be cut off the end just now
        self.options = replace(
            options, ctx_size=self.n_ctx, threads=params.n_threads, threads_batch=params.n_threads_batch
        )
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._logits_address = 0
        self._logits_view = np.empty((0, model.vocab.n_tokens), np.float32)
        self._make_batch()
        self._apply_adapters(model)

    def _check_memory(self, model: Model, options: ContextOptions) -> None:
        """Refuse a context that cannot fit: Linux grants the memory, and kills the process once it is written to."""
        n_ctx = options.ctx_size or model.n_ctx_train
        free = memory.free_bytes()
        needed = n_ctx * _BOOKKEEPING_BYTES
        if not (options.kv_offload and model.layers_offloaded):
            needed += memory.least_kv_cache_bytes(model.metadata, model.architecture, options, n_ctx)
        if free is not None and needed > _MOST_OF_MEMORY * free:
            raise LoadError(
                f"{model.path}: a context of {n_ctx} tokens takes {needed / 2**30:.1f} GiB of memory, "
                f"and {free / 2**30:.1f} GiB are free",
                f"A smaller context (-c) or a quantised cache (-ctk q8_0 -ctv q8_0) takes less. The model was trained "
                f"with {model.n_ctx_train} tokens.",
            )

    @staticmethod
    def _params(options: ContextOptions, n_outputs: int) -> llama_cpp.llama_context_params:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = -(-options.ctx_size // _CONTEXT_STEP) * _CONTEXT_STEP
        params.n_batch = options.batch_size
        params.n_ubatch = min(options.ubatch_size, params.n_batch)
        params.n_outputs_max = n_outputs
        params.n_threads = options.threads or physical_cores()
        params.n_threads_batch = options.threads_batch or params.n_threads
        params.flash_attn_type = _FLASH_ATTN[options.flash_attn]
        params.type_k = _ggml_type(options.cache_type_k)
        params.type_v = _ggml_type(options.cache_type_v)
        params.offload_kqv = options.kv_offload
        params.swa_full = options.swa_full
        params.no_perf = True
        return params

    def _adjust(self, params: Any) -> None:
        """Change llama.cpp's parameters for another kind of context."""

    def _apply_adapters(self, model: Model) -> None:
        if not model.adapters:
            return
        n = len(model.adapters)
        adapters = (llama_cpp.llama_adapter_lora_p_ctypes * n)(*(adapter for adapter, _ in model.adapters))
        scales = (ctypes.c_float * n)(*(scale for _, scale in model.adapters))
        if llama_cpp.llama_set_adapters_lora(self._context, adapters, n, scales) != 0:
            self.close()
            raise LoadError(f"{model.path}: the LoRA adapters could not be applied")

    def _make_batch(self) -> None:
        """Allocate the batch once, with numpy views that fill it without a Python loop."""
        self._batch = llama_cpp.llama_batch_init(self._n_batch, 0, 1)
        self._view_batch()

    def _view_batch(self) -> None:
        n = self._n_batch
        self._batch_tokens = np.ctypeslib.as_array(self._batch.token, (n,))
        self._batch_positions = np.ctypeslib.as_array(self._batch.pos, (n,))
        self._batch_outputs = np.ctypeslib.as_array(self._batch.logits, (n,))
        np.ctypeslib.as_array(self._batch.n_seq_id, (n,))[:] = 1
        for i in range(n):
            self._batch.seq_id[i][0] = _SEQUENCE
        self._positions = np.arange(self.n_ctx + n, dtype=np.int32)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Append tokens to the cache, in pieces llama.cpp can take.

        Args:
            tokens: At least one token.
            n_logits: For how many of the last tokens logits are wanted.

        Returns:
            float32, shape (n_logits, n_vocab): llama.cpp's own buffer, which the next ``decode`` overwrites.

        Raises:
            DecodeError: The cache is as it was before the failing piece.
            ValueError: More logits than ``n_outputs``: llama.cpp would abort the process.
        """
        if n_logits > self.n_outputs:
            raise ValueError(f"{n_logits} rows of logits asked of a context made for {self.n_outputs}")
        done, total = 0, len(tokens)
        while total - done > self.n_ubatch and done < total - n_logits:
            size = min(self.n_ubatch, total - n_logits - done)
            self._decode_piece(tokens[done : done + size], 0)
            done += size
        if done < total:
            self._decode_piece(tokens[done:], n_logits)
        return self._logits(n_logits)

    def _decode_piece(self, tokens: Sequence[int], n_logits: int) -> None:
        n, start = len(tokens), len(self.tokens)
        self._batch.n_tokens = n
        self._batch_tokens[:n] = tokens
        self._batch_positions[:n] = self._positions[start : start + n]
        self._batch_outputs[: n - n_logits] = 0
        self._batch_outputs[n - n_logits : n] = 1
        self._n_in_snapshots = 0
        self._compute(llama_cpp.llama_decode, self._batch, n)
        for features in self._features:
            features.take(start, n)
        self.tokens.extend(tokens)
        self._n_in_snapshots = min(self.n_snapshots, n - 1)
        callbacks.raise_kept()

    def _compute(self, function: Callable[[Any, Any], int], batch: Any, n_tokens: int) -> None:
        """Run llama_decode or llama_encode to the end; the cache is as it was before where that fails."""
        start = len(self.tokens)
        started = time.perf_counter()
        code = function(self._context, batch)
        llama_cpp.llama_synchronize(self._context)
        self.seconds += time.perf_counter() - started
        if code != 0:
            self.truncate(start)
            raise DecodeError(code, self.model.path.name, n_tokens, start, self.n_ctx)

    def _logits(self, n_logits: int) -> Logits:
        if not n_logits:
            return self._logits_view[:0]
        pointer = llama_cpp.llama_get_logits(self._context)
        address = ctypes.addressof(pointer.contents)
        if address != self._logits_address:  # llama.cpp keeps its buffer, and a view of it takes long to make
            self._logits_address = address
            self._logits_view = np.ctypeslib.as_array(pointer, (self.n_outputs, self.model.vocab.n_tokens))
        return self._logits_view[:n_logits]

    def keep_features(self, layers: Sequence[int] | None, *, is_last_state: bool = False) -> Features:
        """From now on keep hidden states of every token in the cache.

        Args:
            layers: Whose inputs; None: the last hidden state.
            is_last_state: Whether the number of layers, among ``layers``, stands for the last hidden state.

        Raises:
            SpecliError: llama.cpp does not give them.
        """
        self._features.append(Features(self._context, self.model, layers, self.n_ctx, is_last_state=is_last_state))
        return self._features[-1]

    def warm_up(self) -> None:
        """Run one token through the model, so that its weights are in memory; the cache is empty afterwards."""
        self.decode([max(0, self.model.vocab.bos)], 1)
        self.truncate(0)

    @property
    def is_recurrent(self) -> bool:
        """Whether (part of) what it remembers cannot be cut token by token."""
        return self.model.is_recurrent

    @property
    def rollback(self) -> str:
        """How the end of the cache is taken back: 'cut', 'snapshots' or 'checkpoint' (saved, restored, read again)."""
        if not self.is_recurrent:
            return "cut"
        return "snapshots" if self.n_snapshots else "checkpoint"

    def checkpoint(self, n_tokens: int | None = None) -> None:
        """Remember the cache as it is now, where that is what going back takes (recurrent and hybrid models)."""
        if not self.is_recurrent or (n_tokens is not None and n_tokens <= self.n_snapshots):
            return
        reused = self._checkpoint[1] if self._checkpoint else None
        self._checkpoint = (len(self.tokens), self._state(_PARTIAL_STATE, reused))

    def save(self) -> Saved:
        """Keep the cache's content for ``restore``: its state too, where it could not be cut back to it."""
        if not self.is_recurrent and not self.model.n_swa:
            return Saved(tuple(self.tokens), None)
        return Saved(tuple(self.tokens), self._state(_WHOLE_STATE))

    def restore(self, saved: Saved) -> None:
        """Bring the cache back to what it was when it was saved, if nothing but its end has changed since.

        Raises:
            SpecliError: llama.cpp does not take the state back.
        """
        if saved.state is None:
            self.truncate(len(saved.tokens))
            return
        self._clear()
        state = saved.state
        if not llama_cpp.llama_state_seq_set_data_ext(self._context, state, len(state), _SEQUENCE, _WHOLE_STATE):
            raise SpecliError(f"{self.model.path}: llama.cpp did not take back the state of its own cache")
        self.tokens = list(saved.tokens)

    def _state(
        self, parts: int, reused: "ctypes.Array[ctypes.c_uint8] | None" = None
    ) -> "ctypes.Array[ctypes.c_uint8]":
        size: int = llama_cpp.llama_state_seq_get_size_ext(self._context, _SEQUENCE, parts)
        state = reused if reused is not None and len(reused) == size else (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data_ext(self._context, state, size, _SEQUENCE, parts)
        return state

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` tokens, or fewer where the model's memory cannot be cut there.

        Attention caches are cut in place. Recurrent state goes back to a snapshot, or to the last checkpoint, else to
        nothing.
        """
        n_cached = llama_cpp.llama_memory_seq_pos_max(self._memory, _SEQUENCE) + 1
        if n_tokens < n_cached:  # an interrupted decode may have left more there than ``tokens`` says
            self._cut(n_tokens, n_cached)
            self._n_in_snapshots = 0  # llama.cpp goes back once a decode

    def _cut(self, n_tokens: int, n_cached: int) -> None:
        if n_tokens and self._can_cut(n_tokens, n_cached) and self._remove_tail(n_tokens):
            del self.tokens[n_tokens:]
            if self._checkpoint and self._checkpoint[0] > n_tokens:
                self._checkpoint = None
        elif self._checkpoint and 0 < self._checkpoint[0] <= n_tokens and self._restore():
            del self.tokens[self._checkpoint[0] :]
        else:
            self._clear()

    def _clear(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, False)
        self.tokens.clear()
        self._checkpoint = None
        self._n_in_snapshots = 0

    def _can_cut(self, n_tokens: int, n_cached: int) -> bool:
        """Whether nothing is missing of what the first ``n_tokens`` left: a snapshot, or what a sliding window sees."""
        if self.is_recurrent:
            return n_cached - n_tokens <= self._n_in_snapshots
        first_seen = max(0, n_tokens - self.model.n_swa) if self.model.n_swa else 0
        return bool(llama_cpp.llama_memory_seq_pos_min(self._memory, _SEQUENCE) <= first_seen)

    def _remove_tail(self, n_tokens: int) -> bool:
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, _SEQUENCE, n_tokens, -1))

    def _restore(self) -> bool:
        assert self._checkpoint
        n_tokens, state = self._checkpoint
        restored = llama_cpp.llama_state_seq_set_data_ext(self._context, state, len(state), _SEQUENCE, _PARTIAL_STATE)
        return bool(restored) and self._remove_tail(n_tokens)

    def close(self) -> None:
        """Free the context's memory; the object cannot be used afterwards."""
        if self._context:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None


def _snapshots(model: Model, n_drafted: int, n_ubatch: int) -> int:
    """How many snapshots of recurrent state to ask for: one a drafted token, as far as memory is no matter."""
    if not model.is_recurrent or not n_drafted:
        return 0
    size = cache_size(describe(model.path), 1, "f16", "f16")
    most = _SNAPSHOT_BYTES // size.state if size and size.state else min(_SNAPSHOT_BYTES, _SNAPSHOTS_OF_UNKNOWN_SIZE)
    return max(0, min(n_drafted, most, n_ubatch - 2))  # llama.cpp aborts where they do not fit a ubatch


def _ggml_type(name: str) -> int:
    return _BF16 if name == "bf16" else int(getattr(llama_cpp, f"GGML_TYPE_{name.upper()}"))
