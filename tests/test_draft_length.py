"""n-max, n-min and p-min."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from specli.decoding.draft_length import FixedLength


def length(rule, confidences):
    """How many tokens a drafter with these confidences drafts."""
    n = 0
    while n < len(confidences) and rule.propose_another(n) and rule.draw(n, partial(confidences.__getitem__, n)):
        n += 1
    return n


confidences = st.lists(st.floats(0.0, 1.0), min_size=20, max_size=20)


@given(st.integers(0, 16), confidences)
def test_n_max_alone(n_max, sure):
    assert length(FixedLength(n_max), sure) == n_max


@given(st.integers(0, 16), st.integers(0, 16), st.floats(0.0, 1.0), confidences)
def test_p_min_ends_a_draft_beyond_n_min(n_max, n_min, p_min, sure):
    n_min = min(n_min, n_max)
    unsure = next((n for n in range(n_min, n_max) if p_min > 0.0 and sure[n] < p_min), n_max)
    assert length(FixedLength(n_max, n_min, p_min), sure) == unsure


@given(st.integers(0, 16), st.integers(0, 16), st.integers(1, 20))
def test_room(n_max, n_min, room):
    n_min = min(n_min, n_max)
    expected = min(n_max, room)
    assert length(FixedLength(n_max, n_min).within(room), [1.0] * 20) == (expected if expected >= n_min else 0)


def test_room_changes_nothing_else():
    assert FixedLength(8, 2, 0.5).within(4) == FixedLength(4, 2, 0.5)
    assert FixedLength(8, 2, 0.5).within(100) == FixedLength(8, 2, 0.5)


def test_confidence_is_asked_for_only_where_it_matters():
    """It may cost a pass over the vocabulary."""

    def unexpected():
        raise AssertionError("asked for")

    assert FixedLength(4).draw(0, unexpected)
    assert FixedLength(4, n_min=2, p_min=0.9).draw(1, unexpected)
