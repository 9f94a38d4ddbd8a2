"""Logits to the distribution a token is drawn from, step by step as llama.cpp's sampler chain does it.

The order is llama.cpp's: logit bias (with the tokens that must never come), penalties, top-k, top-p, min-p,
temperature.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specli.errors import UsageError
from specli.llama.decoder import Logits
from specli.sampling.distribution import Distribution, TokenIds, Weights

_FIRST_SORTED = 256  # as many of the largest logits as are sorted before all are
_SAFE_TOTAL = 1e18  # sums up to this, and down to its inverse, leave room for every term that counts in float32
_HARDLY_COUNTS = np.float32(12.0)  # nats below the largest logit
_ROWS = 64  # how a vocabulary is folded to find its largest logits


@dataclass(frozen=True)
class SamplingOptions:
    """llama.cpp's sampling options, with its defaults.

    Attributes:
        temperature: 0 or less: greedy.
        top_k: Keep the k most likely tokens; 0: all.
        top_p: Keep the fewest tokens that together have this probability; 1: all.
        min_p: Keep tokens at least this likely relative to the most likely; 0: all.
        repeat_last_n: How many tokens the penalties look back on; 0: none, −1: all.
        repeat_penalty: 1: off.
        presence_penalty: 0: off.
        frequency_penalty: 0: off.
        logit_bias: (token id, added to its logit) pairs; −inf forbids a token.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_last_n: int = 64
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    def check(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            UsageError: Naming the flag.
        """
        for flag, value in (
            ("--temp", self.temperature),
            ("--top-p", self.top_p),
            ("--min-p", self.min_p),
            ("--repeat-penalty", self.repeat_penalty),
            ("--presence-penalty", self.presence_penalty),
            ("--frequency-penalty", self.frequency_penalty),
        ):
            if not math.isfinite(value):
                raise UsageError(f"{flag} {value}: not a finite number")
        if self.repeat_penalty <= 0:
            raise UsageError(f"--repeat-penalty {self.repeat_penalty}: must be above 0 (1.0 is off)")
        if self.repeat_last_n < -1:
            raise UsageError(f"--repeat-last-n {self.repeat_last_n}: must be −1 (the whole context) or more")

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature <= 0

    @property
    def penalizes(self) -> bool:
        """Whether the tokens so far change the distribution."""
        active = self.repeat_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0
        return active and self.repeat_last_n != 0


class Transforms:
    """The chain of transforms of one model.

    Args:
        options: Which transforms, how strong.
        n_shared: Give probability to ids below this only; None: to all.
    """

    def __init__(self, options: SamplingOptions, n_shared: int | None = None) -> None:
        self._options = options
        self._n_shared = n_shared
        self._bias_ids = np.array([token for token, _ in options.logit_bias], np.intp)
        self._bias = np.array([bias for _, bias in options.logit_bias], np.float32)
        self._forbidden = frozenset(token for token, bias in options.logit_bias if bias == -math.inf)
        self._only_forbids = not options.penalizes and len(self._forbidden) == len(options.logit_bias)
        self._truncates = options.top_k > 0 or options.top_p < 1.0 or options.min_p > 0.0

    @property
    def history_length(self) -> int | None:
        """How many of the last tokens ``distribution`` must be shown; None: all of them."""
        if not self._options.penalizes:
            return 0
        return None if self._options.repeat_last_n < 0 else self._options.repeat_last_n

    @property
    def greedy(self) -> bool:
        """Whether every distribution is one-hot."""
        return self._options.greedy

    def distribution(self, logits: npt.NDArray[np.float32], history: Sequence[int]) -> Distribution:
        """Turn one row of logits into the distribution its token is drawn from.

        Args:
            logits: float32, shape (n_vocab,); read, never written.
            history: The tokens before this one, at least the last ``history_length``.
        """
        logits = logits[: self._n_shared]
        if self.greedy:
            return Distribution.one_hot(self._argmax(logits, history))
        if not self._truncates:
            return self._all(logits, history)
        ids, values = self._truncated(self._adjusted(logits, history))
        return Distribution(ids, self._exponentials(values.astype(np.float64)))

    def confidence(self, logits: npt.NDArray[np.float32], distribution: Distribution) -> float:
        """How sure a model is of its next token, before any draw: the largest probability.

        For a greedy one-hot distribution that of the plain softmax of its logits, without the many that hardly count:
        it is asked for every token, and half the time is saved for less than a hundredth of the sum.
        """
        if not self.greedy:
            return distribution.max
        logits = logits[: self._n_shared]
        largest = logits.max()
        counting = logits[logits >= largest - _HARDLY_COUNTS]
        return float(1.0 / np.exp(counting - largest).sum(dtype=np.float64))

    def _exponentials(self, logits: Weights) -> Weights:
        """Exponentials, at most 1, of the logits over the temperature; in place. All 0 where nothing is possible."""
        if (largest := logits.max()) == -np.inf:
            return np.zeros_like(logits)
        logits -= largest
        if self._options.temperature != 1.0:
            logits *= 1.0 / self._options.temperature
        return np.exp(logits, out=logits)

    def _all(self, logits: Logits, history: Sequence[int]) -> Distribution:
        """The distribution over a whole vocabulary, in a new array and as few passes over it as can be.

        Nothing need be subtracted from the logits where no exponential overflows and those that count are far from 0.
        """
        if self._only_forbids and self._options.temperature == 1.0:
            with np.errstate(over="ignore"):
                weights = np.exp(logits)
            weights[self._bias_ids[self._bias_ids < len(logits)]] = 0.0
            distribution = Distribution(None, weights)
            if 1.0 / _SAFE_TOTAL < distribution.total < _SAFE_TOTAL:
                return distribution
        adjusted = self._adjusted(logits, history)
        return Distribution(None, self._exponentials(adjusted.copy() if adjusted is logits else adjusted))

    def _argmax(self, logits: Logits, history: Sequence[int]) -> int:
        if self._only_forbids:
            token = int(logits.argmax())
            if token not in self._forbidden:
                return token
        return int(self._adjusted(logits, history).argmax())

    def _adjusted(self, logits: Logits, history: Sequence[int]) -> Logits:
        """Apply logit bias and penalties, on a copy if there are any."""
        if not len(self._bias_ids) and not self._options.penalizes:
            return logits
        logits = logits.copy()
        inside = self._bias_ids < len(logits)
        np.add.at(logits, self._bias_ids[inside], self._bias[inside])
        if self._options.penalizes:
            self._penalize(logits, history)
        return logits

    def _penalize(self, logits: Logits, history: Sequence[int]) -> None:
        """Repetition (Keskar et al., 2019), frequency and presence penalties over the window, in place."""
        n = self._options.repeat_last_n
        window = np.asarray(history[-n:] if n > 0 else history, np.intp)
        ids, counts = np.unique(window[window < len(logits)], return_counts=True)
        values = logits[ids]
        repeat = np.float32(self._options.repeat_penalty)
        values = np.where(values <= 0, values * repeat, values / repeat)
        penalty = counts * self._options.frequency_penalty + self._options.presence_penalty
        logits[ids] = values - penalty.astype(np.float32)

    def _truncated(self, logits: Logits) -> tuple[TokenIds, Logits]:
        """Apply top-k, top-p and min-p, of which one at least is on; ids ascending."""
        options = self._options
        n = len(logits)
        k = options.top_k if 0 < options.top_k < n else n
        if k < n:
            ids = _largest(logits, k)
        elif options.top_p < 1.0:
            ids = self._nucleus_candidates(logits)
        else:
            bound = math.log(min(options.min_p, 1.0)) if options.min_p > 0.0 else -math.inf
            ids = np.flatnonzero(logits >= logits.max() + np.float32(bound))
            return ids, logits[ids]
        values = logits[ids]
        if options.top_p < 1.0:
            total = np.float32(np.exp(logits - values[0]).sum()) if k == n else None
            ids, values = ids[: (kept := _nucleus(values, options.top_p, total))], values[:kept]
        if options.min_p > 0.0:
            kept = max(1, int(np.count_nonzero(values >= values[0] + np.float32(math.log(options.min_p)))))
            ids, values = ids[:kept], values[:kept]
        kept = max(1, int(np.count_nonzero(values > -np.inf)))
        order = np.argsort(ids[:kept])
        return ids[order], values[order]

    def _nucleus_candidates(self, logits: Logits) -> TokenIds:
        """Ids of enough of the largest logits to hold top-p of all probability, largest first."""
        ids = _largest(logits, min(_FIRST_SORTED, len(logits)))
        weights = np.exp(logits - logits[ids[0]])
        if weights[ids].sum() >= self._options.top_p * weights.sum():
            return ids
        return np.argsort(-logits, kind="stable")


def _largest(logits: Logits, k: int) -> TokenIds:
    """Ids of the k largest logits, largest first.

    The vocabulary is folded into columns. The k-th largest of the columns' maxima bounds the k-th largest logit from
    below, and only the k columns that reach it can hold a larger one: two passes over little memory instead of a
    partition of everything.
    """
    n_columns = len(logits) // _ROWS
    if k >= n_columns:
        return np.argsort(-logits, kind="stable")[:k]
    folded = logits[: n_columns * _ROWS].reshape(_ROWS, n_columns)
    maxima = folded.max(axis=0)
    bound = np.partition(maxima, n_columns - k)[n_columns - k]
    columns = np.flatnonzero(maxima >= bound)
    rows, places = np.nonzero(folded[:, columns] >= bound)
    unfolded = np.arange(n_columns * _ROWS, len(logits))
    candidates = np.concatenate([rows * n_columns + columns[places], unfolded])
    return candidates[np.argsort(-logits[candidates], kind="stable")[:k]]


def _nucleus(values: Logits, top_p: float, total: np.float32 | None) -> int:
    """How many of the logits, sorted downwards, top-p keeps (Holtzman et al., 2020), in llama.cpp's single precision.

    ``total`` is the sum of exp(value − largest) over all candidates where ``values`` are only the first of them.
    """
    weights = np.exp(values - values[0])
    cumulative = np.cumsum(weights / (weights.sum() if total is None else total), dtype=np.float32)
    return min(len(values), int(np.searchsorted(cumulative, np.float32(top_p))) + 1)
