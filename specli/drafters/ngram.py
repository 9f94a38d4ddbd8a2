"""llama.cpp's n-gram drafters, by llama.cpp's names: ngram-simple and ngram-cache, and the table of all of them.

Like those of ``ngram_map`` they look up what llama.cpp's do, oddities included, so that the two can be compared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from specli.drafters.drafter import Guess
from specli.drafters.lookup import Index
from specli.drafters.ngram_map import CONFIDENCE, NgramMapK, NgramMapK4V, NgramMod
from specli.errors import UsageError

_LONGEST = 4  # n-grams that ngram-cache counts
_MOST_CACHED = 8  # tokens that ngram-cache guesses
_LEAST_SEEN = {1: 2, 2: 2, 3: 1, 4: 1}  # how often ngram-cache must have seen an n-gram of each length ...
_LEAST_PERCENT = {1: 66, 2: 50, 3: 50, 4: 50}  # ... and how often followed by the token it guesses


@dataclass(frozen=True)
class NgramOptions:
    """llama.cpp's options of its n-gram drafters, named as its flags are, with its defaults.

    Attributes:
        spec_ngram_simple_size_n: Tokens looked up.
        spec_ngram_simple_size_m: The most tokens guessed; if less than size-n, nothing ever is.
        spec_ngram_simple_min_hits: Without effect, as in llama.cpp.
        spec_ngram_map_k_size_n: Tokens looked up.
        spec_ngram_map_k_size_m: The most tokens guessed.
        spec_ngram_map_k_min_hits: Without effect, as in llama.cpp.
        spec_ngram_map_k4v_size_n: Tokens looked up.
        spec_ngram_map_k4v_size_m: The most tokens guessed.
        spec_ngram_map_k4v_min_hits: How often an n-gram must have been looked up with success before it guesses.
        spec_ngram_mod_n_match: Tokens looked up.
        spec_ngram_mod_n_min: Guess no fewer tokens.
        spec_ngram_mod_n_max: The most tokens guessed.
    """

    spec_ngram_simple_size_n: int = 12
    spec_ngram_simple_size_m: int = 48
    spec_ngram_simple_min_hits: int = 1
    spec_ngram_map_k_size_n: int = 12
    spec_ngram_map_k_size_m: int = 48
    spec_ngram_map_k_min_hits: int = 1
    spec_ngram_map_k4v_size_n: int = 12
    spec_ngram_map_k4v_size_m: int = 48
    spec_ngram_map_k4v_min_hits: int = 1
    spec_ngram_mod_n_match: int = 24
    spec_ngram_mod_n_min: int = 48
    spec_ngram_mod_n_max: int = 64

    def check(self) -> None:
        """Refuse values that mean nothing: those that llama.cpp refuses.

        Raises:
            UsageError: Naming the flag.
        """
        for option in fields(self):
            flag, value = "--" + option.name.replace("_", "-"), getattr(self, option.name)
            if flag.endswith("-min-hits"):
                if value < 1:
                    raise UsageError(f"{flag} {value}: must be 1 or more")
                continue
            least = 0 if flag.endswith(("-n-min", "-n-max")) else 1
            if not least <= value <= 1024:
                raise UsageError(f"{flag} {value}: must be between {least} and 1024")


class NgramSimple:
    """llama.cpp's ngram-simple: guesses the tokens that followed the latest earlier occurrence of the last ``size_n``.

    That occurrence begins at least two tokens before the last n-gram, and not with the first token of the text. Where
    fewer than ``size_n`` tokens followed it, nothing is guessed; the text's last token is not counted among them.

    Args:
        size_n: Tokens looked up.
        size_m: The most tokens guessed.
    """

    def __init__(self, size_n: int, size_m: int) -> None:
        self._size_n, self._size_m = size_n, size_m
        self.reset()

    def reset(self) -> None:
        """Forget the text, to begin another."""
        self._text: list[int] = []
        self._places: dict[tuple[int, ...], int] = {}
        self._n_placed = 1

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the end of the text."""
        self._text.extend(tokens)

    def guess(self, n_max: int) -> list[Guess]:
        """Guess how the text goes on: at most ``n_max`` tokens, none where the last n-gram is not known."""
        n, n_past = self._size_n, len(self._text) - 1
        if n_past <= n + self._size_m + 1:
            return []
        for i in range(self._n_placed, n_past - n):
            self._places[tuple(self._text[i : i + n])] = i
        self._n_placed = n_past - n
        place = self._places.get(tuple(self._text[-n:]))
        if place is None:
            return []
        after = place + n
        tokens = self._text[after : min(after + self._size_m, n_past)]
        return [Guess(token, CONFIDENCE) for token in tokens[:n_max]] if len(tokens) >= n else []


class NgramCache:
    """llama.cpp's ngram-cache without its files: what most often followed the last tokens, four of them or fewer.

    The longest n-gram that was seen often enough, and followed by one token often enough, decides; of two tokens that
    followed it equally often the one that did so first at a later time (llama.cpp built with libstdc++). Counted is
    within what came between two guesses, so a token that comes alone is not counted as following anything. A guess's
    confidence is the share of the n-gram's occurrences that its token followed.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the text, to begin another."""
        self._recent: list[int] = []
        self._new: list[int] = []
        self._counts: dict[tuple[int, ...], dict[int, int]] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the end of the text."""
        self._new.extend(tokens)

    def guess(self, n_max: int) -> list[Guess]:
        """Guess how the text goes on: at most ``n_max`` tokens, and 8; none where nothing is likely enough."""
        self._count(self._new)
        self._recent = [*self._recent, *self._new][-_LONGEST:]
        self._new = []
        guesses: list[Guess] = []
        recent = self._recent
        while len(guesses) < min(n_max, _MOST_CACHED) and (guess := self._next(recent)):
            guesses.append(guess)
            recent = [*recent, guess.token][-_LONGEST:]
        return guesses

    def _count(self, tokens: list[int]) -> None:
        for i, token in enumerate(tokens):
            for n in range(1, min(i, _LONGEST) + 1):
                counts = self._counts.setdefault(tuple(tokens[i - n : i]), {})
                counts[token] = counts.get(token, 0) + 1

    def _next(self, recent: list[int]) -> Guess | None:
        for n in range(len(recent), 0, -1):
            if counts := self._counts.get(tuple(recent[-n:])):
                token = max(reversed(counts), key=counts.__getitem__)
                n_seen = sum(counts.values())
                if n_seen >= _LEAST_SEEN[n] and 100 * counts[token] >= _LEAST_PERCENT[n] * n_seen:
                    return Guess(token, counts[token] / n_seen)
        return None


NGRAM_DRAFTERS: Mapping[str, Callable[[NgramOptions], Index]] = {
    "ngram-simple": lambda options: NgramSimple(options.spec_ngram_simple_size_n, options.spec_ngram_simple_size_m),
    "ngram-map-k": lambda options: NgramMapK(options.spec_ngram_map_k_size_n, options.spec_ngram_map_k_size_m),
    "ngram-map-k4v": lambda options: NgramMapK4V(
        options.spec_ngram_map_k4v_size_n, options.spec_ngram_map_k4v_size_m, options.spec_ngram_map_k4v_min_hits
    ),
    "ngram-mod": lambda options: NgramMod(
        options.spec_ngram_mod_n_match, options.spec_ngram_mod_n_min, options.spec_ngram_mod_n_max
    ),
    "ngram-cache": lambda _: NgramCache(),
}
"""Makes each index from the options, which must have been checked."""
