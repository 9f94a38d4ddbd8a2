"""A target that computes a few tokens at a time, so that its logits are those of plain decoding bit by bit."""

from collections.abc import Sequence

from specli.llama.decoder import Decoder, Logits, Rows


class PiecewiseTarget:
    """A decoder that never computes more than ``width`` tokens at once.

    Where llama.cpp's logits are the same for all batch widths up to ``width``, a text verified through it is plain
    decoding's own. A draft longer than that takes several forward passes, each made when a row of it is asked for: a
    verification that stops at a rejection leaves out the rest.

    Args:
        target: What computes.
        width: The most tokens at once.
    """

    def __init__(self, target: Decoder, width: int) -> None:
        self._target = target
        self._width = width

    @property
    def n_ctx(self) -> int:
        """How many tokens the cache can hold."""
        return self._target.n_ctx

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens in the cache, in order."""
        return self._target.tokens

    @property
    def n_ubatch(self) -> int:
        """How many tokens are computed at a time."""
        return min(self._width, self._target.n_ubatch)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Rows:
        """Append tokens to the cache: at once those that no logits are wanted for, and the first piece of the others.

        The rest is appended as rows are asked for.
        """
        silent = len(tokens) - n_logits
        for start in range(0, silent, self._width):
            self._target.decode(tokens[start : min(silent, start + self._width)], 0)
        return _LateRows(self._target, tokens[silent:], self._width)

    def truncate(self, n_tokens: int) -> None:
        """Keep at most the first ``n_tokens`` tokens of the cache."""
        self._target.truncate(n_tokens)

    def checkpoint(self, n_tokens: int | None = None) -> None:
        """Promise likewise.

        Match verification asks for a row only after all tokens before were kept, so only tokens of the last piece are
        ever taken back, and not its first.
        """
        self._target.checkpoint(None if n_tokens is None else min(n_tokens, self._width - 1))


class _LateRows:
    """Rows of logits, of which the first piece is computed at once and the others when they are asked for."""

    def __init__(self, target: Decoder, tokens: Sequence[int], width: int) -> None:
        self._target = target
        self._tokens = tokens
        self._width = width
        self._rows: list[Logits] = []
        if tokens:
            self._compute_piece()

    def __getitem__(self, i: int) -> Logits:
        while i >= len(self._rows):
            self._compute_piece()
        return self._rows[i]

    def _compute_piece(self) -> None:
        piece = self._tokens[len(self._rows) : len(self._rows) + self._width]
        rows = self._target.decode(piece, len(piece))
        self._rows += [rows[i].copy() for i in range(len(piece))]
