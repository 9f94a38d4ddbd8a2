"""What of a text is shown when, and where it ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specli.decoding.ending import EOG, LENGTH, STOP, Ending

IS_EOG = 0  # token 0 ends generation; token i > 0 stands for the i-th piece

texts = st.text(alphabet=st.sampled_from("ab c\n<|>é中文字😀👩‍🔬́"), max_size=30)
stops = st.lists(st.text(alphabet="ab<|中😀", min_size=1, max_size=4), max_size=3)


@st.composite
def split_texts(draw, texts=texts):
    """A text and its bytes cut into pieces anywhere, characters included."""
    text = draw(texts)
    data = text.encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=20)))
    return text, [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def follow(pieces, **options):
    """Push the pieces until the text ends; return what each showed, and the reason."""
    ending = Ending(lambda token: pieces[token - 1], lambda token: token == IS_EOG, **options)
    shown = []
    for token in range(1, len(pieces) + 1):
        text, reason = ending.push(token)
        shown.append(text)
        if reason:
            return shown, reason
    shown.append(ending.flush())
    return shown, None


def where_it_ends(pieces, stop):
    """By definition: the first token with which the text holds a stop string, and the text before the earliest."""
    data = b""
    for n, piece in enumerate(pieces, start=1):
        data += piece
        text = data.decode(errors="ignore")
        if places := [text.find(string) for string in stop if string in text]:
            return text[: min(places)], STOP, n
    return text, None, len(pieces)


@given(split_texts())
def test_any_split_shows_the_same_text(split):
    text, pieces = split
    shown, reason = follow(pieces)
    assert "".join(shown) == text
    assert reason is None


@given(split_texts())
def test_every_whole_character_is_shown_at_once(split):
    """Without stop strings nothing waits but the bytes of a character begun."""
    _, pieces = split
    shown, _ = follow(pieces)
    for n in range(len(pieces)):
        assert "".join(shown[: n + 1]) == b"".join(pieces[: n + 1]).decode(errors="ignore")


@settings(max_examples=500)
@given(split_texts(), stops)
def test_stop_strings(split, stop):
    _, pieces = split
    shown, reason = follow(pieces, stop=stop)
    text, expected_reason, n_tokens = where_it_ends(pieces, stop)
    assert ("".join(shown), reason) == (text, expected_reason)
    if reason:
        assert len(shown) == n_tokens
    assert not any(string in "".join(shown) for string in stop)


@given(split_texts(), st.text(alphabet="ab<|中😀", min_size=1, max_size=4))
def test_one_stop_string_ends_every_split_at_the_same_place(split, stop):
    text, pieces = split
    shown, reason = follow(pieces, stop=[stop])
    assert "".join(shown) == text.split(stop)[0]
    assert (reason == STOP) == (stop in text)


@given(split_texts(), stops)
def test_nothing_shown_is_taken_back(split, stop):
    """What is shown early is never part of a stop string that ends the text later."""
    _, pieces = split
    shown, _ = follow(pieces, stop=stop)
    text, _, _ = where_it_ends(pieces, stop)
    so_far = ""
    for piece in shown:
        so_far += piece
        assert text.startswith(so_far)


@given(split_texts(), stops)
def test_no_more_is_held_back_than_might_be_a_stop_string(split, stop):
    _, pieces = split
    shown, _ = follow(pieces, stop=stop)
    for n in range(len(shown) - 1):
        text = b"".join(pieces[: n + 1]).decode(errors="ignore")
        held = text[len("".join(shown[: n + 1])) :]
        assert not held or any(string.startswith(held) for string in stop)


@pytest.mark.parametrize("text", ["naïve café", "你好，世界", "👩‍🔬 and 👍🏽", "Ω≈ç√∫", "mixed 中😀a"])
def test_characters_split_into_bytes_never_break(text):
    shown, _ = follow([bytes([byte]) for byte in text.encode()])
    assert "".join(shown) == text
    assert all("�" not in piece for piece in shown)


def test_invalid_bytes_are_shown_as_such():
    shown, _ = follow([b"a", b"\xff", b"b\xe4", b"c"])
    assert "".join(shown) == "a�b�c"


def test_a_character_the_end_cuts_is_dropped():
    shown, reason = follow([b"ab", "中".encode()[:2]], n_predict=2)
    assert ("".join(shown), reason) == ("ab", LENGTH)


@given(split_texts(), stops, st.integers(1, 25))
def test_length(split, stop, n_predict):
    _, pieces = split
    shown, reason = follow(pieces, stop=stop, n_predict=n_predict)
    text, expected_reason, n_tokens = where_it_ends(pieces[:n_predict], stop)
    if expected_reason is None and len(pieces) >= n_predict:
        expected_reason = LENGTH
    assert ("".join(shown), reason) == (text, expected_reason)
    assert reason is None or len(shown) == n_tokens


def test_how_many_tokens_remain():
    ending = Ending(lambda _: b"a", lambda _: False, n_predict=3)
    remaining = [ending.remaining]
    for _ in range(3):
        ending.push(1)
        remaining.append(ending.remaining)
    assert remaining == [3, 2, 1, 0]
    unlimited = Ending(lambda _: b"a", lambda _: False)
    unlimited.push(1)
    assert unlimited.remaining is None


def test_end_of_generation():
    pieces = {IS_EOG: b"</s>", 1: b"a", 2: b"st"}
    ending = Ending(pieces.__getitem__, lambda token: token == IS_EOG, n_predict=3, stop=["stop"])
    assert ending.push(1) == ("a", None)
    assert ending.push(2) == ("", None)
    assert ending.push(IS_EOG) == ("st", EOG), "it shows what was held back, not itself, and goes before the length"


def test_end_of_generation_ignored():
    ending = Ending({IS_EOG: b"", 1: b"a"}.__getitem__, lambda token: token == IS_EOG, ignore_eos=True)
    assert not ending.is_eog(IS_EOG)
    assert ending.push(IS_EOG) == ("", None)
    assert ending.push(1) == ("a", None)


def test_a_stop_string_goes_before_the_length():
    shown, reason = follow([b"x<", b">y"], stop=["<>"], n_predict=2)
    assert (shown, reason) == (["x", ""], STOP)
