"""A loop without sampling: models that are tables of numbers, and draws that take every branch.

``law_of_loop`` gives the exact distribution of the texts that ``specli.decoding.loop.generate`` writes,
``law_of_target`` the one the target alone has.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from specli.decoding.draft_length import FixedLength
from specli.decoding.ending import Ending
from specli.decoding.loop import Speculation, generate, prefill
from specli.decoding.policy import FixedPolicy
from specli.decoding.round import Round
from specli.decoding.stats import Stats
from specli.drafters.drafter import Draft, Forecast
from specli.drafters.model import ModelDrafter
from specli.proof.enumeration import Law, distance, every_path, law_of, law_of_steps
from specli.sampling.distribution import Distribution
from specli.sampling.verification import verify_block, verify_match

_N_ROWS = 9  # the most logits of one decode


class Table:
    """Random probabilities of the next token, different for every context.

    With ``support``, as many of the tokens are possible after a context. ``near`` and ``distance`` make a table that
    differs from another by that factor, up or down by chance.
    """

    def __init__(
        self, n_vocab: int, seed: int, support: int | None = None, near: "Table | None" = None, distance: float = 0.0
    ) -> None:
        self.n_vocab = n_vocab
        self._seed = seed
        self._support = support
        self._near = near
        self._distance = distance
        self.logits = functools.cache(self._logits)

    def _logits(self, context: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([self._seed, *context])
        if self._near:
            weights = self._near.probabilities(context)
            weights *= 1.0 + self._distance * rng.choice([-1.0, 1.0], self.n_vocab)
        else:
            weights = rng.exponential(size=self.n_vocab)
            if self._support:
                weights[rng.permutation(self.n_vocab)[self._support :]] = 0.0
        with np.errstate(divide="ignore"):
            return np.log(weights / weights.sum())

    def probabilities(self, context: tuple[int, ...]) -> np.ndarray:
        return np.exp(self.logits(context))


@dataclass(frozen=True)
class Fixed:
    """A table with the same probabilities after every context."""

    fixed: tuple[float, ...]

    @property
    def n_vocab(self) -> int:
        return len(self.fixed)

    def logits(self, context: tuple[int, ...]) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.array(self.fixed))


class TableDecoder:
    """A Decoder whose logits come from a table, in float64 so that laws can be compared within 1e-12.

    All its rows live in one buffer that every call overwrites. ``forgetful``: like a recurrent memory it can only be
    cut back to its checkpoint.
    """

    def __init__(self, table: Table | Fixed, n_ctx: int = 64, forgetful: bool = False) -> None:
        self.table = table
        self.n_ctx = n_ctx
        self.n_ubatch = 3
        self.tokens: list[int] = []
        self._forgetful = forgetful
        self._checkpoint = 0
        self._rows = np.full((_N_ROWS, table.n_vocab), np.nan)

    def decode(self, tokens: Sequence[int], n_logits: int) -> np.ndarray:
        assert 0 < len(tokens) <= self.n_ctx - len(self.tokens), "an empty batch, or more than the context holds"
        assert 0 <= n_logits <= len(tokens)
        self.tokens += tokens
        self._rows[:] = np.nan
        for i in range(n_logits):
            self._rows[i] = self.table.logits(tuple(self.tokens[: len(self.tokens) - n_logits + 1 + i]))
        return self._rows[:n_logits]

    def truncate(self, n_tokens: int) -> None:
        assert n_tokens == 0 or n_tokens >= self._checkpoint, "cut back beyond the promised checkpoint"
        if n_tokens < len(self.tokens):
            del self.tokens[min(n_tokens, self._checkpoint) if self._forgetful else n_tokens :]
        self._checkpoint = min(self._checkpoint, len(self.tokens))

    def checkpoint(self, n_tokens: int | None = None) -> None:
        self._checkpoint = len(self.tokens)


@dataclass(frozen=True)
class ExactSampler:
    """A sampler in float64.

    ``sparse``: distributions list only the ids that can be drawn. ``penalty``: taken off a token's logit for each of
    its occurrences among the last ``window`` tokens (None: all). ``n_shared``: how many ids the vocabularies share.
    """

    temperature: float = 1.0
    sparse: bool = False
    penalty: float = 0.0
    window: int | None = 0
    n_shared: int | None = None

    @property
    def history_length(self) -> int | None:
        return self.window

    def distribution(self, logits: np.ndarray, history: Sequence[int]) -> Distribution:
        if self.window == 0:
            return self._distribution(logits.tobytes(), ())
        assert history, "the prompt is part of the history"
        return self._distribution(logits.tobytes(), tuple(history if self.window is None else history[-self.window :]))

    @functools.lru_cache(maxsize=10_000)  # noqa: B019 (samplers live as long as the tests)
    def _distribution(self, row: bytes, history: tuple[int, ...]) -> Distribution:
        logits = np.frombuffer(row)[: self.n_shared].copy()
        for token in history:
            if token < len(logits):
                logits[token] -= self.penalty
        if self.temperature <= 0:
            return Distribution.one_hot(int(logits.argmax()))
        weights = np.exp((logits - logits.max()) / self.temperature)
        weights /= weights.sum()
        if not self.sparse:
            return Distribution(None, weights)
        ids = np.flatnonzero(weights)
        return Distribution(ids, weights[ids])

    def confidence(self, logits: np.ndarray, distribution: Distribution) -> float:
        return distribution.max


class LookupDrafter:
    """Proposes what a table of guesses says, for certain; how many differs from context to context."""

    name = "lookup"

    def __init__(self, n_vocab: int, seed: int) -> None:
        self._n_vocab = n_vocab
        self._seed = seed

    def begin(self, prompt: Sequence[int], on_prefill: object = None) -> None:
        pass

    def forecast(self, context) -> Forecast:
        return Forecast(None)

    def propose(self, context, sampler, draw, rule) -> Draft:
        rng = np.random.default_rng([self._seed, *context])
        draft = Draft()
        for token in rng.integers(self._n_vocab, size=rng.integers(1, 6)).tolist():
            distribution = Distribution.one_hot(token)
            n = len(draft.tokens)
            if not rule.propose_another(n) or not rule.draw(n, lambda: 1.0):
                break
            draft.tokens.append(draw(distribution, n))
            draft.distributions.append(distribution)
        return draft

    def accept(self, n_accepted: int, token: int) -> None:
        pass


@dataclass(frozen=True)
class Setup:
    """Everything that decides a text. Token i is shown as the i-th letter."""

    target: Table | Fixed
    draft: Table | Fixed | None = None
    gamma: int = 2
    verify: Callable = verify_block
    sampler: object = field(default_factory=ExactSampler)
    draft_sampler: object | None = None
    make_policy: Callable = lambda setup: FixedPolicy(FixedLength(setup.gamma))
    """Of a text, from the setup: what a policy has learnt must not leak into the next path."""
    prompt: tuple[int, ...] = (0, 1)
    eog: int | None = None
    n_predict: int = -1
    stop: tuple[str, ...] = ()
    n_ctx: int = 64
    draft_n_ctx: int = 64
    forgetful: bool = False
    make_drafter: Callable = ModelDrafter
    """From the draft's decoder, or from None where there is no draft table."""
    reads_target: bool = False
    """Whether the drafter reads the target's states: it is then made of both decoders."""
    wrap_draws: Callable = lambda draws: draws
    merge: bool = True
    """Whether paths that have come to the same place go on alike: not where a policy remembers how they came there."""

    def rounds(self, draws: object) -> "Rounds":
        return Rounds(self, draws)


