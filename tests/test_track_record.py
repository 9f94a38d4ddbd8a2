"""What a text tells of a lookup's guesses: which are judged, and what that says of the next."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specli.decoding.calibration import Calibration
from specli.decoding.track_record import TrackRecord
from specli.drafters.drafter import Forecast

SURE = 0.9


def record():
    calibration = Calibration("lookup")
    return TrackRecord(calibration), calibration


def tokens(least):
    return st.lists(st.integers(0, 2), min_size=least, max_size=5)


def first_miss(guesses, came):
    pairs = list(zip(guesses, came, strict=False))
    return next((i for i, (guess, token) in enumerate(pairs) if guess != token), len(pairs)), len(pairs)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(rounds=st.lists(st.tuples(tokens(0), tokens(1)), max_size=12))
def test_judged_are_the_guesses_up_to_the_first_miss(rounds):
    """Those after it would be others; a token nobody guessed ends the streak, one beyond the guesses does not."""
    seen, calibration = record()
    n_judged = n_right = streak = 0
    for guesses, came in rounds:
        seen.probabilities(Forecast([SURE] * len(guesses), guesses))
        seen.see(came)
        miss, n_compared = first_miss(guesses, came)
        n_right += miss
        n_judged += miss + (miss < n_compared)
        streak = streak + miss if guesses and miss == n_compared else 0
        assert seen.n_right == streak
    assert sum(calibration.judged) == pytest.approx(n_judged, rel=0.1)
    assert sum(calibration.accepted) == pytest.approx(n_right, rel=0.1)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    confidences=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8),
    history=st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=60),
)
def test_probabilities_are_probabilities(confidences, history):
    seen, _ = record()
    for confidence, right in history:
        seen.probabilities(Forecast([confidence], [1]))
        seen.see([1 if right else 2])
    known = seen.probabilities(Forecast(confidences, [1] * len(confidences)))
    assert len(known) == len(confidences) and all(0.0 <= probability <= 1.0 for probability in known)


def test_a_text_that_copies_is_believed_and_one_that_does_not_is_not():
    """The same calibration, of many texts, whose guesses were right in nine of ten cases."""
    _, calibration = record()
    for i in range(400):
        calibration.judge(SURE, i % 10 > 0)
    usual = calibration.probability(SURE)
    chances = {}
    for name, came in {"copies": 1, "differs": 2}.items():
        seen = TrackRecord(calibration)
        assert seen.probabilities(Forecast([SURE], [1]))[0] < usual  # nothing is known of the text yet
        for _ in range(20):
            seen.probabilities(Forecast([SURE], [1]))
            seen.see([came])
        chances[name] = seen.probabilities(Forecast([SURE], [1]))[0]
    assert chances["copies"] > usual > chances["differs"]
    assert 1.0 - chances["copies"] < 0.9 * (1.0 - usual)


def test_tokens_judge_only_the_guesses_made_for_them():
    seen, calibration = record()
    seen.probabilities(Forecast([SURE], [1]))
    seen.see([1])
    seen.see([1])
    assert sum(calibration.judged) == pytest.approx(1.0)
    assert seen.n_right == 0
