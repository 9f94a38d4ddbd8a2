"""llama.cpp's n-gram drafters: each guesses what a slow, literal account of llama.cpp's rules does."""

import os
import re
import subprocess
from collections import Counter
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specli.drafters.ngram import NGRAM_DRAFTERS, NgramCache, NgramOptions, NgramSimple
from specli.drafters.ngram_map import NgramMapK, NgramMapK4V, NgramMod
from specli.errors import UsageError

TOKENS = (1, 2, 3, 1 + 2**18, 1 + 2**22)  # the last two share 1's slot: in both hash tables, in the smaller one
SMALL = NgramOptions(
    spec_ngram_simple_size_n=2,
    spec_ngram_simple_size_m=5,
    spec_ngram_map_k_size_n=3,
    spec_ngram_map_k_size_m=4,
    spec_ngram_map_k4v_size_n=1,
    spec_ngram_map_k4v_size_m=2,
    spec_ngram_map_k4v_min_hits=2,
    spec_ngram_mod_n_match=2,
    spec_ngram_mod_n_min=2,
    spec_ngram_mod_n_max=6,
)
MADE_OF_SMALL = {
    "ngram-simple": lambda: NgramSimple(2, 5),
    "ngram-map-k": lambda: NgramMapK(3, 4),
    "ngram-map-k4v": lambda: NgramMapK4V(1, 2, 2),
    "ngram-mod": lambda: NgramMod(2, 2, 6),
    "ngram-cache": NgramCache,
}
SIZES = {"ngram-simple": 48, "ngram-map-k": 48, "ngram-map-k4v": 48, "ngram-mod": 64, "ngram-cache": 8}
every_drafter = pytest.mark.parametrize("name", NGRAM_DRAFTERS)
thorough = settings(max_examples=400, deadline=None, derandomize=True)


@st.composite
def texts(draw):
    """A text made of a few phrases, and where in it guesses are made: first at the end of the prompt."""
    rng = Random(draw(st.integers(0, 2**32)))
    phrases = [rng.choices(TOKENS, k=rng.randint(1, 8)) for _ in range(rng.randint(1, 4))]
    text = [token for _ in range(rng.randint(1, 40)) for token in rng.choice(phrases)]
    ends = [rng.randint(1, len(text))]
    longest_step = rng.choice([1, 3, 8])
    while ends[-1] <= len(text):
        ends.append(ends[-1] + rng.randint(1, longest_step))
    return text, ends[:-1]


def tokens_of(guesses):
    return [guess.token for guess in guesses]


def guesses_at(ends, index, text, n_max):
    """What an index guesses at each of the ends."""
    guesses = []
    for start, end in pairwise([0, *ends]):
        index.extend(text[start:end])
        guesses.append(tokens_of(index.guess(n_max)))
    return guesses


def accepted(guess, since):
    """How many tokens of a guess the text took up; None where the text ends before that is clear."""
    for i, token in enumerate(guess):
        if i == len(since):
            return None
        if since[i] != token:
            return i
    return len(guess)


def slot(tokens, multiplier, n_slots):
    value = 0
    for token in tokens:
        value = (value * multiplier + token) % 2**64
    return value % n_slots


def simple(text, n, m):
    past = text[:-1]
    if len(past) > n + m + 1:
        for i in range(len(past) - n - 1, 0, -1):
            if text[i : i + n] == text[-n:]:
                following = past[i + n : i + n + m]
                return following if len(following) >= n else []
    return []


def chosen_mgram(text, ngram, m, places):
    """The m-gram that map-k4v settles on after it has counted up to each of the places; None: none."""
    counts, start = {}, 0
    for place in places:
        for i in range(start, place + 1):
            if text[i : i + len(ngram)] == ngram:
                mgram = tuple(text[i + len(ngram) : i + len(ngram) + m])
                if mgram in counts or len(counts) < 4:
                    counts[mgram] = counts.get(mgram, 0) + 1
        start = place
    best, *others = sorted(counts, key=lambda mgram: -counts[mgram])
    n_others = sum(counts[mgram] for mgram in others)
    return None if n_others > 0 and counts[best] < 2 * n_others else best


