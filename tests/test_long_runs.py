"""Long runs: no growth of memory, contexts filled to the last token, and hours' worth of rounds."""

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import EXACT
from exact import ExactSampler, Table, TableDecoder
from test_draft_modules import KINDS, files, make_pair  # noqa: F401 (fixtures)
from tiny_gguf import write_model

from specli.decoding.calibration import Calibration
from specli.decoding.costs import CostCurve, Costs
from specli.decoding.ending import Ending
from specli.decoding.loop import Speculation, generate, prefill
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.decoding.policy import AutoPolicy
from specli.drafters.lookup import LookupDrafter
from specli.drafters.model import ModelDrafter
from specli.drafters.ngram import NGRAM_DRAFTERS, NgramOptions
from specli.drafters.suffix import SuffixIndex
from specli.llama.model import Model
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import SamplingOptions
from specli.sampling.verification import verify_block

GREEDY = SamplingOptions(temperature=0.0)
MIB = 1 << 20


def resident() -> int:
    """Bytes of memory this process takes just now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.fixture(scope="module")
def long_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("long")
    target = Model(write_model(folder / "target.gguf", n_ctx=1 << 15))
    draft = Model(write_model(folder / "draft.gguf", n_ctx=1 << 15, noise=0.05))
    options = replace(EXACT, ctx_size=21_000, ubatch_size=32)  # what it computes with grows with that and the cache
    pair = Pair(target, draft, options, options, n_max=8)
    yield pair
    pair.close()
    draft.close()
    target.close()


@pytest.mark.long
def test_20_000_tokens_take_no_more_memory(long_pair):
    """Both caches are there from the start; a token leaves a few hundred bytes in the suffix drafter's index."""
    options = GenerationOptions(
        n_max=4, drafters=("suffix", "model"), n_predict=20_000, ignore_eos=True, sampling=SamplingOptions(1.0)
    )
    generation = long_pair.generate([5, 6, 7], options)
    settled = 0
    for _ in generation:
        if not settled and generation.stats.tokens >= 4_000:
            settled = resident()
    grown = resident() - settled
    print(f"\n{generation.stats.tokens} tokens in {generation.stats.rounds} rounds, {grown / MIB:.1f} MiB more")
    assert generation.stats.tokens == 20_000
    assert grown < 40 * MIB


SHORT = NgramOptions(2, 4, 1, 2, 4, 1, 2, 4, 1, 2, 1, 4)
LOOKUPS = ("suffix", *NGRAM_DRAFTERS)


@pytest.mark.parametrize("n_max", [1, 5])
@pytest.mark.parametrize("name", [*LOOKUPS, "model"])
def test_a_context_filled_to_the_last_token(tiny, name, n_max):
    target, draft = Model(tiny / "target.gguf"), Model(tiny / "draft.gguf")
    options = replace(EXACT, ctx_size=256)
    pair = Pair(target, draft, options, options, n_max=8)
    if name in NGRAM_DRAFTERS:
        pair.add_lookup(name, NGRAM_DRAFTERS[name](SHORT))
    check_filled(pair, name, n_max)
    pair.close()
    draft.close()
    target.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_filled_to_the_last_token_by_trained_drafts(make_pair, kind):  # noqa: F811
    pair = make_pair(kind)
    check_filled(pair, KINDS[kind].drafter, 3)


def check_filled(pair: Pair, name: str, n_max: int) -> None:
    prompt = [7, 8, 9] * 6
    texts = []
    for options in (
        GenerationOptions(GREEDY, n_max=0, ignore_eos=True),
        GenerationOptions(GREEDY, n_max=n_max, drafters=(name,), ignore_eos=True),
    ):
        pair.target.truncate(0)
        generation = pair.generate(prompt, options)
        for _ in generation:
            pass
        assert generation.stop_reason == "context"
        assert len(prompt) + len(generation.token_ids) == pair.target.n_ctx + 1  # the last need not be read
        texts.append(generation)
    plain, drafted = texts
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.drafted > 0


ROUNDS = 8 * 3600 * 20  # eight hours at twenty a second
SHARP = ExactSampler(temperature=0.3)


@pytest.mark.long
def test_eight_hours_of_rounds():
    """On tables, with everything that learns: what it has learnt stays finite, and memory where it was."""
    target, draft = Table(12, seed=1), Table(12, seed=2, near=Table(12, seed=1), distance=0.2)
    costs = Costs(CostCurve({1: 1.0, 2: 1.1, 5: 1.4, 9: 1.8}), {"model": 0.1}, {"model": 0.02})
    calibrations: dict[str, Calibration] = {}
    n_rounds, n_drafted, n_accepted, settled = 0, 0, 0, 0
    text = 0
    while n_rounds < ROUNDS:
        text += 1
        n_ctx = 2_000
        decoder = TableDecoder(_Recent(target), n_ctx)
        drafters = [LookupDrafter("suffix", SuffixIndex(), 12, 8), ModelDrafter(TableDecoder(_Recent(draft), n_ctx))]
        policy = AutoPolicy(costs, calibrations, 8)
        how = Speculation(SHARP, SHARP, verify_block, policy, SeededDraws(text))
        prompt = [text % 12, 1]
        prefill(decoder, prompt)
        for round_ in generate(decoder, drafters, prompt, how, Ending(lambda _: b"x", lambda _: False)):
            n_rounds += 1
            n_drafted += len(round_.drafted)
            n_accepted += round_.n_accepted
        if n_rounds > ROUNDS // 8 and not settled:
            settled = resident()
    grown = resident() - settled
    print(f"\n{n_rounds} rounds in {text} texts, {n_accepted} of {n_drafted} accepted, {grown / MIB:.1f} MiB more")
    assert grown < 30 * MIB
    assert n_drafted > 5_000 and 0.2 < n_accepted / n_drafted < 0.98
    for calibration in calibrations.values():
        for table in calibration.tables.values():
            assert np.isfinite(np.asarray(table, float)).all()
    assert all(np.isfinite(costs.target.seconds(width)) for width in range(1, 10))


class _Recent:
    """A table that sees the last two tokens only, so that few contexts make many texts."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.n_vocab = table.n_vocab

    def logits(self, context: tuple[int, ...]) -> np.ndarray:
        return self._table.logits(context[-2:])
