"""What a text tells of a lookup's guesses: which are judged, and what that says of the next."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specli.decoding.calibration import Calibration
from specli.decoding.track_record import TrackRecord
from specli.drafters.drafter import Guess

SURE = 0.9


def guesses(*tokens):
    return [Guess(token, SURE) for token in tokens]


def tokens(least):
    return st.lists(st.integers(0, 2), min_size=least, max_size=5)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(rounds=st.lists(st.tuples(tokens(0), tokens(1)), max_size=12))
def test_judged_are_the_guesses_up_to_the_first_miss(rounds):
    """Those after it would be others; a token nobody guessed ends the streak, one beyond the guesses does not."""
    calibration = Calibration("lookup")
    record = TrackRecord(calibration)
    n_judged = n_right = streak = 0
    for guessed, came in rounds:
        record.expect(guesses(*guessed))
        record.see(came)
        pairs = list(zip(guessed, came, strict=False))
        miss = next((i for i, (guess, token) in enumerate(pairs) if guess != token), len(pairs))
        n_right += miss
        n_judged += miss + (miss < len(pairs))
        streak = streak + miss if pairs and miss == len(pairs) else 0
        assert record.n_right == streak
    assert sum(calibration.judged) == pytest.approx(n_judged, rel=0.1)
    assert sum(calibration.accepted) == pytest.approx(n_right, rel=0.1)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    confidences=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8),
    history=st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=60),
)
def test_probabilities_are_probabilities(confidences, history):
    record = TrackRecord(Calibration("lookup"))
    for confidence, right in history:
        record.expect([Guess(1, confidence)])
        record.see([1 if right else 2])
    known = record.expect([Guess(1, confidence) for confidence in confidences])
    assert len(known) == len(confidences) and all(0.0 <= probability <= 1.0 for probability in known)


def usual(n_right=9, of=10):
    """What many texts have taught, in which so many guesses were right."""
    calibration = Calibration("lookup")
    for i in range(1000):
        calibration.judge(SURE, i % of < n_right)
    return calibration


def after(record, n_right, of, n_guesses):
    """What a text leads to expect in which so many guesses were right."""
    for i in range(n_guesses):
        record.expect(guesses(1))
        record.see([1 if i % of < n_right else 2])
    return record.expect(guesses(1))[0]


@pytest.mark.parametrize("n_guesses", [100, 300, 600])
@pytest.mark.parametrize("n_right", [2, 5, 8, 10])
def test_a_text_is_believed_as_often_as_it_was_right(n_right, n_guesses):
    """However usual texts are, and however much of what is known of them has come from this one by then."""
    assert after(TrackRecord(usual()), n_right, 10, n_guesses) == pytest.approx(n_right / 10, abs=0.1)


def test_a_text_begins_with_doubt():
    calibration = usual()
    assert TrackRecord(calibration).expect(guesses(1))[0] < calibration.probability(SURE) - 0.02


def test_a_text_that_begins_to_copy_late_is_believed_again():
    record = TrackRecord(usual())
    assert after(record, 0, 1, 300) < 0.2
    assert after(record, 1, 1, 300) > 0.8


def test_tokens_judge_only_the_guesses_made_for_them():
    calibration = Calibration("lookup")
    record = TrackRecord(calibration)
    record.expect(guesses(1))
    record.see([1])
    record.see([1])
    assert sum(calibration.judged) == pytest.approx(1.0)
    assert record.n_right == 0