def mapped(text, ends, n, m, n_max, min_hits=None):
    """map-k, or with min-hits map-k4v: everything is worked out anew from the list of all lookups so far."""
    entered, read_to = [], 0
    lookups = []  # (n-gram, place, m-gram, accepted)
    for end, following in pairwise([*ends, len(text)]):
        ngram, last = text[end - n : end], end - 1 - n - m - 1
        guess, place, mgram = [], 0, None
        if end - 1 >= 2 * n + m:
            new = [*range(ends[0] - n - m - 1, 0, -1), *range(last, ends[0], -1)]
            new = [i for i in new if i > read_to]
            in_slot = [i for i in entered if slot(text[i : i + n], 2654435761, 2**18) == slot(ngram, 2654435761, 2**18)]
            known = [i for i in in_slot[:1] if i < last]
            place = next((i for i in known + new if text[i : i + n] == ngram), 0)
            entered += new
            read_to = max(read_to, last)
        if place:
            earlier = [lookup for lookup in lookups if lookup[0] == ngram]
            if min_hits is None:
                mgram = ()
            elif len(earlier) + 1 >= min_hits:
                places = [*(lookup[1] for lookup in earlier[min_hits - 1 :]), place]
                mgram = chosen_mgram(text, ngram, m, places)
            if mgram is not None:
                lengths = [lookup[3] for lookup in earlier if lookup[2] == mgram and lookup[3] is not None]
                guess = text[place + n : place + n + [m, *lengths][-1]][:n_max]
            n_accepted = accepted(guess, text[end:following]) if guess else None
            lookups.append((ngram, place, mgram, n_accepted))
        yield guess


def modded(text, ends, n, n_min, n_max, cap):
    entered, read_to, n_poor = [], 0, 0
    for end, following in pairwise([*ends, len(text)]):
        guess, window = [], text[end - n : end]
        if end == ends[0] and end >= n:
            entered, read_to = list(range(end - n)), end - n
        if end - 1 >= n:
            if read_to + 32 < end - 1:
                entered += range(read_to, end - 1 - n)
                read_to = end - 1 - n
            while len(guess) < n_max:
                wanted = slot(window, 6364136223846793005, 4 * 1024 * 1024)
                found = [i for i in entered if slot(text[i : i + n], 6364136223846793005, 4 * 1024 * 1024) == wanted]
                if not found:
                    break
                guess.append(text[found[-1] + n])
                window = [*window, guess[-1]][1:]
            if len(guess) < n_min and len(guess) < n_max:
                guess = []
        guess = guess[:cap]
        n_accepted = accepted(guess, text[end:following])
        if guess and n_accepted is not None:
            n_poor = n_poor + 1 if n_accepted / len(guess) < 0.25 else 0
            if n_poor == 5:
                entered, read_to, n_poor = [], 0, 0
        yield guess


def cached(text, ends, n_max):
    """Tokens with their confidences."""
    pieces = [text[start:end] for start, end in pairwise([0, *ends])]
    for k, end in enumerate(ends):
        sequence, guess = text[:end], []
        while end >= 2 and len(guess) < min(n_max, 8):
            for n, least, percent in ((4, 1, 50), (3, 1, 50), (2, 2, 50), (1, 2, 66)):
                after = [
                    piece[i]
                    for piece in pieces[: k + 1]
                    for i in range(n, len(piece))
                    if n <= len(sequence) and piece[i - n : i] == sequence[-n:]
                ]
                if after:
                    count, _, token = max((count, after.index(token), token) for token, count in Counter(after).items())
                    if len(after) >= least and 100 * count >= percent * len(after):
                        guess.append((token, count / len(after)))
                        sequence = [*sequence, token]
                        break
            else:
                break
        yield guess


small = st.integers(1, 3)
bounds = st.sampled_from([1, 2, 3, 100])


@thorough
@given(texts(), small, st.integers(1, 8), bounds)
def test_simple(text_and_ends, n, m, n_max):
    text, ends = text_and_ends
    expected = [simple(text[:end], n, m)[:n_max] for end in ends]
    assert guesses_at(ends, NgramSimple(n, m), text, n_max) == expected


