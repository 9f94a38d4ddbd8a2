"""The suffix drafter's index: the longest suffix of the text that occurred before, and how it went on most often."""

from collections.abc import Sequence

from specli.drafters.drafter import Guess

MIN_MATCH = 2
"""The shortest suffix, in tokens, worth going by."""

MAX_TOKENS = 1 << 17
"""The longest text kept: the token after it begins anew with the most recent half, which takes up to half a second."""

_MAX_COUNTED = 16  # suffixes of the text a token counts for: a periodic text has one a period, ordinary ones a few
_DOUBT = 1.5  # occurrences that went on otherwise, assumed of a match of one token


def confidence(count: int, total: int, length: int) -> float:
    """How likely a continuation is to come again: its share, as if the match had also gone on otherwise.

    The longer the match, the fewer times are assumed. In answers and edits by Qwen2.5-Coder 1.5B 0.59, 0.75, 0.89, 0.94
    and 0.99 of the continuations seen once came again after matches of 2, 4, 7 to 8, 17 to 24 and 25 to 48 tokens; this
    says 0.57, 0.73, 0.83, 0.93 and 0.96.

    Args:
        count: How often the matched tokens went on like this, 1 or more.
        total: How often they went on at all, ``count`` or more.
        length: How many tokens matched, 1 or more.

    Returns:
        Between 0 and 1.
    """
    return count / (total + _DOUBT / length)


class SuffixIndex:
    """A suffix automaton (Blumer et al., 1985) over the text, extended token by token.

    A state stands for the substrings that occur at the same places. Its suffix link leads to the longest suffix of
    theirs that occurs elsewhere too; that of the whole text's state is the longest that occurred before, so finding
    it costs nothing (SAM decoding, Hu et al., 2024). From there guesses follow the most frequent continuation, of
    equally frequent ones the latest (SuffixDecoding, Oliaro et al., 2024).

    A state's count is how often its substrings occurred, overlaps included, short by what was left uncounted: a token
    counts for the longest suffixes of the text that occurred before, ``_MAX_COUNTED`` states of them at most.

    A token takes amortised constant time, 2 to 8 µs, and 300 to 650 bytes (CPython 3.11; the most where it makes two
    states, as random bits do), so a text of ``MAX_TOKENS`` takes 45 to 85 MB.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the text."""
        self._text: list[int] = []
        self._last = 0  # the state of the whole text; 0 is the empty one's
        self._lengths = [0]  # of a state's longest substring
        self._links = [-1]
        self._counts = [0]
        self._next: list[dict[int, int]] = [{}]  # by the token that follows
        self._best = [-1]  # the token that followed most often; any number where none did yet

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the end of the text."""
        for token in tokens:
            if len(self._text) == MAX_TOKENS:
                recent = self._text[-(MAX_TOKENS // 2) :]
                self.reset()
                self.extend(recent)
            self._add(token)

    @property
    def match_length(self) -> int:
        """Tokens in the longest suffix of the text that occurs earlier in it, possibly overlapping itself."""
        return self._lengths[self._links[self._last]] if self._text else 0

    def guess(self, n_max: int) -> list[Guess]:
        """Guess how the text goes on.

        Guesses that reach the end of the text go on from the match again, as in a periodic text. Each confidence is
        that of the match there will be if the guesses before have come: the match now, longer by those guesses.

        Args:
            n_max: How many tokens to guess.

        Returns:
            ``n_max`` guesses, or none after a match shorter than ``MIN_MATCH``.
        """
        match_length = self.match_length
        if match_length < MIN_MATCH:
            return []
        last, counts, following, best = self._last, self._counts, self._next, self._best
        state, total = last, 0
        guesses = []
        for length in range(match_length, match_length + n_max):
            if state == last:  # the only state that nothing has followed
                state = self._links[state]
                total = counts[state] - 1  # nor has anything followed its occurrence at the end
            token = best[state]
            state = following[state][token]
            count = counts[state]
            if count > total:  # what was left uncounted may be the match's
                total = count
            guesses.append(Guess(token, confidence(count, total, length)))
            total = count
        return guesses

    def _add(self, token: int) -> None:
        """Blumer's step: make the state of the longer text, and link it to the longest suffix that occurred before."""
        lengths, links, counts, following, best = self._lengths, self._links, self._counts, self._next, self._best
        new = len(lengths)
        lengths.append(lengths[self._last] + 1)
        links.append(0)
        counts.append(1)
        following.append({})
        best.append(token)
        following[self._last][token] = new
        best[self._last] = token
        state = links[self._last]
        while state >= 0 and token not in following[state]:
            if counts[following[state][best[state]]] == 1:
                best[state] = token
            following[state][token] = new
            state = links[state]
        if state >= 0:
            known = following[state][token]
            links[new] = known if lengths[known] == lengths[state] + 1 else self._split(known, state, token)
            self._count(state, token)
        self._last = new
        self._text.append(token)

    def _split(self, known: int, state: int, token: int) -> int:
        """Part the substrings up to ``state`` and ``token``, which occur once more now, from the longer ones."""
        part = len(self._lengths)
        self._lengths.append(self._lengths[state] + 1)
        self._links.append(self._links[known])
        self._counts.append(self._counts[known])
        self._next.append(self._next[known].copy())
        self._best.append(self._best[known])
        self._links[known] = part
        while state >= 0 and self._next[state].get(token) == known:
            self._next[state][token] = part
            state = self._links[state]
        return part

    def _count(self, state: int, token: int) -> None:
        """Count an occurrence of ``token`` after ``state`` and its suffixes, the longest ``_MAX_COUNTED`` of them."""
        links, counts, following, best = self._links, self._counts, self._next, self._best
        counted = -1
        for _ in range(_MAX_COUNTED):
            target = following[state][token]
            if target != counted:  # suffixes of different states may become suffixes of one
                counts[target] += 1
                counted = target
            if best[state] != token and counts[target] >= counts[following[state][best[state]]]:
                best[state] = token
            state = links[state]
            if state < 0:
                break
