"""Guesses from a corpus: what brute force would guess, from an index that is made once and never trusted blindly."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specli.drafters import corpus
from specli.drafters.corpus import CorpusIndex, open_corpus, suffix_array
from specli.drafters.drafter import Guess
from specli.errors import UsageError

IDS = (0, 1, 255, 256, 151_935, 2**24 - 2)  # in one, two and three bytes


def index_of(files):
    tokens = np.array([token for file in files for token in (*file, -1)], np.int32)
    return CorpusIndex(tokens.data, suffix_array(tokens).data)


def followers(files, match):
    """How often each token follows ``match``, inside files."""
    ends = (file[i : i + len(match) + 1] for file in files for i in range(len(file) - len(match)))
    return Counter(end[-1] for end in ends if end[:-1] == match)


def longest_match(files, text):
    lengths = range(min(len(text), 16), 1, -1)
    return next((text[-length:] for length in lengths if followers(files, text[-length:])), None)


def brute_force(files, text, n_max):
    match = longest_match(files, text)
    guesses = []
    while match and len(guesses) < n_max and (counts := followers(files, match)):
        token = min(counts, key=lambda token: (-counts[token], token))
        guesses.append(Guess(token, counts[token] / (counts.total() + 32 / len(match) ** 2)))
        match = [*match, token]
    return guesses


@st.composite
def files_and_text(draw):
    """Few different tokens, so that they repeat, and a text that often takes up one of the files."""
    token = st.sampled_from(IDS[: draw(st.integers(1, len(IDS)))])
    files = draw(st.lists(st.lists(token, max_size=20), min_size=1, max_size=3))
    file = draw(st.sampled_from(files))
    taken = file[draw(st.integers(0, len(file))) :][: draw(st.integers(0, 20))]
    return files, draw(st.lists(token, max_size=5)) + taken + draw(st.lists(token, max_size=3))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(files_and_text(), st.integers(0, 20), st.integers(0, 25))
def test_guesses_are_those_of_brute_force(files_and_text, n_max, cut):
    files, text = files_and_text
    index = index_of(files)
    index.extend([3, 3, *text])
    index.reset()
    index.extend(text[:cut])
    index.extend(text[cut:])
    assert index.guess(n_max) == brute_force(files, text, n_max)


def test_nothing_crosses_files():
    index = index_of([[1, 2, 3], [4, 5, 6], [1, 2, 3]])
    index.extend([1, 2])
    assert [guess.token for guess in index.guess(9)] == [3]
    index.extend([3])
    assert index.guess(9) == []
    index.extend([4])
    assert index.guess(9) == []


def test_longer_matches_win():
    index = index_of([[9, 1, 2, 3], [1, 2, 4, 1, 2, 4, 1, 2, 4]])
    index.extend([9, 1, 2])
    assert [guess.token for guess in index.guess(1)] == [3]
    index.extend([5, 1, 2])
    assert [guess.token for guess in index.guess(1)] == [4]


@pytest.mark.parametrize("length", [15, 16, 17])
def test_no_more_than_sixteen_tokens_are_looked_up(length):
    """Of two continuations the more frequent, unless that of the longer match is within sight."""
    shared = list(range(10, 10 + length - 1))
    index = index_of([[1, *shared, 2], [0, *shared, 3], [0, *shared, 3]])
    index.extend([1, *shared])
    assert index.guess(1)[0].token == (2 if length <= 16 else 3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 1000), st.lists(st.integers(0, 3), min_size=2, max_size=4), st.integers(1, 6))
def test_of_many_occurrences_a_sample_decides(seed, text, n_max):
    """A guess is the most frequent but for what evenly spaced samples can miss; its confidence counts all."""
    file = np.random.default_rng(seed).choice(4, size=4000, p=[0.1, 0.2, 0.4, 0.3]).tolist()
    index = index_of([file])
    index.extend(text)
    match = longest_match([file], text)
    for guess in index.guess(n_max):
        counts = followers([file], match)
        step = -(-counts.total() // 64)
        assert counts[guess.token] >= max(counts.values()) - 2 * (step - 1)
        assert guess.confidence == counts[guess.token] / (counts.total() + 32 / len(match) ** 2)
        match = [*match, guess.token]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from((-1, *IDS)), min_size=1, max_size=60))
def test_suffixes_are_sorted(tokens):
    suffixes = suffix_array(np.array(tokens, np.int32))
    assert suffixes.dtype == np.int32
    assert suffixes.tolist() == sorted(range(len(tokens)), key=lambda position: tokens[position:])


def test_confidence_grows_with_agreement_count_and_length():
    def confidence(files, text):
        index = index_of(files)
        index.extend(text)
        return index.guess(1)[0].confidence

    once = confidence([[1, 2, 3]], [1, 2])
    assert 0 < confidence([[1, 2, 3], [1, 2, 4]], [1, 2]) < once < confidence([[1, 2, 3]] * 2, [1, 2]) < 1
    assert once < confidence([[0, 1, 2, 3]], [0, 1, 2]) < 1


# From files to an index


def words(text):
    """A vocabulary of characters."""
    return [ord(character) for character in text]


def refuse(text):
    raise AssertionError("tokenised again")


class Corpus:
    """Files in a folder, a cache beside them, and what was said."""

    def __init__(self, folder, *texts):
        self.cache = folder / "cache" / "corpora"
        self.paths = []
        self.said = []
        for i, text in enumerate(texts):
            self.paths.append(folder / f"{i}.txt")
            self.paths[-1].write_bytes(text if isinstance(text, bytes) else text.encode())

    def open(self, tokenize=words, fingerprint="characters", free_bytes=None):
        self.said.clear()
        return open_corpus(self.paths, tokenize, fingerprint, self.cache, free_bytes, self.said.append)

    @property
    def kept(self):
        (path,) = self.cache.iterdir()
        return path


def continuation(index, text):
    index.reset()
    index.extend(words(text))
    return "".join(chr(guess.token) for guess in index.guess(99))


@pytest.fixture
def fox(tmp_path):
    return Corpus(tmp_path, "the quick brown fox", "jumps over the lazy dog")


def test_an_index_is_made_once(fox):
    made = fox.open()
    assert len(fox.said) == 1 and "done once" in fox.said[0]
    found = fox.open(tokenize=refuse, free_bytes=0)
    assert fox.said == []
    for text, rest in (("quick ", "brown fox"), ("the l", "azy dog"), ("fox", ""), ("xju", "mps over the lazy dog")):
        assert continuation(made, text) == continuation(found, text) == rest


@pytest.mark.parametrize("texts", [("the quick", " brown fox"), ("the quic", "k brown fox!"), ("the quick brown fox",)])
def test_other_files_have_another_index(fox, tmp_path, texts):
    fox.open()
    other = Corpus(tmp_path, *texts)
    assert continuation(other.open(), "the q") == texts[0][5:]
    with pytest.raises(AssertionError, match="tokenised again"):
        fox.open(tokenize=refuse, fingerprint="other")


def test_borders_between_files_count(tmp_path):
    assert continuation(Corpus(tmp_path, "abc", "defg").open(), "ab") == "c"
    assert continuation(Corpus(tmp_path, "abcd", "efg").open(), "ab") == "cd"


def test_other_vocabularies_have_another_index(fox):
    fox.open()
    with pytest.raises(AssertionError, match="tokenised again"):
        fox.open(tokenize=refuse, fingerprint="other")


DAMAGE = {
    "emptied": lambda content: b"",
    "cut in the header": lambda content: content[:20],
    "cut after the header": lambda content: content[:48],
    "cut": lambda content: content[:-4],
    "grown": lambda content: content + b"1234",
    "magic": lambda content: b"specorp0" + content[8:],
    "digest": lambda content: content[:8] + b"x" * 32 + content[40:],
    "length": lambda content: content[:40] + b"\xff" * 8 + content[48:],
    "tokens": lambda content: content[:48] + b"\x01" + content[49:],
    "suffixes": lambda content: content[:-1] + b"\x7f",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_indices_are_made_again(fox, damage):
    fox.open()
    whole = fox.kept.read_bytes()
    fox.kept.write_bytes(damage(whole))
    assert continuation(fox.open(), "quick ") == "brown fox"
    assert len(fox.said) == 1 and str(fox.kept) in fox.said[0] and "again" in fox.said[0]
    assert fox.kept.read_bytes() == whole
    fox.open(tokenize=refuse)


def test_an_index_of_other_files_is_made_again(fox, tmp_path):
    fox.open()
    other = fox.kept.read_bytes()
    fox.paths[0].write_text("the brown quick fox")
    fox.kept.unlink()
    fox.open()
    fox.kept.write_bytes(other)
    assert continuation(fox.open(), "the b") == "rown quick fox"
    assert len(fox.said) == 1 and "damaged" in fox.said[0]


TWO_AT_ONCE = """
import sys, time
from pathlib import Path
from specli.drafters.corpus import open_corpus

