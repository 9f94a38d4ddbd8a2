"""What reads the target's hidden states beside tokens: MTP heads (DeepSeek-V3, 2024), EAGLE-3 (Li et al., 2025)."""

import time
from collections.abc import Sequence

import numpy as np

from specli.drafters.drafter import Draft, DrawToken, Forecast, LengthRule, Sampler, extend, known, seen, shared_prefix
from specli.llama.decoder import FeatureSource, HiddenDecoder, Logits, OnProgress

_LEFT_BY_A_ROUND = 8  # tokens a round may leave to read: few enough to cost little more than one


class HiddenStateDrafter:
    """Drafts with a module that reads a token, and the target's hidden state of the token before it.

    Where the target has not been yet it goes on from its own hidden states. A module of several heads drafts one token
    with each; every head reads all for itself, and their keys and values lie in the same cells, which hold the same
    tokens for all.

    Args:
        name: As ``--drafter`` knows it.
        module: It, in a cache of its own, which holds the context from its token ``first`` on.
        features: The target's hidden states, as the module reads them.
        first: The first token of a text that it reads: 0, with zeros for the hidden state before it, or 1.
        n_heads: How many heads it has.
        n_vocab: How many token ids it knows, counted from 0; None: all.
    """

    def __init__(
        self,
        name: str,
        module: HiddenDecoder,
        features: FeatureSource,
        *,
        first: int = 0,
        n_heads: int = 1,
        n_vocab: int | None = None,
    ) -> None:
        self.name = name
        self._module = module
        self._features = features
        self._first = first
        self._n_heads = n_heads
        self._n_vocab = n_vocab
        self._before_first: list[int] = []  # the tokens it does not read
        self._n_true = 0  # how many pairs of its cache hold the target's states, for all heads
        self._n_context = 0
        self._has_proposed = False
        self._on_prefill: OnProgress | None = None

    def begin(self, prompt: Sequence[int], on_prefill: OnProgress | None = None) -> None:
        """Keep of the cache what the new prompt shares with it, if a text that ended early left that in order."""
        self._on_prefill = on_prefill
        self._n_context = len(prompt)
        self._has_proposed = False
        unread, self._before_first = self._before_first, list(prompt[: self._first])
        n_shared = shared_prefix(self._module.tokens, known(prompt[self._first : -1], self._n_vocab))
        self._keep(min(n_shared, self._n_true) if unread == self._before_first else 0)

    def forecast(self, context: Sequence[int]) -> Forecast:
        """How much it would have to read; how sure it would be takes a computation."""
        n_unread = max(0, len(context) - self._n_read - _LEFT_BY_A_ROUND)
        return Forecast(None, n_unread=n_unread, most=self._n_heads if self._n_heads > 1 else None)

    def propose(self, context: Sequence[int], sampler: Sampler, draw: DrawToken, rule: LengthRule) -> Draft:
        """Read what is new in the context with the target's hidden states, then draft on the module's own."""
        draft = Draft()
        if len(context) <= self._first or not rule.propose_another(0):
            return draft
        seconds = self._catch_up(context)
        draft.prefill_seconds, self._has_proposed = (0.0 if self._has_proposed else seconds), True
        history = seen(context, sampler)
        start = self._n_read
        tokens = list(known(context[start:], self._n_vocab))
        hidden = self._before(start, len(context))
        while True:
            row = self._step(len(draft.tokens), start, tokens, hidden)[0]
            token = extend(draft, row, history, sampler, draw, rule)
            if token is None or len(draft.tokens) == self._n_heads > 1 or not rule.propose_another(len(draft.tokens)):
                break
            history.append(token)
            tokens.append(token)
            hidden = np.concatenate([hidden, self._module.hidden()])
        return draft

    def accept(self, n_accepted: int, token: int) -> None:
        """Forget what was read with the module's own hidden states, or not by all of its heads."""
        n_read_by_all = self._n_context if self._n_heads == 1 else self._n_context - 1
        self._keep(max(0, n_read_by_all - self._first))
        self._n_context += n_accepted + 1

    def rehearse(self, n_tokens: int) -> None:
        """Do the work of reading ``n_tokens`` and proposing one; the cache is empty before and after."""
        hidden = self._features.rehearse(n_tokens)
        for head in range(self._n_heads):
            self._keep(0)
            self._select(head)
            self._module.decode_hidden([0] * n_tokens, hidden, logits=head == 0)
        self._keep(0)

    @property
    def _n_read(self) -> int:
        """The place in the context of the first token not read yet."""
        return self._first + len(self._module.tokens)

    def _keep(self, n_pairs: int) -> None:
        """Keep so many pairs of the cache, or fewer where it cannot be cut there; all of them are true ones."""
        self._module.truncate(n_pairs)
        self._n_true = min(n_pairs, len(self._module.tokens))

    def _select(self, head: int) -> None:
        if self._n_heads > 1:
            self._module.select_head(head)

    def _step(self, i: int, start: int, tokens: Sequence[int], hidden: Logits) -> Logits:
        """Logits of the i-th draft token, shape (1, n_vocab).

        One head goes on from what it has read. The next of several reads all tokens from place ``start`` on.
        """
        if self._n_heads == 1:
            n_read = self._n_read - start
            return self._module.decode_hidden(tokens[n_read:], hidden[n_read:], logits=True)
        self._module.truncate(start - self._first)
        self._module.select_head(i)
        return self._module.decode_hidden(tokens, hidden, logits=True)

    def _catch_up(self, context: Sequence[int]) -> float:
        """Read what the cache lacks, with every head, but for the end; return the seconds it took."""
        started = time.perf_counter()
        start, end = self._n_read, len(context) - 1
        if self._n_heads == 1 and end - start < _LEFT_BY_A_ROUND:
            return 0.0
        while (place := self._n_read) < end:
            self._read(context, place, min(end, place + self._module.n_ubatch))
            if self._on_prefill and not self._has_proposed:
                self._on_prefill(self._n_read - start, end - start)
        return time.perf_counter() - started

    def _read(self, context: Sequence[int], start: int, end: int) -> None:
        """Read the tokens from place ``start`` to ``end``, which one computation can take, with every head."""
        tokens, hidden = known(context[start:end], self._n_vocab), self._before(start, end)
        for head in range(self._n_heads):
            self._module.truncate(start - self._first)
            self._select(head)
            self._module.decode_hidden(tokens, hidden, logits=False)
        self._n_true = len(self._module.tokens)

    def _before(self, start: int, end: int) -> Logits:
        """The target's hidden states of the tokens before those from ``start`` to ``end``, a row each."""
        if start:
            return self._features.rows(start - 1, end - 1)
        return np.concatenate([np.zeros((1, self._features.width), np.float32), self._features.rows(0, end - 1)])
