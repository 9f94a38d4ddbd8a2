"""Text to tokens and back, and which draft vocabularies a target takes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_gguf import N_VOCAB, vocabulary, write_model

from specli.errors import SpecliError
from specli.llama.model import Model
from specli.llama.options import ModelOptions
from specli.llama.vocab import Vocab, VocabMismatch, shared_vocab

TOKENS, _, _ = vocabulary()
BOS, EOS, IM_START, IM_END = (TOKENS.index(f"<|{name}|>") for name in ("bos", "eos", "im_start", "im_end"))
PAD = TOKENS.index("[PAD0]")


def load_vocab(request: pytest.FixtureRequest, path: Path, *override_kv: str) -> Vocab:
    model = Model(path, ModelOptions(override_kv=override_kv, n_gpu_layers=0))
    request.addfinalizer(model.close)
    return model.vocab


@pytest.fixture
def make(request, tmp_path):
    """A function that loads the vocabulary of a new tiny model; with strings, metadata to override."""

    def make(*override_kv: str, **options) -> Vocab:
        return load_vocab(request, write_model(tmp_path / "model.gguf", layers=1, **options), *override_kv)

    return make


@pytest.fixture(scope="module")
def vocab(request, tiny) -> Vocab:
    return load_vocab(request, tiny / "target.gguf")


@pytest.fixture(scope="module")
def qwen_vocab(request, qwen_draft) -> Vocab:
    return load_vocab(request, qwen_draft)


@pytest.fixture(scope="module")
def smollm_vocab(request, smollm) -> Vocab:
    return load_vocab(request, smollm)


@pytest.fixture(scope="module")
def gemma_vocab(request, gemma) -> Vocab:
    return load_vocab(request, gemma)


# --- which drafts a target takes


@pytest.mark.parametrize("n_more", [0, 1, 128])
def test_sizes_may_differ_by_128(vocab, make, n_more):
    larger = make(n_vocab=N_VOCAB + n_more)
    assert larger.n_tokens == vocab.n_tokens + n_more
    assert shared_vocab(vocab, larger) == shared_vocab(larger, vocab) == N_VOCAB


def test_sizes_further_apart_are_refused(vocab, make):
    larger = make(n_vocab=N_VOCAB + 129)
    for target, draft in ((vocab, larger), (larger, vocab)):
        with pytest.raises(VocabMismatch, match=f"{draft.n_tokens} tokens against {target.n_tokens}.*128"):
            shared_vocab(target, draft)


def test_the_first_token_that_differs_is_named_in_both(vocab, make):
    draft = make(rename={100: "hundred", 101: "hundred and one"})
    with pytest.raises(VocabMismatch, match=r"token 100 is 'hundred' there and 'd' in the target") as caught:
        shared_vocab(vocab, draft)
    assert isinstance(caught.value, SpecliError)
    assert caught.value.hint
    with pytest.raises(VocabMismatch, match=r"token 100 is 'd' there and 'hundred' in the target"):
        shared_vocab(draft, vocab)


def test_control_and_unused_tokens_are_named_too(vocab, make):
    with pytest.raises(VocabMismatch, match=r"'<\|other\|>' there and '<\|im_start\|>'"):
        shared_vocab(vocab, make(rename={IM_START: "<|other|>"}))
    with pytest.raises(VocabMismatch, match=r"'\[FIM\]' there and '\[PAD0\]'"):
        shared_vocab(vocab, make(rename={PAD: "[FIM]"}))


def test_the_first_five_ids_may_differ(vocab, make):
    assert shared_vocab(vocab, make(rename={i: f"<{i}>" for i in range(5)})) == N_VOCAB
    with pytest.raises(VocabMismatch, match="token 5 is"):
        shared_vocab(vocab, make(rename={5: "<5>"}))


@pytest.mark.parametrize("name", ["bos", "eos"])
def test_bos_and_eos_count_where_they_are_added(make, name):
    key = f"tokenizer.ggml.{name}_token_id=int:"
    add = f"tokenizer.ggml.add_{name}_token=bool:true"
    plain, other = make(), make(f"{key}7")
    assert getattr(other, name) == 7
    assert shared_vocab(plain, other) == N_VOCAB
    adding, adding_other = make(add), make(add, f"{key}7")
    assert shared_vocab(adding, make(add)) == N_VOCAB
    with pytest.raises(VocabMismatch, match=rf"{name.upper()} token 7 \(added\), the target's is {BOS}|{EOS} \(added"):
        shared_vocab(adding, adding_other)
    with pytest.raises(VocabMismatch, match=rf"{name.upper()} token .*\(added\), the target's is .*\(not added\)"):
        shared_vocab(plain, adding)


def test_other_tokenizer_types_are_refused(vocab, make):
    other = make()
    other.type = vocab.type + 1
    with pytest.raises(VocabMismatch, match=f"tokenizer type {other.type}, the target's is {vocab.type}"):
        shared_vocab(vocab, other)


def test_qwen_pair(request, qwen_target, qwen_vocab):
    target = load_vocab(request, qwen_target)
    assert shared_vocab(target, qwen_vocab) == min(target.n_tokens, qwen_vocab.n_tokens) > 150_000


def test_qwen_refuses_smollm_and_gemma(qwen_vocab, smollm_vocab, gemma_vocab):
    with pytest.raises(VocabMismatch):
        shared_vocab(qwen_vocab, smollm_vocab)
    with pytest.raises(VocabMismatch, match="tokenizer type"):
        shared_vocab(qwen_vocab, gemma_vocab)


# --- text to tokens and back

TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(st.sampled_from("the rain\n\t  \0\x01\x1b\x7f\r{}'sé你好，世界🙂👩‍👧\u200d\ufeff\U0001f1e9"), max_size=60),
    st.text(st.characters(categories=["Cc", "Cf", "So", "Lo", "Mn", "Zs"]), max_size=60),
    st.sampled_from(["", "<|im_end|>", "<|endoftext|> <|bos|>", "a" * 300, "\0", "don't 12345 ١٢٣"]),
)


def joined(vocab: Vocab, text: str, **options: bool) -> bytes:
    options = {"add_special": False, "parse_special": False} | options
    return b"".join(vocab.piece(token) for token in vocab.tokenize(text, **options))


@pytest.mark.parametrize("name", ["vocab", "qwen_vocab", "smollm_vocab"])
def test_pieces_joined_are_the_text(request, name):
    """All of it, but for bytes that SmolLM2's vocabulary has no token for (such as the first of plane 4's)."""
    vocab = request.getfixturevalue(name)
    pieces = {vocab.piece(token) for token in range(vocab.n_tokens)}
    absent = {byte for byte in range(256) if bytes([byte]) not in pieces}
    in_utf8 = {*range(0xC0), *range(0xC2, 0xF5)}
    assert not absent & in_utf8 or name == "smollm_vocab"
    assert not absent & {*"the rain\n\t你好🙂é".encode()}

    @given(TEXTS)
    @settings(max_examples=300, deadline=None)
    def check(text: str) -> None:
        assert joined(vocab, text) == bytes(byte for byte in text.encode() if byte not in absent)

    check()


def test_unpaired_surrogates_do_not_stop_it(vocab):
    assert joined(vocab, "a\ud800b") == b"a?b"


def test_special_tokens_are_read_only_when_asked(vocab):
    text = "<|im_start|>a<|im_end|>"
    assert vocab.tokenize(text, add_special=False, parse_special=True) == [IM_START, ord("a"), IM_END]
    plain = vocab.tokenize(text, add_special=False, parse_special=False)
    assert not {IM_START, IM_END} & set(plain)
    assert joined(vocab, text, parse_special=True) == b"a"


def test_bos_and_eos_are_added_where_the_model_wants_them(vocab, make):
    assert vocab.tokenize("a", add_special=True, parse_special=False) == [ord("a")]
    adding = make("tokenizer.ggml.add_bos_token=bool:true", "tokenizer.ggml.add_eos_token=bool:true")
    assert adding.tokenize("a", add_special=True, parse_special=False) == [BOS, ord("a"), EOS]
    assert adding.tokenize("a", add_special=False, parse_special=False) == [ord("a")]


def test_chat_does_not_double_bos(vocab, make):
    adding = make("tokenizer.ggml.add_bos_token=bool:true")
    assert adding.tokenize_chat("<|bos|>a") == adding.tokenize_chat("a") == [BOS, ord("a")]
    assert adding.tokenize_chat("<|bos|><|bos|>a") == [BOS, BOS, ord("a")], "only the BOS that was added goes"
    assert vocab.tokenize_chat("<|bos|>a") == [BOS, ord("a")]
    assert vocab.tokenize_chat("a") == [ord("a")]


def test_gemma_chat_has_one_bos(gemma_vocab):
    assert gemma_vocab.add_bos
    with_bos = gemma_vocab.tokenize_chat("<bos><start_of_turn>user\nHello<end_of_turn>\n")
    without = gemma_vocab.tokenize_chat("<start_of_turn>user\nHello<end_of_turn>\n")
    assert with_bos == without
    assert with_bos.count(gemma_vocab.bos) == 1 and with_bos[0] == gemma_vocab.bos


def test_pieces_and_names(vocab):
    assert [vocab.piece(token) for token in (0, ord("a"), 0x80, 0xFF)] == [b"\0", b"a", b"\x80", b"\xff"]
    assert vocab.piece(IM_END) == b""
    assert vocab.text(IM_END) == "<|im_end|>"
    assert vocab.raw_text(-1) == b""


def test_what_tells_reasoning_from_answer_is_shown(make):
    vocab = make(rename={IM_START: "[THINK]"})
    assert vocab.piece(IM_START) == b"[THINK]"


def test_long_pieces(make):
    """A token longer than the buffer that suffices for most."""
    long = "x" * 500
    vocab = make(rename={200: long})
    assert vocab.piece(200) == long.encode()


def eog(vocab: Vocab) -> Iterator[str]:
    return (vocab.text(token) for token in vocab.eog_tokens)


def test_end_of_generation(vocab):
    assert set(eog(vocab)) == {"<|eos|>", "<|im_end|>"}
    assert [token for token in range(vocab.n_tokens) if vocab.is_eog(token)] == list(vocab.eog_tokens) == [EOS, IM_END]


def test_end_of_generation_in_qwen(qwen_vocab):
    assert {"<|im_end|>", "<|endoftext|>"} <= set(eog(qwen_vocab))
    assert qwen_vocab.eos in qwen_vocab.eog_tokens
    assert all(qwen_vocab.is_eog(token) for token in qwen_vocab.eog_tokens)
    assert not qwen_vocab.is_eog(0)


def test_no_suppressed_tokens(vocab):
    assert vocab.suppressed_tokens == ()
