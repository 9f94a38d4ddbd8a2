"""Which batch widths give logits that are bit by bit those of tokens decoded one by one."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specli.llama.decoder import Decoder, Logits, read

LENGTHS = (24, 600)
"""Tokens in the cache beforehand: what llama.cpp computes with can depend on that."""

WIDEST = 9
"""The widest batch that is compared."""

_ACCEPTANCE = 0.7  # of drafts, to weigh the price of a batch against what it may bring


@dataclass(frozen=True)
class Widths:
    """What was found.

    Attributes:
        tried: The widths, ascending from 2.
        identical: By context length, those whose logits, and what they leave in the cache, are bit by bit width 1's.
        seconds: Of a forward pass over so many tokens, 1 included.
    """

    tried: tuple[int, ...]
    identical: dict[int, tuple[int, ...]]
    seconds: dict[int, float]

    @property
    def exact(self) -> int:
        """The widest width up to which all are identical, at every length; 1: none is."""
        width = 1
        while self.identical and width + 1 in self.tried and all(width + 1 in same for same in self.identical.values()):
            width += 1
        return width

    def speed(self) -> float:
        """Tokens per second that verifying at the widest exact width brings, if drafts cost nothing."""
        width = self.exact
        tokens = (1.0 - _ACCEPTANCE**width) / (1.0 - _ACCEPTANCE)
        return tokens / self.seconds[width]


def measure_widths(target: Decoder, n_vocab: int, most: int, *, stop_early: bool = False) -> Widths:
    """Decode the same tokens one by one and in two batches of each width; compare all logits.

    A token more, decoded alone, tells whether the cache is the same too. The cache is empty afterwards.

    Args:
        target: The model; it must give ``most`` rows of logits a decode.
        n_vocab: Its tokens.
        most: The widest batch to try.
        stop_early: Leave out what is wider than the first width that differs.
    """
    lengths = [length for length in LENGTHS if length + 2 * most + 1 <= target.n_ctx]
    tried = list(range(2, most + 1))
    identical: dict[int, tuple[int, ...]] = {}
    seconds: dict[int, float] = {}
    for length in lengths:
        tokens = np.random.default_rng(length).integers(n_vocab, size=length + 2 * most + 1).tolist()
        target.truncate(0)
        alone = _rows(target, tokens, length, [1] * (2 * most + 1), seconds)
        same = []
        for width in tried:
            if all(map(np.array_equal, alone, _rows(target, tokens, length, [width, width, 1], seconds))):
                same.append(width)
            elif stop_early:
                tried = [one for one in tried if one <= width]
                break
        identical[length] = tuple(same)
    target.truncate(0)
    return Widths(tuple(tried), identical, seconds)


def _rows(
    target: Decoder, tokens: Sequence[int], length: int, sizes: Sequence[int], seconds: dict[int, float]
) -> list[Logits]:
    """Logits of what follows ``length`` tokens, in batches of these sizes; how long each took is noted."""
    target.truncate(length)
    read(target, tokens[len(target.tokens) : length])
    target.checkpoint()
    rows: list[Logits] = []
    for size in sizes:
        start = length + len(rows)
        started = time.perf_counter()
        out = target.decode(tokens[start : start + size], size)
        seconds[size] = min(seconds.get(size, np.inf), time.perf_counter() - started)
        rows += [out[i].copy() for i in range(size)]
    return rows
