"""How much each verification accepts, computed exactly."""

import functools
import itertools
import math

import numpy as np
import pytest
from exact import Fixed, Table, expected_accepted

from specli.proof.enumeration import EnumeratingDraws, every_path
from specli.sampling.distribution import Distribution
from specli.sampling.draws import Purpose
from specli.sampling.verification import VERIFICATIONS, verify_block, verify_match, verify_token

PROMPT = (0, 1)
every_verification = pytest.mark.parametrize("verify", VERIFICATIONS.values(), ids=VERIFICATIONS.keys())


def ratios(target, draft, tokens):
    """p/q of each of the tokens in its place."""
    for i, token in enumerate(tokens):
        context = (*PROMPT, *tokens[:i])
        yield math.exp(target.logits(context)[token] - draft.logits(context)[token])


def drafts(draft, gamma):
    """Every draft of γ tokens with its probability."""
    for tokens in itertools.product(range(draft.n_vocab), repeat=gamma):
        logits = [draft.logits((*PROMPT, *tokens[:i]))[token] for i, token in enumerate(tokens)]
        yield tokens, math.exp(math.fsum(logits))


def accepted_by_formula(target, draft, gamma, keep_one_more):
    """The sum over i of P(at least i tokens accepted) = E[weight of the first i tokens]."""
    total = 0.0
    for i in range(1, gamma + 1):
        for tokens, probability in drafts(draft, i):
            total += probability * functools.reduce(keep_one_more, ratios(target, draft, tokens), 1.0)
    return total


def token_by_formula(target, draft, gamma):
    return accepted_by_formula(target, draft, gamma, lambda weight, ratio: weight * min(1.0, ratio))


def block_by_formula(target, draft, gamma):
    return accepted_by_formula(target, draft, gamma, lambda weight, ratio: min(1.0, weight * ratio))


def test_the_example_of_block_verification():
    target, draft = Fixed((1 / 3, 2 / 3)), Fixed((2 / 3, 1 / 3))
    assert expected_accepted(target, draft, 2, verify_block) == pytest.approx(11 / 9, abs=1e-12)
    assert expected_accepted(target, draft, 2, verify_token) == pytest.approx(10 / 9, abs=1e-12)


def test_block_never_accepts_fewer_than_token():
    """On 200 random pairs; both accept as much as their papers say."""
    gains = []
    for seed in range(200):
        n_vocab, gamma = ((2, 2), (2, 3), (3, 2), (4, 2))[seed % 4]
        target, draft = Table(n_vocab, seed), Table(n_vocab, 1000 + seed)
        token = expected_accepted(target, draft, gamma, verify_token)
        block = expected_accepted(target, draft, gamma, verify_block)
        assert token == pytest.approx(token_by_formula(target, draft, gamma), abs=1e-12)
        assert block == pytest.approx(block_by_formula(target, draft, gamma), abs=1e-12)
        assert block >= token - 1e-12
        gains.append(block - token)
    assert max(gains) > 0.05


def test_long_blocks():
    target, draft = Table(3, seed=1), Table(3, seed=2)
    for gamma in (3, 4):
        block = expected_accepted(target, draft, gamma, verify_block)
        assert block == pytest.approx(block_by_formula(target, draft, gamma), abs=1e-12)
        assert block > expected_accepted(target, draft, gamma, verify_token) + 0.01


@every_verification
def test_a_longer_draft_accepts_no_less(verify):
    target, draft = Table(3, seed=8), Table(3, seed=9)
    accepted = [expected_accepted(target, draft, gamma, verify) for gamma in (1, 2, 3)]
    assert accepted == sorted(accepted)


def verdict_law(verify, tokens, q, p):
    """The law of what one verification returns."""
    law = {}
    for draws, verdict in every_path(lambda draws: verify(tokens, q, p.__getitem__, draws, 7)):
        law[verdict] = law.get(verdict, 0.0) + draws.probability
    return law


def test_one_hot_drafts_gain_nothing_from_blocks():
    """Block and token verification then return the very same."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        tokens = rng.integers(3, size=3).tolist()
        p = [Distribution(None, weights / weights.sum()) for weights in rng.exponential(size=(4, 3))]
        q = [Distribution.one_hot(token) for token in tokens]
        token, block, match = (
            verdict_law(verify, tokens, q, p) for verify in (verify_token, verify_block, verify_match)
        )
        for other in (block, match):
            assert token.keys() == other.keys()
            assert all(other[verdict] == pytest.approx(token[verdict], abs=1e-12) for verdict in token)


@every_verification
def test_equal_distributions_leave_no_choice(verify):
    """p = q: everything is accepted, whatever the draws; in single precision too."""
    rng = np.random.default_rng(1)
    for dtype in (np.float64, np.float32):
        weights = rng.exponential(size=(4, 5)).astype(dtype)
        p = [Distribution(None, row / row.sum()) for row in weights]

        def draft_and_verify(draws: EnumeratingDraws, p: list[Distribution] = p):
            if verify is verify_match:
                tokens = [draws.race(p[i], 7 + i) for i in range(3)]
            else:
                tokens = [draws.choose(p[i], Purpose.DRAFT, 7, i) for i in range(3)]
            return verify(tokens, p[:3], p.__getitem__, draws, 7)

        assert {verdict.n_accepted for _, verdict in every_path(draft_and_verify)} == {3}


@every_verification
def test_no_draft_is_plain_decoding(verify):
    p = Distribution(np.array([2, 5, 9]), np.array([0.2, 0.5, 0.3]))
    law = verdict_law(verify, [], [], [p])
    assert {token: round(probability, 12) for (_, token), probability in law.items()} == {2: 0.2, 5: 0.5, 9: 0.3}


@every_verification
def test_targets_are_worked_out_only_as_far_as_needed(verify):
    """A greedy target that refuses the first token is not asked about the second by token and match verification."""
    asked = []
    p = [Distribution.one_hot(1)] * 3

    def target(i: int) -> Distribution:
        asked.append(i)
        return p[i]

    verdict = verify([0, 0], [Distribution.one_hot(0)] * 2, target, EnumeratingDraws(), 7)
    assert verdict == (0, 1)
    if verify is not verify_block:
        assert set(asked) == {0}


@pytest.mark.parametrize("verify", [verify_token, verify_block])
def test_a_residual_lost_to_rounding(verify):
    """Where rejection was rounding's doing, nothing of the residual is left: the target decides."""
    q = Distribution(None, np.array([0.5, 0.5]))
    p = Distribution(None, np.array([np.nextafter(0.5, 0.0), 0.5]))
    law = verdict_law(verify, [0], [q], [p, p])
    assert set(law) == set(itertools.product((0, 1), (0, 1)))
    assert sum(law[0, token] for token in (0, 1)) < 1e-15
