"""llama.cpp's n-gram drafters that hash n-grams and learn how their guesses turn out: map-k, map-k4v and mod.

They look up what llama.cpp's do, oddities included, so that the two can be compared. What llama.cpp calls the history
is here the text without its last token, the sampled token is that last token, and the prompt is the text at the first
guess. Its tables are reproduced to the slot: they lose or confuse n-grams where its hashes collide.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import mul

from specli.drafters.drafter import Guess, shared_prefix

CONFIDENCE = 0.9
"""Of every guess no count speaks for: what once followed this many tokens mostly follows them again."""

_MOST_VALUES = 4  # m-grams told apart after one n-gram by map-k4v
_LAG = 32  # ngram-mod reads the text on once it is this far ahead
_POOR = 0.25  # a guess of which less than this share was accepted ...
_MOST_POOR = 5  # ... so many times in a row makes ngram-mod start afresh


class _Hash:
    """A linear congruential hash of ``n`` tokens into ``n_slots``, a power of two: overflow cannot change the slot."""

    def __init__(self, n: int, multiplier: int, n_slots: int) -> None:
        self._weights = [pow(multiplier, i, n_slots) for i in reversed(range(n))]
        self._n_slots = n_slots

    def __call__(self, tokens: Sequence[int]) -> int:
        total: int = sum(map(mul, self._weights, tokens))
        return total % self._n_slots


class _JudgedIndex(ABC):
    """An index that hears, before its next guess, how many tokens of the last one the text took up."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the text, to begin another."""
        self._text: list[int] = []
        self._n_prompt = 0
        self._guessed: list[int] = []
        self._n_before = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the end of the text."""
        self._text.extend(tokens)

    def guess(self, n_max: int) -> list[Guess]:
        """Guess how the text goes on: at most ``n_max`` tokens, none where the last n-gram is not known."""
        self._n_prompt = self._n_prompt or len(self._text)
        self._judge_last()
        self._guessed = self._look_up()[:n_max]
        self._n_before = len(self._text)
        return [Guess(token, CONFIDENCE) for token in self._guessed]

    def _judge_last(self) -> None:
        """Judge the last guess, unless all that came since was guessed and the guess went further: it may yet hold."""
        since = self._text[self._n_before :]
        n_accepted = shared_prefix(self._guessed, since)
        if self._guessed and (n_accepted < len(since) or n_accepted == len(self._guessed)):
            self._judge(n_accepted)

    @abstractmethod
    def _look_up(self) -> list[int]:
        """The tokens to guess, however many."""

    @abstractmethod
    def _judge(self, n_accepted: int) -> None:
        """Learn how many tokens of the last guess were accepted."""


@dataclass
class _Value:
    """An m-gram after an n-gram: how many of its tokens were accepted last time, and how often it was counted."""

    n_accepted: int
    count: int = 0


@dataclass
class _Key:
    """An n-gram that came again: how often, where counting its m-grams got to, and those m-grams."""

    n_hits: int = 0
    counted_to: int = 0
    values: dict[tuple[int, ...], _Value] = field(default_factory=dict)


class NgramMapK(_JudgedIndex):
    """llama.cpp's ngram-map-k: guesses the tokens that followed an earlier occurrence of the last ``size_n``.

    The occurrence is the latest one in the prompt, or else in the stretch of text where the n-gram first came after it;
    the first token of the text and those around the end of the prompt are never looked at. An n-gram guesses as many
    tokens as were accepted of its last guess; once none were, never again. llama.cpp takes --spec-ngram-map-k-min-hits
    without looking at it, so there is none here.

    Args:
        size_n: Tokens looked up.
        size_m: The most tokens guessed.
    """

    def __init__(self, size_n: int, size_m: int) -> None:
        self._size_n, self._size_m = size_n, size_m
        self._hash = _Hash(size_n, 2654435761, 2**18)
        super().__init__()

    def reset(self) -> None:
        """Forget the text, to begin another."""
        super().reset()
        self._places: dict[int, int] = {}
        self._n_placed = 0
        self._keys: dict[tuple[int, ...], _Key] = {}
        self._value: _Value | None = None

    def _look_up(self) -> list[int]:
        if len(self._text) - 1 < 2 * self._size_n + self._size_m:
            return []
        ngram = self._text[-self._size_n :]
        place = self._find(ngram)
        if place == 0:
            return []
        key = self._keys.setdefault(tuple(ngram), _Key())
        key.n_hits += 1
        self._value = self._choose(key, ngram, place)
        if self._value is None:
            return []
        after = place + self._size_n
        return self._text[after : after + self._value.n_accepted]

    def _find(self, ngram: list[int]) -> int:
        """Where the n-gram stood before, 0 if that is not known; the places new since the last time are remembered.

        They are gone through from the end, those of the prompt first; of all places of a slot the first met stays.
        """
        last = len(self._text) - 2 - self._size_n - self._size_m
        place = self._places.get(self._hash(ngram), 0)
        if self._ngram(place) != ngram:
            place = 0
        in_prompt = range(self._n_prompt - 1 - self._size_n - self._size_m, self._n_placed, -1)
        generated = range(last, max(self._n_prompt, self._n_placed), -1)
        for i in chain(in_prompt, generated):
            candidate = self._ngram(i)
            if place == 0 and candidate == ngram:
                place = i
            self._places.setdefault(self._hash(candidate), i)
        self._n_placed = last
        return place

    def _ngram(self, i: int) -> list[int]:
        return self._text[i : i + self._size_n]

    def _choose(self, key: _Key, ngram: list[int], place: int) -> _Value | None:
        """What stands for the m-gram to guess: one for all that follow the n-gram."""
        return key.values.setdefault((), _Value(self._size_m))

    def _judge(self, n_accepted: int) -> None:
        if self._value is not None:
            self._value.n_accepted = n_accepted


class NgramMapK4V(NgramMapK):
    """llama.cpp's ngram-map-k4v: guesses only where one m-gram follows the last n-gram much oftener than others.

    Told apart are the first four m-grams; one must have been counted at least twice as often as the other three
    together. Counted are the occurrences up to the one that ``NgramMapK`` would guess from, which counts again each
    time. How many tokens are guessed depends on what was accepted when the most frequent m-gram was chosen last; the
    tokens themselves are those that followed that occurrence, even where these are not that m-gram.

    Args:
        size_n: Tokens looked up.
        size_m: The most tokens guessed.
        min_hits: How often an n-gram must have been looked up with success, this time included.
    """

    def __init__(self, size_n: int, size_m: int, min_hits: int) -> None:
        self._min_hits = min_hits
        super().__init__(size_n, size_m)

    def _choose(self, key: _Key, ngram: list[int], place: int) -> _Value | None:
        if key.n_hits < self._min_hits:
            return None
        for i in range(key.counted_to, place + 1):
            if self._ngram(i) == ngram:
                self._count(key.values, i + self._size_n)
        key.counted_to = place
        best = max(key.values.values(), key=lambda value: value.count)
        n_others = sum(value.count for value in key.values.values()) - best.count
        return best if best.count >= 2 * n_others else None

    def _count(self, values: dict[tuple[int, ...], _Value], i: int) -> None:
        mgram = tuple(self._text[i : i + self._size_m])
        if mgram in values or len(values) < _MOST_VALUES:
            values.setdefault(mgram, _Value(self._size_m)).count += 1


class NgramMod(_JudgedIndex):
    """llama.cpp's ngram-mod: a table from the last ``n_match`` tokens to the next, looked up again and again.

    The table holds what came last and never checks whether an n-gram is the one it was asked for. It lags behind the
    text a little, and is made anew when five guesses in a row were mostly rejected.

    Args:
        n_match: Tokens looked up.
        n_min: Guess no fewer tokens, except where ``n_max`` is less.
        n_max: The most tokens guessed.
    """

    def __init__(self, n_match: int, n_min: int, n_max: int) -> None:
        self._n_match, self._n_min, self._n_max = n_match, n_min, n_max
        self._hash = _Hash(n_match, 6364136223846793005, 2**22)
        super().__init__()

    def reset(self) -> None:
        """Forget the text, to begin another."""
        super().reset()
        self._next: dict[int, int] = {}
        self._n_learnt = 0
        self._has_begun = False
        self._n_poor = 0

    def _look_up(self) -> list[int]:
        if not self._has_begun:
            self._has_begun = True
            self._learn(self._n_prompt)
        n_past = len(self._text) - 1
        if n_past < self._n_match:
            return []
        if n_past > self._n_learnt + _LAG:
            self._learn(n_past)
        tokens = self._text[-self._n_match :]
        for i in range(self._n_max):
            token = self._next.get(self._hash(tokens[i:]))
            if token is None:
                return tokens[self._n_match :] if i >= self._n_min else []
            tokens.append(token)
        return tokens[self._n_match :]

    def _learn(self, n_tokens: int) -> None:
        """Enter the n-grams that are followed by a token among the first ``n_tokens`` of the text."""
        for i in range(self._n_learnt, n_tokens - self._n_match):
            after = i + self._n_match
            self._next[self._hash(self._text[i:after])] = self._text[after]
        self._n_learnt = max(0, n_tokens - self._n_match)

    def _judge(self, n_accepted: int) -> None:
        self._n_poor = self._n_poor + 1 if n_accepted < _POOR * len(self._guessed) else 0
        if self._n_poor == _MOST_POOR:
            self._next.clear()
            self._n_learnt = self._n_poor = 0