@thorough
@given(texts(), small, st.integers(1, 5), bounds)
def test_map_k(text_and_ends, n, m, n_max):
    text, ends = text_and_ends
    assert guesses_at(ends, NgramMapK(n, m), text, n_max) == list(mapped(text, ends, n, m, n_max))


@thorough
@given(texts(), small, st.integers(1, 4), st.integers(1, 3), bounds)
def test_map_k4v(text_and_ends, n, m, min_hits, n_max):
    text, ends = text_and_ends
    expected = list(mapped(text, ends, n, m, n_max, min_hits))
    assert guesses_at(ends, NgramMapK4V(n, m, min_hits), text, n_max) == expected


@thorough
@given(texts(), small, st.integers(0, 4), st.integers(0, 8), bounds)
def test_mod(text_and_ends, n, n_min, n_max, cap):
    text, ends = text_and_ends
    assert guesses_at(ends, NgramMod(n, n_min, n_max), text, cap) == list(modded(text, ends, n, n_min, n_max, cap))


@thorough
@given(texts(), st.sampled_from([1, 3, 8, 100]))
def test_cache(text_and_ends, n_max):
    text, ends = text_and_ends
    index, start = NgramCache(), 0
    for end, expected in zip(ends, cached(text, ends, n_max), strict=True):
        index.extend(text[start:end])
        assert index.guess(n_max) == expected
        start = end


def test_map_k_guesses_as_much_as_was_accepted_last_time():
    phrase = list(range(10, 30))
    index = NgramMapK(4, 8)
    index.extend([0, *phrase, 1, 2, 3, *phrase[:4]])
    assert tokens_of(index.guess(100)) == phrase[4:12]
    index.extend([*phrase[4:7], 5, *phrase[:4]])
    assert tokens_of(index.guess(100)) == phrase[4:7]
    index.extend([phrase[4]])
    index.guess(100)
    index.extend([6, *phrase[:4]])
    assert tokens_of(index.guess(100)) == phrase[4:7]  # another n-gram's guess came between
    index.extend([7, *phrase[:4]])
    assert index.guess(100) == []
    index.extend([*phrase[4:], *phrase[:4]])
    assert index.guess(100) == []


def test_map_k_looks_through_the_prompt_first():
    """Too short at first, then there is more of it and of the text after it at once."""
    index = NgramMapK(3, 1)
    index.extend([0, 5, 6, 7, 1, 9, 9])
    assert index.guess(100) == []
    index.extend([9, 9, 5, 6, 7, 2, 9, 9, 9, 5, 6, 7])
    assert tokens_of(index.guess(100)) == [1]


def test_map_k4v_wants_one_mgram_to_prevail():
    """Three times after 1 comes 2, 2; then once 3, 3; those come last, so they are guessed, as in llama.cpp."""
    text = [9, *[1, 2, 2] * 3, 1, 3, 3, 4, 4, 4, 4, 1]
    index = NgramMapK4V(1, 2, 1)
    index.extend(text)
    assert tokens_of(index.guess(100)) == [3, 3]
    index = NgramMapK4V(1, 2, 1)
    index.extend(text[7:])  # now once each
    assert index.guess(100) == []


def test_mod_starts_afresh_after_five_poor_guesses():
    """Only then does it see what it lags behind."""
    index = NgramMod(1, 0, 8)
    index.extend([*range(1, 40), 1])
    for _ in range(5):
        assert tokens_of(index.guess(100)) == list(range(2, 10))
        index.extend([50, 1])
    assert index.guess(100)[0].token == 50


def test_mod_does_not_mind_guesses_of_which_a_quarter_is_accepted():
    index = NgramMod(1, 0, 4)
    index.extend([*range(1, 40), 1])
    for _ in range(7):
        assert tokens_of(index.guess(100)) == [2, 3, 4, 5]
        index.extend([2, 50, 1])


def test_cache_counts_nothing_after_a_token_that_came_alone():
    together, alone = NgramCache(), NgramCache()
    for token in [1, 2, 3, 1, 2, 3, 1, 2]:
        alone.extend([token])
        assert alone.guess(8) == []
    together.extend([1, 2, 3, 1, 2, 3, 1, 2])
    assert tokens_of(together.guess(4)) == [3, 1, 2, 3]


