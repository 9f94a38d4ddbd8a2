"""What the decoding loop needs of a model: a cache of one sequence, and logits."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


class Rows(Protocol):
    """Rows of logits: an array, or something that computes a row when it is asked for."""

    def __getitem__(self, i: int, /) -> Any:
        """Row ``i``, float32, shape (n_vocab,)."""


class Decoder(Protocol):
    """A model with a cache that holds one sequence of tokens.

    Anything of this shape can be a target or a draft model: a llama.cpp context, or a table of numbers in a test.
    """

    @property
    def n_ctx(self) -> int:
        """How many tokens the cache can hold."""

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens in the cache, in order."""

    @property
    def n_ubatch(self) -> int:
        """How many tokens are computed at a time."""

    def decode(self, tokens: Sequence[int], n_logits: int) -> Rows:
        """Append tokens to the cache and return logits for the last ``n_logits`` of them.

        Returns:
            float32, shape (n_logits, n_vocab): a view that the next call overwrites.
        """

    def truncate(self, n_tokens: int) -> None:
        """Keep at most the first ``n_tokens`` tokens of the cache.

        A cache that cannot be cut there keeps fewer; ``tokens`` says what is left.
        """

    def checkpoint(self, n_tokens: int | None = None) -> None:
        """Promise that the cache as it is now is the furthest a later ``truncate`` will go back.

        Args:
            n_tokens: At most so many tokens will be taken back, and not the first of the one ``decode`` that follows;
                None: any number, of any number of calls.
        """


class FeatureSource(Protocol):
    """A target's hidden states, by position (``llama.features.Features``)."""

    @property
    def width(self) -> int:
        """Values a token."""

    def rows(self, start: int, end: int) -> Logits:
        """Those of the tokens in its cache from position ``start`` to ``end``, float32, shape (end − start, width)."""

    def rehearse(self, n_tokens: int) -> Logits:
        """Zeros in the shape of ``n_tokens`` rows, made with the work that rows take."""


class HiddenDecoder(Protocol):
    """A model that reads tokens together with hidden states (``llama.hidden_context.HiddenContext``)."""

    @property
    def n_ctx(self) -> int:
        """How many pairs the cache can hold."""

    @property
    def n_ubatch(self) -> int:
        """How many pairs are computed at a time."""

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens in the cache, in order."""

    def decode_hidden(self, tokens: Sequence[int], hidden: Logits, *, logits: bool) -> Logits:
        """Append pairs to the cache.

        Args:
            tokens: At least one.
            hidden: Of each, float32, shape (n, width).
            logits: Whether logits are wanted for the last pair.

        Returns:
            float32, shape (1 or 0, n_vocab): a view that the next call overwrites.
        """

    def hidden(self) -> Logits:
        """The hidden state behind these logits, float32, shape (1, width): overwritten by the next call."""

    def select_head(self, i: int) -> None:
        """Let the i-th of several heads compute from now on."""

    def truncate(self, n_tokens: int) -> None:
        """Keep at most the first ``n_tokens`` pairs."""


class BlockDecoder(Protocol):
    """A model that fills in masked tokens beside a target's hidden states (``llama.block_context.BlockContext``)."""

    @property
    def n_ubatch(self) -> int:
        """How many tokens are computed at a time."""

    @property
    def tokens(self) -> Sequence[int]:
        """Whose hidden states are in the cache, in order."""

    def truncate(self, n_tokens: int) -> None:
        """Keep at most the first ``n_tokens`` of them."""

    def inject(self, tokens: Sequence[int], features: Logits) -> None:
        """Append hidden states to the cache.

        Args:
            tokens: Whose they are.
            features: float32, shape (n, width).
        """

    def fill_in(self, block: Sequence[int]) -> None:
        """Decode a block after the cache, the last token and masks; the cache holds it until it is truncated."""

    def row(self, i: int, before: int) -> Logits:
        """Logits at place ``i`` of the block, float32, shape (n_vocab,): valid until the next pass.

        Args:
            i: The place; the last token's is 0.
            before: The token drawn for the place before, or the last token.
        """

    def confidence(self, i: int) -> float:
        """How sure a head of its own is of place ``i``, 0 to 1."""


OnProgress = Callable[[int, int], None]
"""Called with (tokens done so far, tokens in all)."""


def read(decoder: Decoder, tokens: Sequence[int], on_progress: OnProgress | None = None) -> None:
    """Append tokens, no logits wanted, one computation at a time: progress shows, interruptions are noticed.

    Args:
        decoder: What reads.
        tokens: Any number.
        on_progress: Called after every computation.
    """
    for start in range(0, len(tokens), decoder.n_ubatch):
        piece = tokens[start : start + decoder.n_ubatch]
        decoder.decode(piece, 0)
        if on_progress:
            on_progress(start + len(piece), len(tokens))
