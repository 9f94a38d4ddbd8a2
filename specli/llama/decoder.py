"""What the decoding loop needs of a model: a cache of one sequence, and logits."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


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

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Append tokens to the cache and return logits for the last ``n_logits`` of them.

        Returns:
            float32, shape (n_logits, n_vocab): a view that the next call overwrites.
        """

    def truncate(self, n_tokens: int) -> None:
        """Keep at most the first ``n_tokens`` tokens of the cache.

        A cache that cannot be cut there keeps fewer; ``tokens`` says what is left.
        """

    def checkpoint(self) -> None:
        """Promise that the cache as it is now is the furthest a later ``truncate`` will go back."""


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
