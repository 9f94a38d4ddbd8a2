"""Seeded draws: functions of what they are for, each with the probability it should have."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specli.sampling import draws as draws_module
from specli.sampling.distribution import Distribution
from specli.sampling.draws import Purpose, SeededDraws

P = Distribution(None, np.array([0.05, 0.4, 0.25, 0.0, 0.3]))
N = 20_000


def assert_distributed(counts, probabilities):
    """Pearson's χ² within six standard deviations of its mean; seeds are fixed, so the outcome is too."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    assert np.all(counts[expected == 0.0] == 0)
    counts, expected = counts[expected > 0.0], expected[expected > 0.0]
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(counts) - 1
    assert chi_squared < freedom + 6.0 * math.sqrt(2.0 * freedom), (counts, expected)


def all_draws(draws, calls):
    return {
        call: (
            draws.accept(0.5, *call),
            draws.choose(UNIFORM, Purpose.DRAFT, *call),
            draws.choose(UNIFORM, Purpose.RESIDUAL, *call),
            draws.race(UNIFORM, sum(call)),
        )
        for call in calls
    }


UNIFORM = Distribution(None, np.full(1000, 1e-3))
CALLS = list(itertools.product(range(30), range(5)))


def test_same_seed_same_draws_in_any_order():
    forwards = all_draws(SeededDraws(42), CALLS)
    backwards = all_draws(SeededDraws(42), CALLS[::-1])
    assert forwards == backwards
    used = SeededDraws(42)
    all_draws(used, CALLS[::3])
    assert all_draws(used, CALLS) == forwards


def test_other_seeds_other_draws():
    texts = {tuple(all_draws(SeededDraws(seed), CALLS).values()) for seed in (*range(50), -1, 2**32, 2**63)}
    assert len(texts) == 53


def test_every_key_has_its_own_number():
    """Seeds, purposes, positions and offsets, near and far."""
    numbers = [
        SeededDraws(seed)._uniform(purpose, position, offset)
        for seed in (0, 1, 12345)
        for purpose in Purpose
        for position in (*range(40), 1000, 2**31)
        for offset in range(20)
    ]
    assert len(set(numbers)) == len(numbers)
    assert_distributed(np.histogram(numbers, bins=20, range=(0.0, 1.0))[0], np.full(20, 0.05))


@pytest.mark.parametrize(
    "step", [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, -1)], ids=["position", "offset", "purpose", "both"]
)
def test_neighbouring_keys_are_independent(step):
    """Pairs of numbers of neighbouring keys fill the unit square evenly."""
    draws = SeededDraws(3)
    cells = np.zeros((8, 8))
    for position, offset in itertools.product(range(1, 2001), range(1, 11)):
        key = (2, position, offset)
        neighbour = tuple(a + b for a, b in zip(key, step, strict=True))
        cells[int(8 * draws._uniform(*key)), int(8 * draws._uniform(*neighbour))] += 1
    assert_distributed(cells.ravel(), np.full(64, 1 / 64))


def test_uniform_numbers_lie_inside_the_unit_interval(monkeypatch):
    for key in (0, 1, 2**12 - 1, 2**64 - 1, 2**63):
        monkeypatch.setattr(SeededDraws, "_key", lambda self, *_, key=key: key)
        u = SeededDraws(0)._uniform(Purpose.TOKEN, 0, 0)
        assert 0.0 < u < 1.0
        assert SeededDraws(0).choose(P, Purpose.DRAFT, 0, 0) == (0 if u < 0.5 else 4 if u > 0.6 else 2)


def test_acceptance_has_its_probability():
    draws = SeededDraws(1)
    for probability in (0.01, 0.3, 0.9):
        accepted = sum(draws.accept(probability, position, 2) for position in range(N))
        assert_distributed([accepted, N - accepted], [probability, 1 - probability])
    assert all(draws.accept(1.0, position, 0) and draws.accept(1.5, position, 0) for position in range(1000))
    assert not any(draws.accept(0.0, position, 0) for position in range(1000))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("purpose", [Purpose.DRAFT, Purpose.RESIDUAL])
def test_chosen_tokens_have_their_probabilities(purpose, sparse):
    p = Distribution(np.array([3, 7, 8, 20]), P.probabilities[P.probabilities > 0]) if sparse else P
    draws = SeededDraws(2)
    counts = np.bincount([draws.choose(p, purpose, position, 1) for position in range(N)], minlength=21)
    assert_distributed(counts, [p.probability(token) for token in range(21)])


