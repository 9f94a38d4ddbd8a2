"""Plausible mistakes, each of which the exact tests must notice: the law of a text then differs from the target's."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from exact import ExactSampler, Fixed, Setup, Table, assert_exact, law_of_loop, law_of_loop_unmerged, law_of_target

from specli.drafters.model import ModelDrafter
from specli.proof.enumeration import EnumeratingDraws, NotIndependentError, distance
from specli.sampling import verification
from specli.sampling.distribution import Distribution
from specli.sampling.draws import Purpose
from specli.sampling.verification import Verdict, verify_block, verify_token

TARGET, DRAFT = Table(3, seed=1), Table(3, seed=2)
NOTICED = 1e-6


def assert_noticed(setup, n=None):
    n = n or setup.gamma + 2
    assert distance(law_of_loop(setup, n), law_of_target(setup, n)) > NOTICED


@pytest.mark.parametrize("verify", [verify_token, verify_block])
def test_nothing_is_noticed_where_nothing_is_wrong(verify):
    assert_exact(Setup(TARGET, DRAFT, 2, verify))


# A drawn token discarded for its own probability.


class Discarding(ModelDrafter):
    """Ends the draft at a token that turned out unlikely, and drops it."""

    def propose(self, context, sampler, draw, rule):
        draft = super().propose(context, sampler, draw, rule)
        chances = [q.probability(token) for token, q in zip(draft.tokens, draft.distributions, strict=True)]
        kept = next((i for i, chance in enumerate(chances) if chance < 0.5), len(chances))
        del draft.tokens[kept:], draft.distributions[kept:]
        return draft


@pytest.mark.parametrize("verify", [verify_token, verify_block])
def test_discarding_unlikely_tokens(verify):
    setup = Setup(Fixed((0.5, 0.3, 0.2)), Fixed((0.6, 0.3, 0.1)), 1, verify, make_drafter=Discarding)
    law = law_of_loop(setup, 1)
    assert [law[token,] for token in range(3)] == pytest.approx([0.70, 0.12, 0.18], abs=1e-12)
    assert_noticed(Setup(TARGET, DRAFT, 2, verify, make_drafter=Discarding))


# Logits kept as a view past the next decode.


class InPlace(ExactSampler):
    """Makes the distribution in the buffer that the model returned, without a copy."""

    def distribution(self, logits, history):
        np.exp(logits, out=logits)
        logits /= logits.sum()
        return Distribution(None, logits)


@pytest.mark.parametrize("verify", [verify_token, verify_block])
def test_drafts_whose_distributions_are_views(verify):
    assert_noticed(Setup(TARGET, DRAFT, 2, verify, draft_sampler=InPlace()))


@pytest.mark.parametrize("verify", [verify_token, verify_block])
def test_one_token_drafts_may_be_views(verify):
    """The draft model decodes nothing more before they are used: it is the next decode that hurts."""
    assert_exact(Setup(TARGET, DRAFT, 1, verify, draft_sampler=InPlace()))


# One u for all acceptance tests of a block.


@dataclass
class OneForAll:
    draws: EnumeratingDraws

    def accept(self, probability, position, offset):
        return self.draws.accept(probability, position, 0)

    def choose(self, distribution, purpose, position, offset):
        return self.draws.choose(distribution, purpose, position, offset)

    def race(self, distribution, position):
        return self.draws.race(distribution, position)


@pytest.mark.parametrize("verify", [verify_token, verify_block])
def test_one_shared_u(verify):
    assert_noticed(Setup(TARGET, DRAFT, 2, verify, wrap_draws=OneForAll))


# Draws keyed by absolute position.


@dataclass
class Absolute:
    """Keys by position + offset, so that a round after a rejection draws again what the round before drew."""

    draws: EnumeratingDraws

    def accept(self, probability, position, offset):
        return self.draws.accept(probability, position + offset, 0)

    def choose(self, distribution, purpose, position, offset):
        return self.draws.choose(distribution, purpose, position + offset, 0)

    def race(self, distribution, position):
        return self.draws.race(distribution, position)


def test_draws_keyed_by_absolute_position():
    """Block verification has looked at draws beyond the token it stopped at."""
    assert_noticed(Setup(Fixed((1 / 3, 2 / 3)), Fixed((2 / 3, 1 / 3)), 2, verify_block, wrap_draws=Absolute), 4)
    assert_noticed(Setup(TARGET, DRAFT, 2, verify_block, wrap_draws=Absolute), 3)


# A wrong residual.


def from_p(residual, p, draws, position, offset):
    return draws.choose(p, Purpose.RESIDUAL, position, offset)


def without_weight(weight, p, q):
    return RESIDUAL(1.0, p, q)


def other_way_round(weight, p, q):
    return Distribution(p.ids, np.maximum(q.weights_over(p) / q.total - weight * p.probabilities, 0.0))


RESIDUAL, DRAW_RESIDUAL = verification._residual, verification._draw_residual


@pytest.mark.parametrize("verify", [verify_token, verify_block])
def test_tokens_after_a_refusal_drawn_from_p(monkeypatch, verify):
    monkeypatch.setattr(verification, "_draw_residual", from_p)
    assert_noticed(Setup(TARGET, DRAFT, 2, verify))


@pytest.mark.parametrize(
    "verify, residual",
    [(verify_token, other_way_round), (verify_block, other_way_round), (verify_block, without_weight)],
)
def test_wrong_residuals(monkeypatch, verify, residual):
    monkeypatch.setattr(verification, "_residual", residual)
    assert_noticed(Setup(TARGET, DRAFT, 2, verify))


# Wrong acceptance.


def last_of_block_only(tokens, draft_distributions, target, draws, position):
    """Block verification that forgets the h of shorter prefixes and tests each prefix by its weight."""
    n_accepted, weight_accepted, weight = 0, 1.0, 1.0
    for i, (token, q) in enumerate(zip(tokens, draft_distributions, strict=True), start=1):
        weight = min(weight * target(i - 1).probability(token) / q.probability(token), 1.0)
        if draws.accept(weight, position, i - 1):
            n_accepted, weight_accepted = i, weight
    return _end(n_accepted, weight_accepted, tokens, draft_distributions, target, draws, position)


def stops_at_first_refusal(tokens, draft_distributions, target, draws, position):
    """Block verification that ends at the first prefix refused, as token verification does."""
    n_accepted, weight_accepted, weight = 0, 1.0, 1.0
    for i, (token, q) in enumerate(zip(tokens, draft_distributions, strict=True), start=1):
        weight = min(weight * target(i - 1).probability(token) / q.probability(token), 1.0)
        keep = weight
        if i < len(tokens):
            excess = (
                verification._residual(weight, target(i), draft_distributions[i]).total / draft_distributions[i].total
            )
            keep = excess / (excess + 1.0 - weight) if excess + 1.0 - weight > 0 else 0.0
        if not draws.accept(keep, position, i - 1):
            break
        n_accepted, weight_accepted = i, weight
    return _end(n_accepted, weight_accepted, tokens, draft_distributions, target, draws, position)


def accepts_by_p(tokens, draft_distributions, target, draws, position):
    """Token verification that accepts with probability p(x), however likely the draft thought x."""
    for i, token in enumerate(tokens):
        if not draws.accept(target(i).probability(token), position, i):
            return _end(i, 1.0, tokens, draft_distributions, target, draws, position)
    return _end(len(tokens), 1.0, tokens, draft_distributions, target, draws, position)


def _end(n_accepted, weight, tokens, draft_distributions, target, draws, position):
    p = target(n_accepted)
    if n_accepted == len(tokens):
        return Verdict(n_accepted, draws.race(p, position + n_accepted))
    q = draft_distributions[n_accepted]
    return Verdict(n_accepted, DRAW_RESIDUAL(RESIDUAL(weight, p, q), p, draws, position, n_accepted))


@pytest.mark.parametrize("verify", [last_of_block_only, stops_at_first_refusal, accepts_by_p])
def test_wrong_acceptance(verify):
    assert_noticed(Setup(TARGET, DRAFT, 2, verify))


def test_penalties_from_the_wrong_history():
    """Those of the prompt alone, without the tokens since."""

    class PromptOnly(ExactSampler):
        def distribution(self, logits, history):
            return super().distribution(logits, history[:2])

    setup = Setup(TARGET, DRAFT, 2, verify_block, ExactSampler(penalty=0.9, window=None))
    law = law_of_loop(replace(setup, sampler=PromptOnly(penalty=0.9, window=None)), 4)
    assert distance(law, law_of_target(setup, 4)) > NOTICED


# The enumeration itself.


def test_running_every_path_on_its_own_notices_too():
    setup = Setup(TARGET, DRAFT, 1, verify_token, make_drafter=Discarding)
    assert distance(law_of_loop_unmerged(setup, 2), law_of_target(setup, 2)) > NOTICED


def test_a_number_used_again_in_a_later_round_is_noticed():
    """Merging paths forgets numbers of past positions; using one again is an error, not a silent fresh draw."""

    @dataclass
    class Stale:
        draws: EnumeratingDraws

        def accept(self, probability, position, offset):
            return self.draws.accept(probability, 0, 0)

        def choose(self, distribution, purpose, position, offset):
            return self.draws.choose(distribution, purpose, position, offset)

        def race(self, distribution, position):
            return self.draws.race(distribution, position)

    with pytest.raises(NotIndependentError, match="used again"):
        law_of_loop(Setup(TARGET, DRAFT, 1, verify_token, wrap_draws=Stale), 3)
