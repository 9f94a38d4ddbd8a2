"""The proof passes where nothing is wrong, and names what is where something is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import EXACT
from test_draft_modules import KINDS, files, make_pair  # noqa: F401 (fixtures)

from specli.decoding import loop
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.drafters.model import ModelDrafter
from specli.llama.context import Context
from specli.llama.model import Model
from specli.proof.faults import Kind
from specli.proof.prove import Effort, prove
from specli.sampling import draws, verification
from specli.sampling.distribution import Distribution
from specli.sampling.draws import Purpose, SeededDraws
from specli.sampling.transforms import Transforms
from specli.sampling.verification import Verdict

EFFORT = Effort(n_prompts=2, n_tokens=16, n_tables=2, n_seeded=300, least_real=30, seconds_real=0.3)
PROMPTS = ["the rain in the north", "an hour on the shore"]
CONTEXT = replace(EXACT, ctx_size=512, threads=1)


@pytest.fixture(scope="module")
def pair(tiny: Path) -> Iterator[Pair]:
    """A draft that is its target with some noise."""
    target, draft = Model(tiny / "target.gguf"), Model(tiny / "draft.gguf")
    made = Pair(target, draft, CONTEXT, CONTEXT, n_max=8)
    yield made
    made.close()
    draft.close()
    target.close()


def tokens_of(pair: Pair) -> list[list[int]]:
    return [pair.target.model.vocab.tokenize(text, add_special=True, parse_special=False) for text in PROMPTS]


def kinds(pair: Pair, **options: object) -> set[Kind]:
    proof = prove(pair, tokens_of(pair), GenerationOptions(**options), EFFORT)
    for kind, fault in proof.faults.first.items():
        print(f"{kind.name} ×{proof.faults.counts[kind]}: {fault.where}: {fault.detail}")
    return set(proof.faults.first)


def test_a_pair_passes(pair):
    proof = prove(pair, tokens_of(pair), GenerationOptions(n_max=4, drafters=("suffix", "model")), EFFORT)
    assert not proof.faults, proof.faults.first
    assert proof.is_lossless
    assert proof.greedy.n_texts == 4
    assert max(proof.laws.values()) < 1e-6
    assert all(fit.n_runs == EFFORT.n_seeded and 0.0 < fit.visible_bias < 0.5 for fit in proof.seeded.values())
    assert proof.plumbing.n_draft_rows > 20
    assert proof.plumbing.n_decisions > 100
    assert min(proof.plumbing.drafted_by.values()) > 5, proof.plumbing.drafted_by


@pytest.mark.parametrize("name", ["sliding", "hybrid", pytest.param("mamba", marks=pytest.mark.long)])
def test_other_memories_pass(tiny, name):
    target, draft = Model(tiny / f"{name}.gguf"), Model(tiny / f"{name}-draft.gguf")
    made = Pair(target, draft, CONTEXT, CONTEXT, n_max=8)
    assert kinds(made) == set()
    made.close()
    draft.close()
    target.close()


QUICK = ("mtp", "eagle3", "dspark-sure")


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]
)
def test_trained_drafts_pass(make_pair, kind):  # noqa: F811
    made = make_pair(kind)
    proof = prove(made, tokens_of(made), GenerationOptions(), EFFORT)
    assert not proof.faults, proof.faults.first
    assert proof.plumbing.drafted_by[KINDS[kind].drafter] > 20


# Seeded faults. Each is a change of the loop's own code, and must be named.

RATIO, RESIDUAL, BONUS, DRAW = (
    verification._ratio,
    verification._residual,
    verification._draw_bonus,
    verification._draw_residual,
)


def before_temperature(monkeypatch):
    """min(1, p/q) of the distributions before the temperature."""

    def ratio(p: Distribution, q: Distribution, token: int) -> float:
        plain_p, plain_q = (replace(one, weights=one.weights.astype(np.float64) ** 1.5) for one in (p, q))
        return RATIO(plain_p, plain_q, token)

    monkeypatch.setattr(verification, "_ratio", ratio)


def residual_not_renormalised(monkeypatch):
    """What is missing to 1 falls to the last token."""

    def draw(residual: Distribution, p: Distribution, draws: object, position: int, offset: int) -> int:
        weights = residual.weights.astype(np.float64).copy()
        weights[-1] += max(0.0, 1.0 - weights.sum())
        return DRAW(Distribution(residual.ids, weights), p, draws, position, offset)

    monkeypatch.setattr(verification, "_draw_residual", draw)


def bonus_from_the_wrong_row(monkeypatch):
    def wrong_row(verify):
        def verified(tokens, q, target, draws, position):
            return verify(tokens, q, lambda i: target(max(0, i - 1) if i == len(tokens) else i), draws, position)

        return verified

    for name in ("token", "block"):
        monkeypatch.setitem(verification.VERIFICATIONS, name, wrong_row(verification.VERIFICATIONS[name]))


def rolled_back_one_too_few(monkeypatch):
    """In llama.cpp's cache alone: the tokens that specli counts are right."""
    remove = Context._remove_tail

    def keep_one(self, n_tokens):
        return remove(self, n_tokens + 1)

    decode = Context._decode_piece

    def after_what_is_left(self, tokens, n_logits):
        start = self._positions
        import llama_cpp

        n_cached = llama_cpp.llama_memory_seq_pos_max(self._memory, 0) + 1
        shift = n_cached - len(self.tokens)
        if shift > 0:
            self._positions = start + shift
        try:
            decode(self, tokens, n_logits)
        finally:
            self._positions = start

    monkeypatch.setattr(Context, "_remove_tail", keep_one)
    monkeypatch.setattr(Context, "_decode_piece", after_what_is_left)


