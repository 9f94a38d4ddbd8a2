"""Where two texts part, and whether batch width alone explains it."""

import numpy as np
import pytest
from conftest import EXACT
from exact import Table, TableDecoder
from hypothesis import given
from hypothesis import strategies as st

from specli.decoding.comparison import GapReport, decode_speedup, first_difference, logit_gap, speedup
from specli.decoding.stats import Stats
from specli.llama.context import Context
from specli.llama.model import Model

TOKENS = st.lists(st.integers(0, 3), max_size=12)
CONTEXT = list(b"the rain in the other one then")


class Widths(TableDecoder):
    """A table whose logit of token 0 grows by ``error`` for every token of the batch beyond the first."""

    def __init__(self, error: float, n_ctx: int = 64, forgetful: bool = False) -> None:
        super().__init__(Table(4, seed=6), n_ctx, forgetful)
        self.error = error
        self.widths: list[int] = []

    def decode(self, tokens, n_logits):
        rows = super().decode(tokens, n_logits)
        if n_logits:
            self.widths.append(len(tokens))
            rows[:, 0] += self.error * (len(tokens) - 1)
        return rows


# --- first_difference


@given(TOKENS, TOKENS)
def test_first_difference(a, b):
    index = first_difference(a, b)
    assert (index is None) == (a == b)
    assert index == first_difference(b, a)
    if index is not None:
        assert a[:index] == b[:index]
        assert a[index : index + 1] != b[index : index + 1]


@given(TOKENS, TOKENS)
def test_first_difference_where_one_ends(a, b):
    assert first_difference(a, a + b) == (len(a) if b else None)


# --- logit_gap


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.integers(0, 3), st.integers(0, 3))
def test_no_spread_where_width_does_not_matter(context, a, b):
    decoder = TableDecoder(Table(4, seed=6))
    logits = decoder.table.logits(tuple(context))
    report = logit_gap(decoder, context, a, b, len(context))
    assert report == GapReport(logits[a] - logits[b], 0.0)
    assert report.numerics == (a == b)


@pytest.mark.parametrize("error", [0.25, -0.25])
def test_spread_where_width_matters(error):
    """Widths up to 9 were looked at, the gap is that of width 1."""
    decoder = Widths(error)
    context = [0, 1, 2, 3] * 5
    logits = decoder.table.logits(tuple(context))
    report = logit_gap(decoder, context, 0, 1, 20)
    assert report.gap == logits[0] - logits[1]
    assert report.spread == pytest.approx(2.0)
    assert decoder.widths == [1, 2, 3, 5, 9]
    decoder.truncate(0)
    assert logit_gap(decoder, context, 2, 3, 20).spread == 0.0


class Traces(TableDecoder):
    """A table whose logit of token 0 grows by 1 for every token of the cache that was decoded alone."""

    def __init__(self) -> None:
        super().__init__(Table(4, seed=6), n_ctx=64)
        self.alone: list[bool] = []

    def decode(self, tokens, n_logits):
        rows = super().decode(tokens, n_logits)
        self.alone[len(self.tokens) - len(tokens) :] = [len(tokens) == 1] * len(tokens)
        rows[:, 0] += sum(self.alone)
        return rows


@pytest.mark.parametrize("n_alone", [9, 18, 45])
def test_spread_that_earlier_batches_left_in_the_cache(n_alone):
    assert logit_gap(Traces(), [0, 1, 2, 3] * 12, 0, 1, n_alone).spread == pytest.approx(n_alone)


def test_plain_decoding_is_what_the_gap_is_of():
    """The prompt is read in one batch, then each token alone: the gap is the one that plain decoding saw."""
    prompt, text = [0, 1, 2, 3] * 4, [2, 2, 1, 0, 3]
    plain = Traces()
    plain.decode(prompt[:-1], 0)
    for token in [prompt[-1], *text]:
        row = plain.decode([token], 1)[0]
    gap = row[0] - row[1]
    assert logit_gap(Traces(), [*prompt, *text], 0, 1, len(text) + 1).gap == gap


def test_a_short_end_has_fewer_widths():
    decoder = Widths(0.25)
    assert logit_gap(decoder, [3], 0, 1, 1).spread == 0.0
    decoder.truncate(0)
    assert logit_gap(decoder, [0, 0, 3, 1, 2], 0, 1, 3).spread == pytest.approx(0.5)
    assert decoder.widths == [1, 1, 2, 3]


@pytest.mark.parametrize(
    "gap, spread, numerics", [(0.5, 0.4, False), (-0.5, 0.4, False), (-0.3, 0.4, True), (0, 0, True)]
)
def test_numerics(gap, spread, numerics):
    assert GapReport(gap, spread).numerics is numerics


@given(context=st.lists(st.integers(0, 3), min_size=1, max_size=20), before=TOKENS, forgetful=st.booleans())
def test_whatever_the_cache_holds(context, before, forgetful):
    """The same report from any cache; afterwards it holds the context."""
    decoder = TableDecoder(Table(4, seed=6), forgetful=forgetful)
    fresh = logit_gap(decoder, context, 0, 1, len(context))
    for held in (before, context[:-1], context, [*context, *before]):
        decoder = TableDecoder(Table(4, seed=6), forgetful=forgetful)
        if held:
            decoder.decode(held, 0)
        assert logit_gap(decoder, context, 0, 1, len(context)) == fresh
        assert decoder.tokens == context


def test_the_common_prefix_is_not_decoded_again():
    class Counting(TableDecoder):
        n_decoded = 0

        def decode(self, tokens, n_logits):
            self.n_decoded += len(tokens)
            return super().decode(tokens, n_logits)

    context = [0, 1, 2, 3] * 50
    decoder = Counting(Table(4, seed=6), n_ctx=300)
    decoder.decode([*context[:190], 0, 0], 0)
    decoder.n_decoded = 0
    logit_gap(decoder, context, 0, 1, 12)
    assert decoder.n_decoded == 5 * 12


def test_a_real_model(tiny):
    """The gap is the difference of logits, and with the exact numerics there is hardly a spread."""
    model = Model(tiny / "target.gguf")
    context = Context(model, EXACT, n_outputs=1)
    try:
        row = context.decode(CONTEXT, 1)[0].copy()
        order = np.argsort(row)
        for a, b in ((order[-1], order[-2]), (order[0], order[-1]), (65, 66)):
            report = logit_gap(context, CONTEXT, int(a), int(b), 12)
            assert report.gap == pytest.approx(float(row[a]) - float(row[b]), abs=1e-4)
            assert 0.0 <= report.spread < 1e-4
            assert not report.numerics
        assert logit_gap(context, CONTEXT, 65, 65, 12).numerics
    finally:
        context.close()
        model.close()


# --- speedups


def stats(tokens: int, **seconds: float) -> Stats:
    return Stats(tokens=tokens, rounds=1, **seconds)


def test_speedup_counts_both_prefills():
    mine = stats(100, prefill_seconds=1.0, draft_prefill_seconds=1.0, decode_seconds=3.0)
    plain = stats(50, prefill_seconds=1.0, decode_seconds=4.0)
    assert speedup(mine, plain) == pytest.approx((100 / 5) / (50 / 5))
    assert decode_speedup(mine, plain) == pytest.approx((100 / 3) / (50 / 4))
    assert speedup(plain, plain) == decode_speedup(plain, plain) == 1.0


def test_no_speedup_of_nothing():
    some = stats(5, decode_seconds=1.0)
    for a, b in ((Stats(), some), (some, Stats()), (Stats(), Stats())):
        assert speedup(a, b) is None
        assert decode_speedup(a, b) is None