me, other, text, cache = map(Path, sys.argv[1:])

def tokenize(text):
    me.touch()
    give_up = time.monotonic() + 30
    while not other.exists():
        assert time.monotonic() < give_up
        time.sleep(0.01)
    return [ord(character) for character in text]

index = open_corpus([text], tokenize, "characters", cache, None, lambda said: None)
index.extend([ord(character) for character in "quick "])
print("".join(chr(guess.token) for guess in index.guess(99)))
"""


def test_two_processes_at_once(tmp_path):
    """Each waits for the other to have found no index."""
    fox = Corpus(tmp_path, "the quick brown fox")
    names = [tmp_path / "one", tmp_path / "two"]
    command = [sys.executable, "-c", TWO_AT_ONCE]
    processes = [
        subprocess.Popen([*command, *pair, fox.paths[0], fox.cache], stdout=subprocess.PIPE, text=True)
        for pair in (names, names[::-1])
    ]
    assert [process.communicate(timeout=60)[0] for process in processes] == ["brown fox\n"] * 2
    assert continuation(fox.open(tokenize=refuse), "quick ") == "brown fox"
    assert fox.kept.suffix == ".corpus"


def test_each_writes_to_a_file_of_its_own(fox, tmp_path, monkeypatch):
    """One comes from its first byte to its last while another is about to finish."""
    replace = Path.replace
    other = Corpus(tmp_path, *(path.read_text() for path in fox.paths))

    def overtaken(partial, path):
        monkeypatch.setattr(Path, "replace", replace)
        other.open()
        return partial.replace(path)

    monkeypatch.setattr(Path, "replace", overtaken)
    fox.open()
    assert len(fox.said) == len(other.said) == 1
    assert continuation(fox.open(tokenize=refuse), "quick ") == "brown fox"
    assert fox.kept.suffix == ".corpus"


def test_an_open_index_outlives_its_file(fox):
    fox.open()
    index = fox.open(tokenize=refuse)
    nothing = np.zeros(1, np.int32)
    corpus._save(fox.kept, b"", nothing, nothing)
    assert continuation(index, "quick ") == "brown fox"


def test_an_index_that_cannot_be_kept_is_used_all_the_same(fox, tmp_path):
    fox.cache = tmp_path / "0.txt"
    assert continuation(fox.open(), "quick ") == "brown fox"
    assert str(fox.cache) in fox.said[-1]


def test_a_full_disk_leaves_nothing_behind(fox, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    assert continuation(fox.open(), "quick ") == "brown fox"
    assert "No space left on device" in fox.said[-1]
    assert list(fox.cache.iterdir()) == []


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfa\r\nb", b"a\nb"], ids=["Windows", "Unix"])
def test_marks_and_line_ends_are_not_the_texts(tmp_path, text):
    assert continuation(Corpus(tmp_path, b"  " + text, text).open(), "a\n") == "b"
    seen = []
    Corpus(tmp_path, text).open(lambda text: seen.append(text) or words(text), fingerprint="seen")
    assert seen == ["a\nb"]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text("ab\n", max_size=60))
def test_texts_are_cut_at_line_ends(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "_PIECE", 8)
        pieces = corpus._pieces(text)
    assert "".join(pieces) == text
    assert all(1 <= len(piece) <= 8 for piece in pieces)
    assert all(piece.endswith("\n") or ("\n" not in piece and len(piece) == 8) for piece in pieces[:-1])


# What cannot be a corpus


def assert_refused(path, word, free_bytes=None, cache=Path("cache")):
    with pytest.raises(UsageError) as caught:
        open_corpus([path], words, "characters", cache, free_bytes, lambda said: None)
    assert str(path) in caught.value.message and word in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "content, word",
    [
        (b"", "empty"),
        (b"a text\0with NUL", "NUL"),
        ("größer".encode("latin-1"), "UTF-8 (at byte 2)"),
        ("a text".encode("utf-16"), "UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "NUL"),
    ],
)
def test_binary_and_empty_files_are_refused(tmp_path, content, word):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    assert_refused(path, word, cache=tmp_path / "cache")


def test_what_is_no_file_is_refused(tmp_path):
    assert_refused(tmp_path / "missing.txt", "No such file")
    assert_refused(tmp_path, "folder")
    assert_refused(tmp_path / ("a" * 300), "too long")
    os.mkfifo(tmp_path / "pipe")
    assert_refused(tmp_path / "pipe", "regular")


def test_unreadable_files_are_refused(fox, monkeypatch):
    def fail(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", fail)
    assert_refused(fox.paths[0], "Permission denied")


def test_what_memory_cannot_hold_is_refused(fox, tmp_path):
    size = fox.paths[0].stat().st_size
    assert_refused(fox.paths[0], "memory", free_bytes=size * corpus._BUILDING_BYTES - 1, cache=fox.cache)
    fox.paths = fox.paths[:1]
    fox.open(free_bytes=size * corpus._BUILDING_BYTES)


def test_more_than_positions_can_count_is_refused(tmp_path):
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(2**31)
    assert_refused(path, "2.1 GB")


def test_the_largest_of_several_files_is_named(tmp_path):
    fox = Corpus(tmp_path, "short", "the longest", "longer")
    with pytest.raises(UsageError) as caught:
        fox.open(free_bytes=10)
    assert str(fox.paths[1]) in caught.value.message