def rolled_back_one_too_few_in_the_loop(monkeypatch):
    generate = loop.generate

    class TooFew:
        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def truncate(self, n_tokens):
            self._inner.truncate(n_tokens + 1)

    def patched(target, *arguments, **options):
        return generate(TooFew(target), *arguments, **options)

    from specli.proof import arithmetic, audited

    for module in (arithmetic, audited):
        monkeypatch.setattr(module, "generate", patched)


def penalties_that_see_rejected_tokens(monkeypatch):
    distributions = loop._target_distributions
    seen: list[int] = []
    lengths = [0]

    def with_rejected(sampler, rows, context, draft):
        if len(context) <= lengths[-1]:  # another text
            seen.clear()
        lengths.append(len(context))
        result = distributions(sampler, rows, [*seen, *context], draft)
        seen[:] = [*seen[-8:], *draft.tokens]
        return result

    monkeypatch.setattr(loop, "_target_distributions", with_rejected)


def weights_not_clipped(monkeypatch):
    """Block verification whose running product may rise above 1."""
    source = verification.verify_block

    def unclipped(tokens, q, target, draws, position):
        if len(tokens) < 2:
            return source(tokens, q, target, draws, position)
        weights = [1.0]
        for i, (token, one) in enumerate(zip(tokens, q, strict=True)):
            weights.append(weights[-1] * RATIO(target(i), one, token))
        if draws.accept(min(1.0, weights[-1]), position, len(tokens) - 1):
            return Verdict(len(tokens), BONUS(target(len(tokens)), draws, position, len(tokens)))
        for i in range(len(tokens) - 1, 0, -1):
            residual = RESIDUAL(weights[i], target(i), q[i])
            excess = residual.total / q[i].total
            denominator = excess + 1.0 - min(1.0, weights[i])
            if draws.accept(min(1.0, excess / denominator if denominator > 0 else 0.0), position, i - 1):
                return Verdict(i, DRAW(residual, target(i), draws, position, i))
        return Verdict(0, DRAW(RESIDUAL(1.0, target(0), q[0]), target(0), draws, position, 0))

    monkeypatch.setitem(verification.VERIFICATIONS, "block", unclipped)


def draft_fed_late(monkeypatch):
    """Each draft token comes of the context before the one it should follow."""
    unread = ModelDrafter._unread

    def late(self, context):
        tokens = unread(self, context)
        return [context[-2], *tokens[1:]] if len(tokens) == 1 and len(context) > 1 else [*tokens[:-1], tokens[-2]]

    monkeypatch.setattr(ModelDrafter, "_unread", late)


def unlikely_tokens_dropped(monkeypatch):
    propose = ModelDrafter.propose

    def dropping(self, context, sampler, draw, rule):
        draft = propose(self, context, sampler, draw, rule)
        chances = [q.probability(token) for token, q in zip(draft.tokens, draft.distributions, strict=True)]
        kept = next((i for i, chance in enumerate(chances) if chance < 0.5), len(chances))
        del draft.tokens[kept:], draft.distributions[kept:]
        return draft

    monkeypatch.setattr(ModelDrafter, "propose", dropping)


def logits_read_late(monkeypatch):
    """The draft's distributions are views of the buffer that the next decode overwrites."""

    def in_place(self, logits, history):
        adjusted = self._adjusted(logits, history)
        return Distribution(None, self._exponentials(adjusted))

    monkeypatch.setattr(Transforms, "_all", in_place)


def one_number_for_all(monkeypatch):
    """The generator makes one number of a seed."""
    key = SeededDraws._key

    def short(self, purpose, position, offset):
        return key(self, Purpose.ACCEPT, 0, 0)

    monkeypatch.setattr(draws.SeededDraws, "_key", short)


def one_number_for_a_round(monkeypatch):
    """All acceptance tests of a round ask for the same number."""

    def same(verify):
        class Shared:
            def __init__(self, inner):
                self._inner = inner

            def accept(self, probability, position, offset):
                return self._inner.accept(probability, position, 0)

            def __getattr__(self, name):
                return getattr(self._inner, name)

        def verified(tokens, q, target, draws, position):
            return verify(tokens, q, target, Shared(draws), position)

        return verified

    for name in ("token", "block"):
        monkeypatch.setitem(verification.VERIFICATIONS, name, same(verification.VERIFICATIONS[name]))


@pytest.mark.parametrize(
    "fault, kind",
    [
        (before_temperature, Kind.ACCEPTANCE),
        (residual_not_renormalised, Kind.RESIDUAL),
        (bonus_from_the_wrong_row, Kind.BONUS),
        (rolled_back_one_too_few, Kind.CACHE),
        (rolled_back_one_too_few_in_the_loop, Kind.CACHE),
        (penalties_that_see_rejected_tokens, Kind.PENALTIES),
        (weights_not_clipped, Kind.ACCEPTANCE),
        (draft_fed_late, Kind.DRAFT_INPUT),
        (unlikely_tokens_dropped, Kind.DROPPED),
        (logits_read_late, Kind.OVERWRITTEN),
        (one_number_for_all, Kind.RANDOMNESS),
        (one_number_for_a_round, Kind.RANDOMNESS),
    ],
)
def test_a_seeded_fault_is_named(pair, monkeypatch, fault, kind):
    fault(monkeypatch)
    pair.target.truncate(0)
    pair.draft.truncate(0)
    found = kinds(pair, n_max=4, drafters=("model",))
    assert kind in found
    if kind is Kind.DRAFT_INPUT:
        assert found == {kind}, "lossless all the same"
