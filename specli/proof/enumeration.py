"""The exact distribution of what a program with random decisions writes, from every path through it."""

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from specli.sampling.distribution import Distribution
from specli.sampling.draws import Draws, Purpose

Law = dict[tuple[int, ...], float]
"""The probability of each text."""

T = TypeVar("T")


class NotIndependentError(Exception):
    """A program's decisions are no function of independent random numbers."""


class EnumeratingDraws:
    """Every key owns one uniform number, known only to lie in an interval that each decision about it cuts.

    So a number that is used twice is used with all its correlations. Which piece a decision takes is scripted; beyond
    the script it is the first. Numbers are cut at a distribution's cumulative sums.

    Args:
        script: The pieces to take, decision by decision.
        n_given: How many of the decisions were made before: their probability does not count.

    Attributes:
        branches: (piece taken, number of pieces) of every decision that had more than one.
        probability: Of what was decided after the given branches, given those.
        intervals: What is known of each number.
    """

    def __init__(self, script: Sequence[int] = (), n_given: int = 0) -> None:
        self.branches: list[tuple[int, int]] = []
        self.probability = 1.0
        self.intervals: dict[tuple[int, int, int], tuple[float, float]] = {}
        self._script = script
        self._n_given = n_given
        self._forgotten = -1

    def accept(self, probability: float, position: int, offset: int) -> bool:
        """Take both ways."""
        return probability >= 1.0 or self._decide((Purpose.ACCEPT, position, offset), [probability, 1.0]) == 0

    def choose(self, distribution: Distribution, purpose: Purpose, position: int, offset: int) -> int:
        """Draw every token that can be drawn."""
        return self._invert(distribution, (purpose, position, offset))

    def race(self, distribution: Distribution, position: int) -> int:
        """Likewise, with the number of a position."""
        return self._invert(distribution, (Purpose.TOKEN, position, 0))

    def forget_before(self, position: int) -> None:
        """From now on a key of an earlier position must not be used, so its interval need not be remembered."""
        self._forgotten = position
        self.intervals = {key: interval for key, interval in self.intervals.items() if key[1] >= position}

    def _invert(self, distribution: Distribution, key: tuple[int, int, int]) -> int:
        if (only := distribution.only_token) is not None:
            return only
        return distribution.token_at(self._decide(key, _cumulative(distribution)))

    def _decide(self, key: tuple[int, int, int], ends: list[float]) -> int:
        """The piece of [0, 1) a key's number falls in."""
        if key[1] < self._forgotten:
            raise NotIndependentError(f"{key} is used again in a later round")
        low, high = self.intervals.get(key, (0.0, 1.0))
        pieces = []
        start = low
        for i, end in enumerate(ends):
            if end > start:
                pieces.append((i, start, min(high, end)))
                if end >= high:
                    break
                start = end
        if len(pieces) == 1:
            return pieces[0][0]
        n = len(self.branches)
        taken = self._script[n] if n < len(self._script) else 0
        if taken >= len(pieces):
            raise NotIndependentError(f"{key}: the same decisions lead to another place the second time")
        self.branches.append((taken, len(pieces)))
        i, a, b = pieces[taken]
        if n >= self._n_given:
            self.probability *= (b - a) / (high - low)
        self.intervals[key] = (a, b)
        return i


@functools.lru_cache(maxsize=10_000)
def _cumulative(distribution: Distribution) -> list[float]:
    """Cumulative sums, the last of a token that can be drawn taken for 1."""
    probabilities = distribution.probabilities.tolist()
    last = max(i for i, probability in enumerate(probabilities) if probability > 0.0)
    ends = list(itertools.accumulate(probabilities))
    ends[last:] = [1.0] * (len(ends) - last)
    return ends


def every_path(run: Callable[[EnumeratingDraws], T], given: Sequence[int] = ()) -> Iterator[tuple[EnumeratingDraws, T]]:
    """Run with every sequence of decisions that begins with the given ones; yield (draws, result)."""
    script = list(given)
    while True:
        draws = EnumeratingDraws(script, len(given))
        yield draws, run(draws)
        branches = draws.branches
        while len(branches) > len(given) and branches[-1][0] == branches[-1][1] - 1:
            branches.pop()
        if len(branches) <= len(given):
            return
        script = [taken for taken, _ in branches]
        script[-1] += 1


class Text(Protocol):
    """A text being written in rounds; iterating writes it."""

    @property
    def emitted(self) -> Sequence[int]:
        """The tokens so far."""

    @property
    def position(self) -> int:
        """Where in the whole sequence the next round begins; no number of an earlier position is used again."""

    @property
    def has_ended(self) -> bool:
        """Whether there is no further round."""

    def state(self) -> Hashable:
        """What, beside the tokens and the random numbers, decides how it goes on."""

    def __iter__(self) -> Iterator[object]:
        """Write round by round."""


def law_of(begin: Callable[[Draws], Text], n: int) -> Law:
    """The exact law of a text's first n tokens (fewer where it ends), from every path through it.

    Paths that have come to the same place (tokens, state, and what is known of numbers that may still be used) go on
    as one: the first of them is run again from the start with every continuation by one round.

    Args:
        begin: Begins the text with the given randomness, to which it must be deterministic.
        n: How many tokens.
    """
    law: Law = defaultdict(float)
    places: dict[tuple[tuple[int, ...], Hashable, Hashable], tuple[float, list[int], int]]
    places = {((), None, None): (1.0, [], 0)}  # probability, script of the first path, its rounds
    while places:
        place = min(places, key=lambda place: len(place[0]))
        probability, script, n_rounds = places.pop(place)

        def one_more(draws: EnumeratingDraws, n_rounds: int = n_rounds) -> Text:
            text = begin(draws)
            for number, _ in enumerate(text, start=1):
                draws.forget_before(text.position)
                if number > n_rounds:
                    break
            return text

        for draws, text in every_path(one_more, script):
            emitted = tuple(text.emitted)
            if text.has_ended or len(emitted) >= n:
                law[emitted[:n]] += probability * draws.probability
                continue
            here = (emitted, text.state(), tuple(sorted(draws.intervals.items())))
            path = [taken for taken, _ in draws.branches]
            known, path, rounds = places.get(here, (0.0, path, n_rounds + 1))
            places[here] = (known + probability * draws.probability, path, rounds)
    return dict(law)


def law_of_steps(
    next_token: Callable[[tuple[int, ...]], Iterable[tuple[int, float]]], ends: Callable[[tuple[int, ...]], bool]
) -> Law:
    """The law of texts that are written token by token.

    Args:
        next_token: The tokens that may follow so many, each with its probability.
        ends: Whether a text of one token or more is complete.
    """
    law: Law = defaultdict(float)

    def go_on(text: tuple[int, ...], probability: float) -> None:
        if text and ends(text):
            law[text] += probability
            return
        for token, chance in next_token(text):
            if chance > 0.0:
                go_on((*text, token), probability * chance)

    go_on((), 1.0)
    return dict(law)


def distance(a: Law, b: Law) -> float:
    """The largest difference between the probabilities of a text."""
    return max(abs(a.get(text, 0.0) - b.get(text, 0.0)) for text in {*a, *b})