@pytest.mark.parametrize("sparse", [False, True])
def test_winners_of_races_have_their_probabilities(sparse):
    p = Distribution(np.array([3, 7, 8, 20]), P.probabilities[P.probabilities > 0]) if sparse else P
    draws = SeededDraws(4)
    counts = np.bincount([draws.race(p, position) for position in range(N)], minlength=21)
    assert_distributed(counts, [p.probability(token) for token in range(21)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_vocabularies(dtype):
    """In blocks of the vocabulary, with whole stretches that cannot be drawn."""
    rng = np.random.default_rng(0)
    weights = rng.exponential(size=152_064) ** 4
    weights[:20_000] = weights[70_000:90_000] = weights[-5_000:] = 0.0
    p = Distribution(None, (weights / weights.sum()).astype(dtype))
    draws = SeededDraws(5)
    blocks = p.probabilities.astype(float).reshape(32, -1).sum(axis=1)
    chosen = [draws.choose(p, Purpose.DRAFT, position, 0) for position in range(4000)]
    raced = [draws.race(p, position) for position in range(300)]
    assert_distributed(np.bincount(np.array(chosen) // 4752, minlength=32), blocks / blocks.sum())
    assert_distributed(np.bincount(np.array(raced) // (4752 * 8), minlength=4), blocks.reshape(4, 8).sum(axis=1))
    assert all(p.probability(token) > 0.0 for token in chosen + raced)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    n=st.sampled_from([1, 2, 5, 127, 128, 129, 128**2, 128**2 + 1, 50_000]),
    share=st.sampled_from([0.0, 0.5, 0.99]),
    seed=st.integers(0, 10_000),
    u=st.floats(2.0**-53, 1.0 - 2.0**-53),
    dtype=st.sampled_from([np.float32, np.float64]),
)
@example(n=50_000, share=0.99, seed=0, u=2.0**-53, dtype=np.float32)
@example(n=50_000, share=0.99, seed=0, u=1.0 - 2.0**-53, dtype=np.float32)
def test_inverting_the_cumulative_distribution(n, share, seed, u, dtype):
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=n) * (rng.random(n) >= share)
    weights[rng.integers(n)] += 1e-3
    p = (weights / weights.sum()).astype(dtype)
    index = draws_module._invert(Distribution(None, p), u)
    cumulative = np.cumsum(p, dtype=np.float64)
    cumulative /= cumulative[-1]
    assert p[index] > 0.0
    before = cumulative[index - 1] if index else 0.0
    assert before - 1e-6 <= u <= cumulative[index] + 1e-6


def test_races_share_their_noise_by_token():
    """Leaving out what cannot be drawn changes no winner; nor does halving all probabilities."""
    draws = SeededDraws(6)
    rng = np.random.default_rng(0)
    for position in range(500):
        weights = rng.exponential(size=50) * (rng.random(50) < 0.3)
        weights[7] += 0.1
        ids = np.flatnonzero(weights)
        dense = draws.race(Distribution(None, weights / weights.sum()), position)
        sparse = draws.race(Distribution(ids, weights[ids] / weights.sum()), position)
        assert dense == sparse == draws.race(Distribution(ids, weights[ids]), position)


def same_winner(p, q):
    """P(one race has the same winner for p and q): x wins both if its time leads by the larger of both ratios."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return sum(
            1.0 / sum(max(p[y] / p[x], q[y] / q[x]) for y in range(len(p)))
            for x in range(len(p))
            if p[x] > 0.0 and q[x] > 0.0
        )


@pytest.mark.parametrize("seed", range(6))
def test_coupled_races_agree_as_often_as_gumbel_coupling_does(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.exponential(size=(2, 6))
    p[seed % 6] = 0.0
    p, q = p / p.sum(), q / q.sum()
    expected = same_winner(p, q)
    distance = 0.5 * float(np.abs(p - q).sum())
    assert expected >= (1.0 - distance) / (1.0 + distance) - 1e-12
    draws = SeededDraws(seed)
    target, draft = Distribution(None, p), Distribution(None, q)
    same = sum(draws.race(target, position) == draws.race(draft, position) for position in range(5000))
    assert_distributed([same, 5000 - same], [expected, 1.0 - expected])


def test_certain_tokens():
    draws = SeededDraws(0)
    for position in range(100):
        assert draws.race(Distribution.one_hot(9), position) == 9
        assert draws.choose(Distribution.one_hot(9), Purpose.DRAFT, position, 0) == 9
