"""The suffix index against brute force: what matches, what follows, and how sure that is."""

from collections import Counter
from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specli.drafters import suffix
from specli.drafters.suffix import MIN_MATCH, SuffixIndex, confidence

proof = settings(max_examples=300, deadline=None, derandomize=True)


@st.composite
def texts(draw, max_chunks=8):
    """Chunks of a few tokens, picked again and again: from 2 tokens, some, or a whole vocabulary."""
    token = st.integers(0, draw(st.sampled_from([1, 2, 5, 151_935])))
    chunks = draw(st.lists(st.lists(token, min_size=1, max_size=6), min_size=1, max_size=4))
    picked = draw(st.lists(st.sampled_from(chunks), max_size=max_chunks))
    return [token for chunk in picked for token in chunk]


def index_of(text):
    index = SuffixIndex()
    index.extend(text)
    return index


@contextmanager
def counting(n_suffixes):
    with mock.patch.object(suffix, "_MAX_COUNTED", n_suffixes):
        yield


def followers(text, context):
    """The tokens after each occurrence of the context, first to last."""
    n = len(context)
    return [text[i + n] for i in range(len(text) - n) if text[i : i + n] == context]


def longest_match(text):
    return next(n for n in range(len(text) - 1, -1, -1) if n == 0 or followers(text, text[-n:])) if text else 0


def brute_force_guesses(text, n_max):
    """Follow the most frequent continuation, the latest of equals; at the end of the text, that of the match again."""
    n = longest_match(text)
    if n < MIN_MATCH:
        return []
    match = context = text[-n:]
    guesses = []
    for i in range(n_max):
        if not (seen := followers(text, context)):
            context = match
            seen = followers(text, context)
        counts = Counter(seen)
        last_place = {token: place for place, token in enumerate(seen)}
        token = max(counts, key=lambda token: (counts[token], last_place[token]))
        guesses.append((token, confidence(counts[token], len(seen), n + i)))
        context = [*context, token]
    return guesses


@proof
@given(texts(max_chunks=40))
@example([])
@example([7])
@example([0] * 100)
@example([0, 1] * 50)
def test_match_is_the_longest_suffix_that_occurred_before(text):
    index = SuffixIndex()
    for i, token in enumerate(text):
        assert index.match_length == longest_match(text[:i])
        index.extend([token])
    assert index.match_length == longest_match(text)


@proof
@given(texts(), st.integers(0, 20))
@example([1, 2, 3, 1, 2], 20)
@example([0, 0, 1, 0, 0, 1, 0, 0, 2, 0, 0], 20)
@example([0] * 30, 20)
def test_guesses_are_those_of_brute_force(text, n_max):
    """Tokens and confidences, at every place of the text, where every suffix is counted."""
    index = SuffixIndex()
    with counting(len(text)):
        for i, token in enumerate(text, 1):
            index.extend([token])
            assert index.guess(n_max) == brute_force_guesses(text[:i], n_max)


@proof
@given(texts(max_chunks=40), st.integers(1, 64), st.integers(1, 4))
@example([0] * 200 + [1] + [0] * 200, 64, 1)
@example([0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1], 8, 2)  # a continuation counted more often than what it continues
def test_every_guess_followed_its_context_before(text, n_max, n_counted):
    """However few suffixes are counted: the first one the match, later ones as much as was not beyond the end."""
    with counting(n_counted):
        guesses = index_of(text).guess(n_max)
    n = longest_match(text)
    assert len(guesses) == (n_max if n >= MIN_MATCH else 0)
    match = context = text[len(text) - n :]
    for guess in guesses:
        if context == text[-len(context) :] and len(context) > n:
            context = match
        assert guess.token in followers(text, context)
        assert 0.0 < guess.confidence <= 1.0
        context = [*context, guess.token]


@pytest.mark.parametrize("n_counted", [1, 8, 16])
def test_a_token_counts_for_no_more_suffixes_than_stated(n_counted):
    index = index_of([0] * 200)
    before = sum(index._counts)
    with counting(n_counted):
        index.extend([0])
    assert sum(index._counts) == before + 1 + n_counted


@proof
@given(texts(max_chunks=30), texts(), st.lists(st.integers(0, 10), max_size=30))
def test_pieces_and_resets_change_nothing(text, earlier, sizes):
    whole, pieces = index_of(text), index_of(earlier)
    pieces.guess(5)
    pieces.reset()
    assert vars(pieces) == vars(SuffixIndex())
    rest = list(text)
    for size in sizes:
        pieces.extend(rest[:size])
        pieces.guess(5)
        del rest[:size]
    pieces.extend(tuple(rest))
    assert vars(pieces) == vars(whole)


@proof
@given(texts(max_chunks=30), st.integers(1, 8))
@example(list(range(100)), 4)
def test_beyond_the_longest_text_the_most_recent_half_stays(text, half):
    with mock.patch.object(suffix, "MAX_TOKENS", 2 * half):
        index = index_of(text)
    n_forgotten = max(0, -(-(len(text) - 2 * half) // half)) * half
    assert vars(index) == vars(index_of(text[n_forgotten:]))
    assert len(text) - n_forgotten <= 2 * half


@pytest.mark.parametrize("n_seen", [MIN_MATCH, 10, 500, 999])
def test_a_repeated_text_is_guessed_to_its_end(n_seen):
    text = list(range(1000))
    guesses = index_of([*text, -1, *text[:n_seen]]).guess(1000 - n_seen)
    assert [guess.token for guess in guesses] == text[n_seen:]


@pytest.mark.parametrize("period", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("n_tokens", [110, 3001])
def test_periodic_texts_go_on(period, n_tokens):
    tokens = [i % period for i in range(n_tokens + 64)]
    assert [guess.token for guess in index_of(tokens[:n_tokens]).guess(64)] == tokens[n_tokens:]


def test_the_most_frequent_continuation_wins():
    first = [1, 2, 8] * 3 + [1, 2, 9] + [5, 1, 2]
    assert index_of(first).guess(1) == [(8, confidence(3, 4, 2))]
    assert index_of([1, 2, 9] + [5, 1, 2, 8] * 3 + [6, 1, 2]).guess(1) == [(8, confidence(3, 4, 2))]


def test_of_equally_frequent_continuations_the_latest_wins():
    for order in ((8, 9), (9, 8), (8, 9, 9, 8), (9, 8, 8, 9), (7, 8, 9), (7, 9, 8)):
        text = [token for i, after in enumerate(order) for token in (100 + i, 1, 2, after)] + [200, 1, 2]
        assert index_of(text).guess(1) == [(order[-1], confidence(order.count(order[-1]), len(order), 2))]


def test_a_match_of_one_token_is_not_gone_by():
    assert index_of([1, 2, 3, 4, 1]).guess(8) == []
    assert index_of([1, 2, 3, 4, 1, 2]).guess(8)


def test_confidence_grows_with_the_match_and_the_share():
    for count in range(1, 10):
        for total in range(count, 12):
            for length in range(1, 40):
                here = confidence(count, total, length)
                assert 0.0 < here < 1.0
                assert here < confidence(count, total, length + 1)
                assert here < confidence(count + 1, total + 1, length)
                assert here > confidence(count, total + 1, length)
    assert confidence(1, 1, 1) < 0.5
    assert confidence(1, 1, 8) > 0.7
    assert 0.99 < confidence(1, 1, 100_000) <= 1.0