def letter(token: int) -> bytes:
    return b"%c" % (ord("a") + token)


class Rounds:
    """One text, round by round, with what must hold after each of them asserted."""

    def __init__(self, setup: Setup, draws: object) -> None:
        self.setup = setup
        self.target = TableDecoder(setup.target, setup.n_ctx, setup.forgetful)
        self.draft = TableDecoder(setup.draft, setup.draft_n_ctx, setup.forgetful) if setup.draft else None
        self.emitted: list[int] = []
        self.stats = Stats(prompt_tokens=len(setup.prompt))
        self.stop_reason: str | None = None
        prefill(self.target, setup.prompt)
        how = Speculation(
            sampler=setup.sampler,
            draft_sampler=setup.draft_sampler or setup.sampler,
            verify=setup.verify,
            policy=setup.make_policy(setup),
            draws=setup.wrap_draws(draws),
            coupled=setup.verify is verify_match,
        )
        ending = Ending(letter, lambda token: token == setup.eog, setup.n_predict, setup.stop)
        made = setup.make_drafter(self.draft, self.target) if setup.reads_target else setup.make_drafter(self.draft)
        drafters = made if isinstance(made, list) else [made] if made else []
        self._rounds = generate(self.target, drafters, setup.prompt, how, ending)

    def __iter__(self) -> Iterator[Round]:
        for round_ in self._rounds:
            self.emitted += round_.tokens
            self.stats.add(round_)
            self.stop_reason = round_.stop_reason
            self._check(round_)
            yield round_

    @property
    def position(self) -> int:
        return len(self.setup.prompt) + len(self.emitted)

    @property
    def has_ended(self) -> bool:
        return self.stop_reason is not None

    def state(self) -> Hashable:
        return tuple(self.target.tokens), tuple(self.draft.tokens) if self.draft else ()

    def _check(self, round_: Round) -> None:
        stats = self.stats
        n_drafted = len(round_.drafted)
        cut_off = len(round_.tokens) == round_.n_accepted
        assert n_drafted == round_.n_accepted + round_.n_rejected + round_.n_discarded
        assert stats.drafted == stats.accepted + stats.rejected + stats.discarded
        assert round_.tokens[: round_.n_accepted] == round_.drafted[: round_.n_accepted]
        assert len(round_.tokens) == round_.n_accepted + (not cut_off)
        assert not cut_off or round_.stop_reason, "only the end of a text cuts a round off"
        assert round_.n_discarded == 0 or cut_off
        assert round_.n_rejected == 0 or not cut_off
        assert stats.tokens == stats.accepted + stats.rounds - cut_off == len(self.emitted)
        assert len(round_.texts) == len(round_.tokens)
        assert sum(stats.drafted_by_position) == stats.accepted + stats.rejected
        assert sum(stats.accepted_by_position) == stats.accepted

        cached = [*self.setup.prompt, *self.emitted[:-1]]
        if self.setup.forgetful:
            assert self.target.tokens == cached[: len(self.target.tokens)]
        else:
            assert self.target.tokens == cached
        if self.draft and self.setup.draft_n_ctx >= self.setup.n_ctx:
            assert self.draft.tokens == cached[: len(self.draft.tokens)]

    def run(self, n_tokens: int, n_rounds: float = math.inf) -> "Rounds":
        """Go on until there are so many tokens or rounds, or the text ends."""
        for _ in self:
            if len(self.emitted) >= n_tokens or self.stats.rounds >= n_rounds:
                break
        return self


