"""One sequence in a llama.cpp cache: decoding in pieces, cutting back, and what can go wrong."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import llama_cpp
import numpy as np
import pytest
from conftest import EXACT
from tiny_gguf import N_VOCAB

from specli.errors import SpecliError, UsageError
from specli.llama import context as context_module
from specli.llama import memory
from specli.llama.context import Context
from specli.llama.errors import DecodeError, LoadError
from specli.llama.model import Model
from specli.llama.options import ModelOptions

MakeContext = Callable[..., Context]
_WINDOW = 16
_TEXT = np.random.default_rng(5).integers(0, 256, 480).tolist()
_MORE = np.random.default_rng(6).integers(0, 256, 5).tolist()
_CLOSE = 5e-3  # width 1 rounds differently, which the layers multiply; logits are around 10
_KINDS = ["target", "sliding", "hybrid", "saved"]
"""The last is the hybrid one too, with its state saved and restored instead of snapshots."""


@pytest.fixture(scope="module")
def models(tiny: Path) -> Iterator[dict[str, Model]]:
    loaded = {kind: Model(tiny / f"{kind}.gguf") for kind in _KINDS[:3]}
    yield {**loaded, "saved": loaded["hybrid"]}
    for model in loaded.values():
        model.close()


@pytest.fixture
def make(models: dict[str, Model], monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeContext]:
    """Makes contexts and closes them after the test."""
    made: list[Context] = []

    def make(kind: str, n_outputs: int = 8, **options: object) -> Context:
        with monkeypatch.context() as patch:
            if kind == "saved":
                patch.setattr(context_module, "_SNAPSHOT_BYTES", 0)
            made.append(Context(models[kind], replace(EXACT, **options), n_outputs))
        return made[-1]

    yield make
    for context in made:
        context.close()


def cached(context: Context) -> int:
    """How many tokens llama.cpp itself says there are in the cache."""
    return llama_cpp.llama_memory_seq_pos_max(llama_cpp.llama_get_memory(context._context), 0) + 1


def logits(context: Context, tokens: list[int], n_logits: int) -> np.ndarray:
    """A copy of what ``decode`` returns, the cache looked at on the way."""
    before = list(context.tokens)
    rows = context.decode(tokens, n_logits).copy()
    assert context.tokens == before + tokens
    assert cached(context) == len(context.tokens)
    return rows


def cut(context: Context, n_tokens: int) -> int:
    """Truncate; return how many tokens are left, which llama.cpp must agree to."""
    before = list(context.tokens)
    context.truncate(n_tokens)
    left = len(context.tokens)
    assert left <= n_tokens or n_tokens > len(before)
    assert context.tokens == before[:left]
    assert cached(context) == left
    return left


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(("ubatch", "batch"), [(512, 512), (64, 64), (32, 64), (7, 7), (7, 9), (2, 8), (1, 8)])
def test_decoding_in_pieces_equals_one_go(make: MakeContext, kind: str, ubatch: int, batch: int) -> None:
    whole = logits(make(kind), _TEXT[:100], 6)
    pieces = logits(make(kind, ubatch_size=ubatch, batch_size=batch), _TEXT[:100], 6)
    np.testing.assert_allclose(pieces, whole, atol=_CLOSE)
    assert whole.shape == (6, N_VOCAB)


@pytest.mark.parametrize("kind", _KINDS)
def test_rows_are_those_of_the_last_tokens(make: MakeContext, kind: str) -> None:
    context = make(kind, ubatch_size=8)
    one_by_one = np.concatenate([logits(context, [token], 1) for token in _TEXT[:40]])
    cut(context, 0)
    np.testing.assert_allclose(logits(context, _TEXT[:40], 8), one_by_one[-8:], atol=_CLOSE)


def test_no_logits_wanted(make: MakeContext) -> None:
    assert logits(make("target"), _TEXT[:3], 0).shape == (0, N_VOCAB)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("kept", [99, 95, 93, 92, 90, 89, 50, 2, 0])
def test_decoding_after_a_cut_equals_a_fresh_decode(make: MakeContext, kind: str, kept: int) -> None:
    """Bit by bit, as no width is 1: a vector takes another path through llama.cpp than a matrix."""
    context = make(kind)
    context.decode(_TEXT[:90], 0)
    context.checkpoint()
    context.decode(_TEXT[90:100], 8)
    left = cut(context, kept)
    restored = 90 if kept >= 90 else 0
    assert left == {"hybrid": kept if kept > 92 else restored, "saved": restored}.get(kind, kept)

    fresh = make(kind)
    for one in (context, fresh):
        for end in (left, kept):
            if missing := _TEXT[len(one.tokens) : end]:
                one.decode(missing, 0)
    np.testing.assert_array_equal(logits(context, _MORE, 5), logits(fresh, _MORE, 5))


@pytest.mark.parametrize("kind", _KINDS)
def test_many_rounds_of_cuts_equal_a_fresh_decode(make: MakeContext, kind: str) -> None:
    """What the loop does: batches of different widths, each cut back by a different number of tokens."""
    rng = np.random.default_rng(9)
    context, text = make(kind, ubatch_size=16), _TEXT[:30]
    context.decode(text, 0)
    for _ in range(60):
        if missing := text[len(context.tokens) :]:
            context.decode(missing, 0)
        context.checkpoint()
        batch = rng.integers(0, 256, rng.integers(1, 9)).tolist()
        kept = int(rng.integers(1, len(batch) + 1))
        context.decode(batch, len(batch))
        text = text + batch[:kept]
        cut(context, len(text))
    if missing := text[len(context.tokens) :]:
        context.decode(missing, 0)
    fresh = make(kind)
    fresh.decode(text, 0)
    np.testing.assert_allclose(logits(context, _MORE, 5), logits(fresh, _MORE, 5), atol=_CLOSE)


def test_a_cut_beyond_the_sliding_window_clears_the_cache(make: MakeContext) -> None:
    context = make("sliding", ubatch_size=16)
    context.decode(_TEXT, 1)
    first = llama_cpp.llama_memory_seq_pos_min(llama_cpp.llama_get_memory(context._context), 0)
    assert first > _WINDOW, "the cache has forgotten nothing, so this tests nothing"
    assert cut(context, len(_TEXT) - 4) == len(_TEXT) - 4, "the window is still there"
    assert cut(context, first + _WINDOW) == first + _WINDOW, "just there"
    assert cut(context, first + _WINDOW - 2) == 0, "one token of the window is not"
    context.decode(_TEXT, 1)
    assert cut(context, 20) == 0
    fresh = make("sliding", ubatch_size=16)
    for one in (context, fresh):
        one.decode(_TEXT[:300], 0)
    np.testing.assert_array_equal(logits(context, _MORE, 5), logits(fresh, _MORE, 5))


def test_a_cut_at_the_edge_of_the_sliding_window_is_exact(make: MakeContext) -> None:
    context, fresh = make("sliding", ubatch_size=16), make("sliding", ubatch_size=16)
    context.decode(_TEXT, 1)
    kept = llama_cpp.llama_memory_seq_pos_min(llama_cpp.llama_get_memory(context._context), 0) + _WINDOW
    assert cut(context, kept) == kept
    fresh.decode(_TEXT[:kept], 0)
    np.testing.assert_allclose(logits(context, _MORE, 5), logits(fresh, _MORE, 5), atol=_CLOSE)


@pytest.mark.parametrize("name", ["target", "sliding", "hybrid"])
def test_what_was_saved_comes_back(make: MakeContext, name: str) -> None:
    context = make(name, ubatch_size=16)
    context.decode(_TEXT[:300], 0)
    saved = context.save()
    first = logits(context, _MORE, 5)
    for _ in range(2):
        context.restore(saved)
        assert context.tokens == _TEXT[:300]
        np.testing.assert_allclose(logits(context, _MORE, 5), first, atol=_CLOSE)
        context.checkpoint()
        context.decode(_TEXT[:100], 1)


def test_recurrent_state_without_a_checkpoint_goes_back_to_nothing(make: MakeContext) -> None:
    context, fresh = make("saved"), make("saved")
    context.decode(_TEXT[:20], 1)
    assert cut(context, 19) == 0
    np.testing.assert_array_equal(logits(context, _TEXT[:10], 5), logits(fresh, _TEXT[:10], 5))


def test_a_checkpoint_can_be_gone_back_to_more_than_once(make: MakeContext) -> None:
    context = make("saved")
    context.decode(_TEXT[:20], 0)
    context.checkpoint()
    first = logits(context, _MORE, 5)
    assert cut(context, 22) == 20
    logits(context, _TEXT[100:107], 1)
    assert cut(context, 20) == 20
    np.testing.assert_array_equal(logits(context, _MORE, 5), first)


def test_a_checkpoint_dies_with_the_tokens_it_was_of(make: MakeContext) -> None:
    context = make("saved")
    context.decode(_TEXT[:20], 0)
    context.checkpoint()
    assert cut(context, 5) == 0
    context.decode(_TEXT[100:130], 0)
    assert cut(context, 25) == 0, "the checkpoint was of another text"


def test_snapshots_go_back_once_and_not_past_the_last_decode(make: MakeContext) -> None:
    """llama.cpp would, and say that it did, and compute nonsense from there."""
    context = make("hybrid")
    context.decode(_TEXT[:20], 0)
    context.decode(_TEXT[20:25], 5)
    assert cut(context, 21) == 21, "all but the first of five"
    context.decode(_TEXT[21:25], 4)
    assert cut(context, 21) == 0, "all of four"
    context.decode(_TEXT[:20], 0)
    context.decode(_TEXT[20:25], 5)
    assert cut(context, 23) == 23
    assert cut(context, 22) == 0, "a second time"
    for token in _TEXT[:20]:
        context.decode([token], 1)
    assert cut(context, 19) == 0, "several decodes"


def test_snapshots_save_the_checkpoint(make: MakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    context = make("hybrid")
    context.decode(_TEXT[:20], 0)
    with monkeypatch.context() as patch:
        patch.setattr(Context, "_state", lambda self, parts: pytest.fail("saved all the same"))
        context.checkpoint(7)
    context.checkpoint(8)
    logits(context, _TEXT[20:29], 8)
    assert cut(context, 21) == 20, "eight tokens are more than there are snapshots"


def test_truncating_to_more_than_there_is_changes_nothing(make: MakeContext) -> None:
    context = make("target")
    context.decode(_TEXT[:10], 0)
    assert cut(context, 10) == cut(context, 400) == 10


_FAILURES = [
    pytest.param([-1], -1, id="negative id"),
    pytest.param([5, -1, 6], -1, id="negative id among others"),
    pytest.param([N_VOCAB], -1, id="id outside the vocabulary"),
    pytest.param(_TEXT[:251], 1, id="full cache"),
]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(("tokens", "code"), _FAILURES)
def test_decoding_goes_on_after_a_failure(make: MakeContext, kind: str, tokens: list[int], code: int) -> None:
    context, fresh = make(kind, ctx_size=256), make(kind, ctx_size=256)
    for one in (context, fresh):
        one.decode(_TEXT[:6], 1)
    with pytest.raises(DecodeError, match=f" {len(tokens)} tokens after 6 of a context of 256") as failure:
        context.decode(tokens, 1)
    assert failure.value.code == code
    assert cached(context) == len(context.tokens) == 6
    np.testing.assert_array_equal(logits(context, _MORE, 5), logits(fresh, _MORE, 5))


@pytest.mark.parametrize("kind", _KINDS)
def test_a_failure_keeps_the_pieces_before_it(make: MakeContext, kind: str) -> None:
    context, fresh = make(kind, ctx_size=256, ubatch_size=100), make(kind, ctx_size=256, ubatch_size=100)
    with pytest.raises(DecodeError) as failure:
        context.decode(_TEXT[:300], 1)
    assert failure.value.code == 1
    assert context.tokens == _TEXT[:200]
    assert cached(context) == 200
    fresh.decode(_TEXT[:200], 0)
    np.testing.assert_array_equal(logits(context, _MORE, 5), logits(fresh, _MORE, 5))


@pytest.mark.parametrize("kind", _KINDS)
def test_the_cache_can_be_filled_to_the_last_token(make: MakeContext, kind: str) -> None:
    context = make(kind, ctx_size=256)
    context.decode(_TEXT[:255], 0)
    logits(context, _TEXT[255:256], 1)
    with pytest.raises(DecodeError) as failure:
        context.decode([1], 1)
    assert failure.value.code == 1
    assert cached(context) == len(context.tokens) == 256


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_interruption_leaves_a_cache_that_can_be_used(
    make: MakeContext, kind: str, checkpoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_context: object) -> None:
        raise KeyboardInterrupt

    context, fresh = make(kind), make(kind)
    context.decode(_TEXT[:20], 0)
    if checkpoint:
        context.checkpoint()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(llama_cpp, "llama_synchronize", interrupt)
        context.decode(_TEXT[20:30], 1)
    assert context.tokens == _TEXT[:20]
    assert cut(context, 20) == (0 if kind in ("hybrid", "saved") and not checkpoint else 20)
    for one in (context, fresh):
        if missing := _TEXT[len(one.tokens) : 20]:
            one.decode(missing, 0)
    np.testing.assert_array_equal(logits(context, _MORE, 5), logits(fresh, _MORE, 5))


def test_more_logits_than_the_context_was_made_for_are_refused(make: MakeContext) -> None:
    context = make("target", n_outputs=3)
    assert logits(context, _TEXT[:3], 3).shape == (3, N_VOCAB)
    with pytest.raises(ValueError, match="4 rows of logits asked of a context made for 3"):
        context.decode(_TEXT[:4], 4)
    assert cached(context) == len(context.tokens) == 3


@pytest.mark.parametrize("kind", _KINDS)
def test_warming_up_leaves_nothing_behind(make: MakeContext, kind: str) -> None:
    warm, cold = make(kind), make(kind)
    warm.warm_up()
    assert cached(warm) == len(warm.tokens) == 0
    np.testing.assert_array_equal(logits(warm, _MORE, 5), logits(cold, _MORE, 5))


@pytest.mark.parametrize("kind", _KINDS)
def test_size_of_the_cache(make: MakeContext, kind: str) -> None:
    small, large = make(kind, ctx_size=256), make(kind, ctx_size=512)
    assert 0 < small.kv_bytes < large.kv_bytes
    assert (small.n_ctx, large.n_ctx) == (256, 512)


def test_size_of_the_cache_is_keys_and_values_of_every_layer(make: MakeContext) -> None:
    layers, kv_width, n_bytes = 2, 32, 4
    megabyte = 1024 * 1024
    expected = 2 * layers * kv_width * n_bytes * 512
    assert make("target").kv_bytes == pytest.approx(expected, abs=0.01 * megabyte)  # the log has two decimals


def test_options_say_what_llama_cpp_made_of_them(make: MakeContext) -> None:
    context = make("target", ctx_size=0, threads=None)
    assert context.options.ctx_size == context.n_ctx == 512, "what the model was trained with"
    assert context.options.threads
    assert context.options.threads_batch == context.options.threads
    assert make("target", ctx_size=100).n_ctx == 256, "llama.cpp pads a context to 256 tokens"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flash_attn": "off", "cache_type_v": "q8_0"}, "-ctv q8_0: a quantised V cache needs flash attention"),
        ({"cache_type_k": "q9_0"}, "-ctk: there is no KV cache type 'q9_0'"),
        ({"cache_type_v": "f64"}, "-ctv: there is no KV cache type 'f64'"),
        ({"flash_attn": "maybe"}, "-fa: 'maybe' is not one of on, off, auto"),
    ],
)
def test_options_that_cannot_be(make: MakeContext, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as failure:
        make("target", **options)
    assert message in str(failure.value)


@pytest.mark.parametrize("n_ctx", [10**12])
def test_a_context_that_no_memory_holds(make: MakeContext, n_ctx: int) -> None:
    with pytest.raises(LoadError, match=r"target\.gguf") as failure:
        make("target", ctx_size=n_ctx)
    assert "-c" in str(failure.value)


def test_a_failed_context_says_llama_cpp_s_reason(make: MakeContext) -> None:
    with pytest.raises(LoadError, match="q8_0") as failure:  # 16 values a head, blocks of 32
        make("target", flash_attn="on", cache_type_v="q8_0")
    assert "target.gguf" in str(failure.value)


@pytest.mark.parametrize(("name", "message"), [("missing.gguf", "no such file"), ("target.gguf", "not an adapter for")])
def test_adapters_that_are_none(tiny: Path, name: str, message: str) -> None:
    options = ModelOptions(lora=((tiny / name, 1.0),))
    with pytest.raises(SpecliError, match=message) as failure:
        Model(tiny / "target.gguf", options)
    assert name in str(failure.value)


def test_a_close_may_come_twice(tiny: Path) -> None:
    model = Model(tiny / "target.gguf")
    context = Context(model, EXACT)
    for thing in (context, context, model, model):
        thing.close()
    assert SimpleNamespace(context=context._context, model=model.handle) == SimpleNamespace(context=None, model=None)


@pytest.mark.parametrize("types", [("f32", "f32"), ("f16", "f16"), ("f32", "f16"), ("bf16", "f16")])
def test_the_least_a_cache_takes_is_what_llama_cpp_takes(make: MakeContext, types: tuple[str, str]) -> None:
    context = make("target", cache_type_k=types[0], cache_type_v=types[1], flash_attn="on")
    model = context.model
    estimate = memory.least_kv_cache_bytes(model.metadata, model.architecture, context.options, context.n_ctx)
    assert estimate == pytest.approx(context.kv_bytes, abs=0.006 * 2**20)  # llama.cpp tells hundredths of a MiB


@pytest.mark.parametrize("kind", ["sliding", "hybrid"])
def test_the_least_a_cache_takes_is_not_guessed(make: MakeContext, kind: str) -> None:
    context = make(kind)
    model = context.model
    assert memory.least_kv_cache_bytes(model.metadata, model.architecture, context.options, 10**9) == 0


def test_a_context_larger_than_memory_is_refused(make: MakeContext) -> None:
    if memory.free_bytes() is None:
        pytest.skip("the system does not say how much memory is free")
    with pytest.raises(LoadError, match="GiB are free"):
        make("target", ctx_size=2**31 - 1)
