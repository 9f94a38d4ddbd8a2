"""Small tables of a model's real probabilities: a prompt, a few tokens, and every continuation by those."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specli.drafters.drafter import shared_prefix
from specli.llama.decoder import Decoder, Logits, read


class RememberedRows:
    """A model's logits after continuations of a prompt, each computed once, one token at a time.

    Args:
        decoder: The model; its cache is used between calls.
        prompt: At least one token.
    """

    def __init__(self, decoder: Decoder, prompt: Sequence[int]) -> None:
        self._decoder = decoder
        self._prompt = list(prompt)
        self._rows: dict[tuple[int, ...], Logits] = {}

    def row(self, continuation: tuple[int, ...]) -> Logits:
        """Logits of the token after prompt and continuation, float32, shape (n_vocab,)."""
        if continuation not in self._rows:
            self._rows[continuation] = self._compute(continuation)
        return self._rows[continuation]

    def _compute(self, continuation: tuple[int, ...]) -> Logits:
        decoder, wanted = self._decoder, [*self._prompt, *continuation]
        decoder.truncate(min(shared_prefix(decoder.tokens, wanted), len(wanted) - 1))
        n_prompt = len(self._prompt) - 1
        if len(decoder.tokens) < n_prompt:
            read(decoder, wanted[len(decoder.tokens) : n_prompt])
            decoder.checkpoint()
        for token in wanted[len(decoder.tokens) : -1]:
            decoder.decode([token], 0)
        row: Logits = decoder.decode(wanted[-1:], 1)[0].copy()
        return row


def spreading_temperature(logits: Logits) -> float:
    """The temperature at which a few tokens are about equally likely, 1 at least: texts all alike would show little."""
    return max(1.0, float(np.ptp(logits)) / _SPREAD)


_SPREAD = 1.5  # the logarithm of how much likelier the likeliest may be than the least likely


class Table:
    """Logits of a few tokens, numbered anew from 0, after every sequence of them.

    Args:
        rows: Where the logits are.
        choices: The model's own ids of the few.
    """

    def __init__(self, rows: RememberedRows, choices: Sequence[int]) -> None:
        self._rows = rows
        self._choices = np.asarray(choices, np.intp)
        self._known: dict[tuple[int, ...], Logits] = {}

    def logits(self, context: tuple[int, ...]) -> Logits:
        """Those after a context of the few, float32, shape (n_choices,)."""
        if context not in self._known:
            self._known[context] = self._rows.row(tuple(self._choices[list(context)].tolist()))[self._choices]
        return self._known[context]


class TableDecoder:
    """A ``Decoder`` whose logits come from a table.

    As in llama.cpp all its rows lie in one buffer, which every call overwrites.

    Args:
        logits: Of the token after a whole context, shape (n_vocab,).
        n_vocab: How many tokens there are.
        n_ctx: How many the cache holds.
    """

    n_ubatch = 512

    def __init__(self, logits: Callable[[tuple[int, ...]], Logits], n_vocab: int, n_ctx: int = 64) -> None:
        self.n_ctx = n_ctx
        self.tokens: list[int] = []
        self._logits = logits
        self._rows = np.empty((_MOST_ROWS, n_vocab), np.float32)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Any:
        """Append tokens to the cache; return rows for the last ``n_logits``."""
        self.tokens += tokens
        self._rows[:] = np.nan
        for i in range(n_logits):
            self._rows[i] = self._logits(tuple(self.tokens[: len(self.tokens) - n_logits + 1 + i]))
        return self._rows[:n_logits]

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` tokens."""
        del self.tokens[n_tokens:]

    def checkpoint(self, n_tokens: int | None = None) -> None:
        """Nothing to remember: the cache can be cut anywhere."""


_MOST_ROWS = 9  # of one decode
