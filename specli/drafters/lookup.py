"""A drafter that looks its guesses up: in the text so far, or in other texts. It needs no second model."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from specli.drafters.drafter import Draft, DrawToken, Forecast, Guess, LengthRule, Sampler
from specli.llama.decoder import OnProgress
from specli.sampling.distribution import Distribution


class Index(Protocol):
    """What guesses are looked up in."""

    def reset(self) -> None:
        """Forget the text, to begin another."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the end of the text."""

    def guess(self, n_max: int) -> Sequence[Guess]:
        """Guess how the text goes on: at most ``n_max`` tokens in order, none where nothing is known."""


class LookupDrafter:
    """Proposes an index's guesses, each for certain: one-hot distributions are as lossless as any.

    Args:
        name: As ``--drafter`` knows it.
        index: Where to look.
        n_vocab: The target's vocabulary; a guess outside it ends a draft.
        n_max: The most tokens it ever proposes.
    """

    def __init__(self, name: str, index: Index, n_vocab: int, n_max: int) -> None:
        self.name = name
        self._index = index
        self._n_vocab = n_vocab
        self._n_max = n_max
        self._n_seen = 0
        self._guesses: Sequence[Guess] = ()

    def begin(self, prompt: Sequence[int], on_prefill: OnProgress | None = None) -> None:
        """Start a new text."""
        self._index.reset()
        self._n_seen = 0
        self._guesses = ()

    def forecast(self, context: Sequence[int]) -> Forecast:
        """All that would be proposed: looking up costs next to nothing."""
        return Forecast(self._look_up(context))

    def propose(self, context: Sequence[int], sampler: Sampler, draw: DrawToken, rule: LengthRule) -> Draft:
        """Propose the guesses, as far as the rule goes."""
        draft = Draft()
        if not rule.propose_another(0):
            return draft
        for i, guess in enumerate(self._look_up(context)):
            if not rule.draw(i, partial(float, guess.confidence)):
                break
            distribution = Distribution.one_hot(guess.token)
            draft.tokens.append(draw(distribution, i))
            draft.distributions.append(distribution)
            if not rule.propose_another(i + 1):
                break
        return draft

    def accept(self, n_accepted: int, token: int) -> None:
        """Nothing to take back: the index only ever sees the text itself."""

    def _look_up(self, context: Sequence[int]) -> Sequence[Guess]:
        if self._n_seen != len(context):
            self._index.extend(context[self._n_seen :])
            self._n_seen = len(context)
            guesses = self._index.guess(self._n_max)
            known = next((i for i, guess in enumerate(guesses) if guess.token >= self._n_vocab), len(guesses))
            self._guesses = guesses[:known]
        return self._guesses
