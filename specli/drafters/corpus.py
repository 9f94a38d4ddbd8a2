"""Guesses from texts or code the user names: how they go on after what was just said (REST: He et al., 2023)."""

import hashlib
import mmap
import stat
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from specli.drafters.drafter import Guess
from specli.errors import UsageError
from specli.whole_file import whole_file

TokenArray = npt.NDArray[np.int32]
Tokenize = Callable[[str], list[int]]
Say = Callable[[str], None]

_END = -1  # stands after every file; no token has this id
_SHORTEST, _LONGEST = 2, 16  # how many of the text's last tokens are looked up
_SAMPLED = 64  # how many occurrences are looked at to find the most frequent token after them
_DOUBT = 32.0  # see _confidence
_PIECE = 1 << 20  # characters tokenised at a time, so that the lists stay small
_MOST_BYTES = 2**31 - 1  # of text; positions are 32 bits wide
_BUILDING_BYTES = 20  # memory that indexing takes, a byte of text: 11 for code, more the shorter the tokens
_MAGIC = b"specorp1"
_HEADER = struct.Struct("=8s32sQ")  # magic, digest, how many tokens; tokens and suffix array follow, int32 each


class CorpusIndex:
    """Guesses what most often comes after the longest suffix of the text that some token follows in the corpus.

    Args:
        tokens: Token ids of all files, int32, shape (n,), −1 after every file.
        suffixes: Their suffix array (Manber and Myers, 1990): every position, int32, shape (n,), in the order of the
            tokens from there to the end.
    """

    def __init__(self, tokens: memoryview, suffixes: memoryview) -> None:
        self._tokens = tokens
        self._suffixes = suffixes
        self._recent: list[int] = []

    def reset(self) -> None:
        """Forget the text, to begin another."""
        self._recent = []

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the end of the text, of which only the last few are kept."""
        self._recent = [*self._recent, *tokens[-_LONGEST:]][-_LONGEST:]

    def guess(self, n_max: int) -> Sequence[Guess]:
        """Guess how the text goes on: at most ``n_max`` tokens, none where the corpus lacks the last two."""
        n_matched, first = self._longest_match()
        if not n_matched:
            return []
        match = self._recent[-n_matched:]
        last = self._find([*match[:-1], match[-1] + 1], first)
        guesses = []
        for length in range(n_matched, n_matched + n_max):
            first = self._narrow(0, first, last, length)  # past the ends of files
            if first == last:
                break
            token, n_occurrences = self._most_frequent(first, last, length), last - first
            first = self._narrow(token, first, last, length)
            last = self._narrow(token + 1, first, last, length)
            guesses.append(Guess(token, _confidence(last - first, n_occurrences, length)))
        return guesses

    def _longest_match(self) -> tuple[int, int]:
        """How many of the text's last tokens some token follows in the corpus, or 0, and the place of the first such.

        What follows a suffix follows every shorter one, so that the length can be found by bisection.
        """
        found = (0, 0)
        shortest, longest = _SHORTEST, len(self._recent)
        while shortest <= longest:
            length = (shortest + longest) // 2
            match = self._recent[-length:]
            place = self._find([*match, 0])
            position = self._suffixes[place] if place < len(self._suffixes) else len(self._tokens)
            if self._tokens[position : position + length].tolist() == match:
                found, shortest = (length, place), length + 1
            else:
                longest = length - 1
        return found

    def _find(self, wanted: list[int], start: int = 0) -> int:
        """The place of the first suffix that is not before these tokens."""
        tokens, n = self._tokens, len(wanted)
        return bisect_left(self._suffixes, wanted, start, key=lambda position: tokens[position : position + n].tolist())

    def _narrow(self, token: int, first: int, last: int, length: int) -> int:
        """The place, among suffixes that share ``length`` tokens, of the first whose next is not below ``token``."""
        tokens = self._tokens
        return bisect_left(self._suffixes, token, first, last, key=lambda position: tokens[position + length])

    def _most_frequent(self, first: int, last: int, length: int) -> int:
        """The token that most often comes next, the smallest of equals; of many occurrences a sample decides."""
        step = -(-(last - first) // _SAMPLED)
        tokens = [self._tokens[position + length] for position in self._suffixes[first:last:step].tolist()]
        return Counter(tokens).most_common(1)[0][0]


def _confidence(count: int, n_occurrences: int, n_matched: int) -> float:
    """The share of the occurrences that agree, as if _DOUBT / n_matched² more of them did not.

    Looked up in 50 MB of Python, where the last 2, 4, 8 tokens occur once, the next was right 16 %, 32 %, 71 % of the
    time for other Python files, and 13 %, 26 %, 78 % for documentation; this says 11 %, 33 %, 67 %.
    """
    return count / (n_occurrences + _DOUBT / n_matched**2)


def open_corpus(
    paths: Sequence[Path], tokenize: Tokenize, fingerprint: str, cache: Path, free_bytes: int | None, say: Say
) -> CorpusIndex:
    """Open the index of some files, which is made and kept the first time.

    Args:
        paths: Texts in UTF-8, one at least.
        tokenize: Turns a text, cut at line ends into pieces, into token ids from 0 to 2²⁴ − 2.
        fingerprint: Names the vocabulary: other ids for the same text, another fingerprint.
        cache: The folder where indices are kept.
        free_bytes: Memory that may be used to make one; None: not known.
        say: Told, in a sentence, that an index is being made, and what was wrong with one that was there.

    Raises:
        UsageError: A file cannot be read as text, or all together are too large to index.
    """
    sizes = [_size(path) for path in paths]
    _check_size(paths, sizes)
    key = _key(paths, fingerprint)
    kept = cache / f"{key.hex()}.corpus"
    try:
        return CorpusIndex(*_load(kept, key))
    except FileNotFoundError:
        say(f"Indexing {sum(sizes) / 1e6:.1f} MB of corpus, which is done once.")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        say(f"Indexing the corpus again, as its index {kept} cannot be used: {reason}.")
    _check_memory(paths, sizes, free_bytes)
    tokens = np.concatenate([_tokens_of(path, tokenize) for path in paths])
    suffixes = suffix_array(tokens)
    try:
        _save(kept, key, tokens, suffixes)
    except OSError as error:
        say(f"The index of the corpus cannot be kept in {cache}: {error.strerror}.")
    return CorpusIndex(tokens.data, suffixes.data)


def suffix_array(tokens: TokenArray) -> TokenArray:
    """Sort the positions of an array of ids from −1 to 2²⁴ − 2 by what stands from there to the end.

    Divsufsort (Mori, 2003) sorts bytes. Three of them a token, the highest first, keep the tokens' order.
    """
    from pydivsufsort import divsufsort  # type: ignore[import-untyped]  # only here: most corpora are indexed already

    digits = (tokens + 1).astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:].ravel()
    positions = np.asarray(divsufsort(digits))
    return np.asarray(positions[positions % 3 == 0] // 3).astype(np.int32)


def _size(path: Path) -> int:
    """Return the size in bytes of what must be a file with something in it."""
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"--corpus {path}: a folder", "Name files, each with a --corpus of its own.")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"--corpus {path}: not a regular file", "Write the text to a file first: it is read twice.")
    if not status.st_size:
        raise UsageError(f"--corpus {path}: empty", "A corpus is text or code that answers may repeat.")
    return status.st_size


def _check_size(paths: Sequence[Path], sizes: Sequence[int]) -> None:
    if sum(sizes) > _MOST_BYTES:
        raise UsageError(
            f"--corpus {_largest(paths, sizes)}: {sum(sizes) / 1e9:.1f} GB of corpus, of which at most "
            f"{_MOST_BYTES / 1e9:.1f} GB can be indexed",
            _SMALLER,
        )


def _check_memory(paths: Sequence[Path], sizes: Sequence[int], free_bytes: int | None) -> None:
    needed = sum(sizes) * _BUILDING_BYTES
    if free_bytes is not None and needed > free_bytes:
        raise UsageError(
            f"--corpus {_largest(paths, sizes)}: to index {sum(sizes) / 1e6:.1f} MB of corpus takes about "
            f"{needed / 2**30:.1f} GiB of memory, and {free_bytes / 2**30:.1f} GiB are free",
            _SMALLER,
        )


_SMALLER = "Name fewer or smaller files."


def _largest(paths: Sequence[Path], sizes: Sequence[int]) -> Path:
    return max(zip(sizes, paths, strict=True))[1]


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"--corpus {path}: cannot be read: {error.strerror}", "Name a text file you may read.")


def _key(paths: Sequence[Path], fingerprint: str) -> bytes:
    """A digest of the vocabulary and of every file's contents."""
    digests = [hashlib.sha256(fingerprint.encode()).digest()]
    for path in paths:
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while chunk := file.read(_PIECE):
                    digest.update(chunk)
        except OSError as error:
            raise _unreadable(path, error) from error
        digests.append(digest.digest())
    return hashlib.sha256(b"".join(digests)).digest()


