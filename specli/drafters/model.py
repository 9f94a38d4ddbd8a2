"""A draft model: a small model of the target's vocabulary (llama.cpp's draft-simple)."""

import time
from collections.abc import Sequence

from specli.drafters.drafter import Draft, DrawToken, Forecast, LengthRule, Sampler, extend, known, seen, shared_prefix
from specli.llama.decoder import Decoder, OnProgress, read

_LEFT_BY_A_ROUND = 2  # a round leaves at most its last draft token and the target's own token to catch up on


class ModelDrafter:
    """Drafts by decoding a small model one token at a time.

    Its cache holds a prefix of the context. Where the context has outgrown it, it holds a recent window instead, which
    is read again each time it is full: positions then begin at the window.

    Args:
        model: The draft model's decoder.
        n_vocab: How many token ids it knows, counted from 0; of the others it reads the last it knows. None: all.
    """

    name = "model"

    def __init__(self, model: Decoder, n_vocab: int | None = None) -> None:
        self._model = model
        self._n_vocab = n_vocab
        self._window_start = 0
        self._n_context = 0
        self._has_proposed = False
        self._on_prefill: OnProgress | None = None

    def begin(self, prompt: Sequence[int], on_prefill: OnProgress | None = None) -> None:
        """Keep of the cache what the new prompt shares with it."""
        self._on_prefill = on_prefill
        self._window_start = 0
        self._n_context = len(prompt)
        self._has_proposed = False
        self._model.truncate(shared_prefix(self._model.tokens, known(prompt[:-1], self._n_vocab)))

    def forecast(self, context: Sequence[int]) -> Forecast:
        """How much it would have to read; how sure it would be takes a computation."""
        if len(context) - self._window_start >= self._model.n_ctx:
            return Forecast(None, n_unread=self._model.n_ctx // 2)
        n_unread = len(context) - self._window_start - len(self._model.tokens)
        return Forecast(None, n_unread=max(0, n_unread - _LEFT_BY_A_ROUND))

    def propose(self, context: Sequence[int], sampler: Sampler, draw: DrawToken, rule: LengthRule) -> Draft:
        """Read what is new in the context, then draft."""
        draft = Draft()
        if not rule.propose_another(0):
            return draft
        seconds = self._catch_up(context)
        draft.prefill_seconds, self._has_proposed = (0.0 if self._has_proposed else seconds), True
        history = seen(context, sampler)
        unread = self._unread(context)
        while self._has_room(len(unread)):
            row = self._model.decode(unread, 1)[0]
            token = extend(draft, row, history, sampler, draw, rule)
            if token is None or not rule.propose_another(len(draft.tokens)):
                break
            history.append(token)
            unread = [token]
        return draft

    def accept(self, n_accepted: int, token: int) -> None:
        """Forget the rejected tokens."""
        self._model.truncate(self._n_context + n_accepted - self._window_start)
        self._n_context += n_accepted + 1

    def rehearse(self, n_tokens: int) -> None:
        """Do the work of reading ``n_tokens`` and proposing one; the cache is empty before and after."""
        self._model.truncate(0)
        self._model.decode([0] * n_tokens, 1)
        self._model.truncate(0)

    def _catch_up(self, context: Sequence[int]) -> float:
        """Decode what the cache lacks, all but what a round leaves behind anyway; return the seconds it took."""
        started = time.perf_counter()
        if len(context) - self._window_start >= self._model.n_ctx:
            self._window_start = len(context) - max(1, self._model.n_ctx // 2)
            self._model.truncate(0)
        unread = self._unread(context)
        if len(unread) <= _LEFT_BY_A_ROUND:
            self._model.checkpoint()
            return 0.0
        read(self._model, unread[:-1], None if self._has_proposed else self._on_prefill)
        self._model.checkpoint()
        return time.perf_counter() - started

    def _unread(self, context: Sequence[int]) -> Sequence[int]:
        return known(context[self._window_start + len(self._model.tokens) :], self._n_vocab)

    def _has_room(self, n_tokens: int) -> bool:
        return len(self._model.tokens) + n_tokens <= self._model.n_ctx