def law_of_loop(setup: Setup, n: int) -> Law:
    """The exact law of the first n tokens (fewer where the text ends), from every path through the loop."""
    return law_of(setup.rounds, n)


def law_of_loop_unmerged(setup: Setup, n: int) -> Law:
    """The same from every path from beginning to end, one by one: for few tokens."""
    law: Law = defaultdict(float)
    for draws, rounds in every_path(lambda draws: setup.rounds(draws).run(n)):
        law[tuple(rounds.emitted[:n])] += draws.probability
    return dict(law)


def law_of_target(setup: Setup, n: int) -> Law:
    """The law of the first n tokens the target alone writes."""

    def next_token(emitted: tuple[int, ...]) -> Iterator[tuple[int, float]]:
        context = (*setup.prompt, *emitted)
        p = setup.sampler.distribution(setup.target.logits(context), context)
        return ((p.token_at(i), probability) for i, probability in enumerate(p.probabilities.tolist()))

    return law_of_steps(next_token, lambda emitted: _ends(setup, emitted, n))


def _ends(setup: Setup, emitted: tuple[int, ...], n: int) -> bool:
    text = b"".join(letter(token) for token in emitted).decode()
    return (
        len(emitted) in (n, setup.n_predict)
        or emitted[-1] == setup.eog
        or any(stop in text for stop in setup.stop)
        or len(setup.prompt) + len(emitted) > setup.n_ctx
    )


def assert_exact(setup: Setup, n: int | None = None, within: float = 1e-12) -> None:
    """The loop's first γ + 2 tokens have the target's law."""
    n = n or setup.gamma + 2
    law = (law_of_loop if setup.merge else law_of_loop_unmerged)(setup, n)
    assert abs(sum(law.values()) - 1.0) < within
    assert distance(law, law_of_target(setup, n)) < within


def expected_accepted(
    target: Table | Fixed, draft: Table | Fixed, gamma: int, verify: Callable, prompt: tuple[int, ...] = (0, 1)
) -> float:
    """How many of γ draft tokens a verification accepts, in expectation."""
    setup = Setup(target, draft, gamma, verify, prompt=prompt)
    paths = every_path(lambda draws: setup.rounds(draws).run(math.inf, 1).stats.accepted)
    return math.fsum(draws.probability * accepted for draws, accepted in paths)