def _tokens_of(path: Path, tokenize: Tokenize) -> TokenArray:
    """The token ids of one file, and the mark of its end."""
    hint = "A corpus is text in UTF-8; iconv converts other encodings."
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--corpus {path}: not UTF-8 (at byte {error.start})", hint) from error
    if "\0" in text:
        raise UsageError(f"--corpus {path}: a binary file (it has NUL bytes)", hint)
    pieces = [np.array(tokenize(piece), np.int32) for piece in _pieces(text)]
    return np.concatenate([*pieces, np.array([_END], np.int32)])


def _pieces(text: str) -> list[str]:
    """Cut a text at line ends, where it has them."""
    pieces = []
    start = 0
    while start < len(text):
        end = start + _PIECE
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end
        pieces.append(text[start:end])
        start = end
    return pieces


def _load(path: Path, key: bytes) -> tuple[memoryview, memoryview]:
    """Map a kept index into memory.

    Raises:
        OSError: There is none, or it cannot be read.
        ValueError: It is not what was written for this key.
    """
    with path.open("rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if len(content) < _HEADER.size:
        raise ValueError("it is cut short")
    magic, digest, n_tokens = _HEADER.unpack(content[: _HEADER.size])
    arrays = content[_HEADER.size :]
    if magic != _MAGIC:
        raise ValueError("it is not an index of this version")
    if len(arrays) != 2 * 4 * n_tokens:
        raise ValueError("it is cut short or has grown")
    if _digest(key, arrays) != digest:
        raise ValueError("it is damaged")
    numbers = arrays.cast("i")
    return numbers[:n_tokens], numbers[n_tokens:]


def _save(path: Path, key: bytes, tokens: TokenArray, suffixes: TokenArray) -> None:
    """Write an index; nobody loses one that is mapped."""
    arrays = (tokens.data.cast("B"), suffixes.data.cast("B"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as place, place.open("wb") as file:
        file.write(_HEADER.pack(_MAGIC, _digest(key, *arrays), len(tokens)))
        for array in arrays:
            file.write(array)


def _digest(key: bytes, *arrays: memoryview) -> bytes:
    digest = hashlib.sha256(key)
    for array in arrays:
        digest.update(array)
    return digest.digest()
