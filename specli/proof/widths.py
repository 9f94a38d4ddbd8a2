"""Which batch widths give logits that are bit by bit those of tokens decoded one by one."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from specli.llama.decoder import Decoder, Logits, read

LENGTHS = (24, 600)
"""Tokens in the cache beforehand: what llama.cpp computes with can depend on that."""

WIDEST = 9
"""The widest batch that is compared."""

_N_COMPARED = 72  # tokens, which most widths divide
LEAST_CTX = max(LENGTHS) + _N_COMPARED
"""The smallest context, in tokens, that all of it fits."""

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
        """Tokens per second that the best exact width brings, 1 included, if drafts cost nothing."""
        return max(
            (1.0 - _ACCEPTANCE**width) / (1.0 - _ACCEPTANCE) / self.seconds[width] for width in range(1, self.exact + 1)
        )


def measure_widths(target: Decoder, n_vocab: int, most: int, *, stop_early: bool = False) -> Widths:
    """Decode the same tokens one by one and in batches of each width; compare all logits.

    Many tokens are compared: a different order of summation often leaves no trace after activations are quantised. What
    batches leave in the cache is compared with them, by those that follow. The cache is empty afterwards.

    Args:
        target: The model; it must give ``most`` rows of logits a decode.
        n_vocab: Its tokens.
        most: The widest batch to try.
        stop_early: Leave out what is wider than the first width that differs.
    """
    lengths = [length for length in LENGTHS if length + _N_COMPARED <= target.n_ctx]
    tried = list(range(2, most + 1))
    identical: dict[int, tuple[int, ...]] = {}
    seconds: dict[int, float] = {}
    for length in lengths:
        tokens = np.random.default_rng(length).integers(n_vocab, size=length + _N_COMPARED).tolist()
        target.truncate(0)
        alone = list(_rows(target, tokens, length, 1, seconds))
        same = []
        for width in tried:
            rows = _rows(target, tokens, length, width, seconds)  # one by one: the first that differs is the last
            if all(map(np.array_equal, alone, rows)):
                same.append(width)
            elif stop_early:
                tried = [one for one in tried if one <= width]
                break
        identical[length] = tuple(same)
        if stop_early and not same:
            break
    target.truncate(0)
    return Widths(tuple(tried), identical, seconds)


def _rows(
    target: Decoder, tokens: Sequence[int], length: int, width: int, seconds: dict[int, float]
) -> Iterator[Logits]:
    """Logits of what follows ``length`` tokens, in batches; how long a width takes is noted."""
    target.truncate(length)
    read(target, tokens[len(target.tokens) : length])
    target.checkpoint()
    for start in range(length, len(tokens), width):
        batch = tokens[start : start + width]
        started = time.perf_counter()
        out = target.decode(batch, len(batch))
        if len(batch) == width:
            seconds[width] = min(seconds.get(width, np.inf), time.perf_counter() - started)
        for i in range(len(batch)):
            yield out[i].copy()
