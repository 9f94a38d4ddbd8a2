"""What a drafter is: it sees the context, proposes tokens, and hears what became of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from specli.llama.decoder import OnProgress
from specli.sampling.distribution import Distribution

DrawToken = Callable[[Distribution, int], int]
"""Draws draft token i (from 0) from its distribution."""


@dataclass
class Draft:
    """Proposed tokens, each with the very distribution it was drawn from.

    Attributes:
        tokens: Token ids, in order.
        distributions: One a token.
        prefill_seconds: Time spent reading the prompt before the first proposal, 0.0 afterwards.
    """

    tokens: list[int] = field(default_factory=list)
    distributions: list[Distribution] = field(default_factory=list)
    prefill_seconds: float = 0.0


class Guess(NamedTuple):
    """A token, and how likely it is to come if the guesses before it have: 0 to 1."""

    token: int
    confidence: float


@dataclass(frozen=True)
class Forecast:
    """What a drafter can tell of its next draft before it makes it.

    Attributes:
        guesses: The tokens it would propose; None: only making the draft tells.
        n_unread: How many tokens of the context it would have to read first, beyond what every round leaves.
        in_one_pass: Whether all its tokens are worked out at once, for the price of one step.
        most: The most tokens of a draft; None: any number.
    """

    guesses: Sequence[Guess] | None
    n_unread: int = 0
    in_one_pass: bool = False
    most: int | None = None


class Sampler(Protocol):
    """Turns a row of logits into the distribution its token is drawn from (``sampling.transforms.Transforms``)."""

    @property
    def history_length(self) -> int | None:
        """How many of the last tokens ``distribution`` must be shown; None: all of them."""

    def distribution(self, logits: npt.NDArray[np.float32], history: Sequence[int]) -> Distribution:
        """The distribution after ``history``."""

    def confidence(self, logits: npt.NDArray[np.float32], distribution: Distribution) -> float:
        """How sure the model is of its next token, 0 to 1, before any draw."""


class LengthRule(Protocol):
    """Decides how far a round's draft goes.

    A rule may look at the context, earlier rounds, the tokens kept so far and the distribution of the next token, but
    never at what was drawn from it: only so is stopping early exact.
    """

    @property
    def most(self) -> int:
        """The most tokens it lets a draft have, settled before anything is drawn."""

    def propose_another(self, n_drafted: int) -> bool:
        """Whether to work out the distribution of one more token."""

    def draw(self, n_drafted: int, confidence: Callable[[], float]) -> bool:
        """Whether to draw from that distribution, given how sure of it the drafter is."""


class Drafter(Protocol):
    """Proposes tokens for the target to verify."""

    @property
    def name(self) -> str:
        """What ``--drafter`` calls it."""

    def begin(self, prompt: Sequence[int], on_prefill: OnProgress | None = None) -> None:
        """Start a new text.

        Args:
            prompt: What it begins with.
            on_prefill: Called while the drafter reads it, if it does.
        """

    def forecast(self, context: Sequence[int]) -> Forecast:
        """Tell what can be told of a draft after ``context`` without making it."""

    def propose(self, context: Sequence[int], sampler: Sampler, draw: DrawToken, rule: LengthRule) -> Draft:
        """Propose tokens to follow ``context`` (prompt and all tokens since), as many as ``rule`` lets it.

        Args:
            context: At least one token.
            sampler: Makes the distributions to draw from.
            draw: Draws from them.
            rule: Asked before every token.
        """

    def accept(self, n_accepted: int, token: int) -> None:
        """Learn that the first ``n_accepted`` proposed tokens stay and ``token`` follows them."""


class TrainedDrafter(Drafter, Protocol):
    """A drafter that computes its proposals."""

    def rehearse(self, n_tokens: int) -> None:
        """Do the work of reading ``n_tokens`` and proposing one, so that it can be timed; its cache is empty after."""


def extend(
    draft: Draft,
    row: npt.NDArray[np.float32],
    history: Sequence[int],
    sampler: Sampler,
    draw: DrawToken,
    rule: LengthRule,
    confidence: Callable[[], float] | None = None,
) -> int | None:
    """Draw the next token of a draft.

    Args:
        draft: What was drawn so far; the token is added to it.
        row: Its logits, float32, shape (n_vocab,).
        history: The tokens before it that the sampler must be shown.
        sampler: Makes the distribution to draw from.
        draw: Draws from it.
        rule: Says whether to.
        confidence: How sure the drafter is of it; None: the distribution tells.

    Returns:
        The token; None where the rule ends the draft before it, or no token is possible (a module that scores a few
        candidates, all of which are forbidden).
    """
    i = len(draft.tokens)
    distribution = sampler.distribution(row, history)
    only = distribution.only_token
    if not (distribution.total > 0.0 if only is None else row[only] > -np.inf):
        return None
    if not rule.draw(i, confidence or partial(sampler.confidence, row, distribution)):
        return None
    token = draw(distribution, i)
    draft.tokens.append(token)
    draft.distributions.append(distribution)
    return token


def seen(context: Sequence[int], sampler: Sampler) -> list[int]:
    """The end of a context that a sampler must be shown, as a list to be extended."""
    n = sampler.history_length
    return list(context[-n:] if n else context if n is None else ())


def known(tokens: Sequence[int], n_vocab: int | None) -> Sequence[int]:
    """The tokens as a draft can read them whose vocabulary may be smaller: the last it knows for those it does not."""
    return tokens if n_vocab is None else [min(token, n_vocab - 1) for token in tokens]


def shared_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences begin with in common."""
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)