@every_drafter
def test_a_repeated_text_is_guessed(name):
    index = NGRAM_DRAFTERS[name](NgramOptions())
    index.extend([*range(100), *range(100), *range(30)])
    expected = list(range(30, 30 + SIZES[name]))
    assert tokens_of(index.guess(1000)) == expected
    assert all(0.0 < guess.confidence <= 1.0 for guess in index.guess(1000))


@every_drafter
@pytest.mark.parametrize("n_max", [1, 5, 8, 47, 63])
def test_guesses_are_bounded(name, n_max):
    index = NGRAM_DRAFTERS[name](NgramOptions())
    index.extend([*range(100), *range(100), *range(30)])
    assert len(index.guess(n_max)) == min(n_max, SIZES[name])


@every_drafter
def test_nothing_is_known_of_a_short_or_new_text(name):
    index = NGRAM_DRAFTERS[name](NgramOptions())
    assert index.guess(10) == []
    for length in (1, 1, 3, 1000):
        index.extend(list(range(length, 2 * length)))
        assert index.guess(10) == []


@every_drafter
@thorough
@given(texts(), st.integers(1, 4))
def test_pieces_are_as_good_as_the_whole(name, text_and_ends, step):
    text, ends = text_and_ends
    whole, pieces = (NGRAM_DRAFTERS[name](SMALL) for _ in range(2))
    for start, end in pairwise([0, *ends]):
        whole.extend(text[start:end])
        for i in range(start, end, step):
            pieces.extend(text[i : min(i + step, end)])
        assert pieces.guess(5) == whole.guess(5)


@every_drafter
@thorough
@given(first=texts(), second=texts())
def test_after_a_reset_it_is_as_new(name, first, second):
    used, new = (NGRAM_DRAFTERS[name](SMALL) for _ in range(2))
    guesses_at(first[1], used, first[0], 5)
    used.reset()
    assert guesses_at(second[1], used, second[0], 5) == guesses_at(second[1], new, second[0], 5)


@every_drafter
@thorough
@given(texts())
def test_each_drafter_has_its_own_options(name, text_and_ends):
    text, ends = text_and_ends
    expected = guesses_at(ends, MADE_OF_SMALL[name](), text, 100)
    assert guesses_at(ends, NGRAM_DRAFTERS[name](SMALL), text, 100) == expected


def flag(name):
    return "--" + name.replace("_", "-")


OPTIONS = [option.name for option in fields(NgramOptions)]


def test_defaults_and_limits_are_fine():
    NgramOptions().check()
    NgramOptions(**dict.fromkeys(OPTIONS, 1024)).check()
    replace(NgramOptions(), spec_ngram_mod_n_min=0, spec_ngram_mod_n_max=0).check()


@pytest.mark.parametrize("name", OPTIONS)
def test_meaningless_values_are_refused_by_flag(name):
    for value in (-1, *([] if name.endswith(("n_min", "n_max")) else [0]), *([] if "hits" in name else [1025])):
        with pytest.raises(UsageError, match=rf"{flag(name)} {value}: "):
            replace(NgramOptions(), **{name: value}).check()


@pytest.fixture(scope="module")
def server_help():
    server = os.environ.get("PEER")
    if not server or not Path(server).is_file():
        pytest.skip("PEER names no llama-server")
    return " ".join(subprocess.run([server, "--help"], capture_output=True, text=True, timeout=60).stdout.split())


def test_options_are_those_of_llama_server(server_help):
    defaults = dict(
        re.findall(r"(--spec-ngram-\S+) N (?!the argument has been removed).*?\(default: (\d+)\)", server_help)
    )
    assert {flag(option.name): str(option.default) for option in fields(NgramOptions)} == dict(defaults)


def test_drafters_are_those_of_llama_server(server_help):
    types = re.search(r"--spec-type (\S+)", server_help)[1].split(",")
    assert [name for name in types if name.startswith("ngram-")] == sorted(NGRAM_DRAFTERS, key=types.index)
