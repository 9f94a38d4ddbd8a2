"""MTP heads, EAGLE-3, DFlash and DSpark through llama.cpp, on tiny models.

Whether drafts are worth something is no matter here, but none of them may be all accepted, or none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import EXACT
from test_tiny_loop import GREEDY, MODES, assert_same_text, assert_target_cache, prompts, start
from tiny_drafts import BLOCK, write_dflash, write_eagle3, write_step_model
from tiny_gguf import WIDTH, write_hybrid_model, write_model

from specli.decoding.draft_length import FixedLength
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.errors import SpecliError, UsageError
from specli.llama import context as context_module
from specli.llama.model import Model
from specli.llama.options import ModelOptions
from specli.models.draft_module import drafter_kind, has_mtp_heads
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import Transforms


@dataclass(frozen=True)
class Kind:
    """A pair of files, and as what the draft drafts."""

    drafter: str
    target: str
    draft: str | None = None
    most: int = 16
    """The most tokens of a draft, asked for 16."""


KINDS = {
    "mtp": Kind("mtp", "mtp"),
    "mtp-file": Kind("mtp", "hybrid", "heads"),
    "mtp-heads": Kind("mtp", "step", most=3),
    "eagle3": Kind("eagle3", "llama", "eagle3"),
    "eagle3-reduced": Kind("eagle3", "llama", "eagle3-reduced"),
    "eagle3-hybrid": Kind("eagle3", "mtp", "eagle3-hybrid"),
    "eagle3-shared": Kind("eagle3", "llama", "eagle3-shared"),
    "eagle3-smaller": Kind("eagle3", "llama", "eagle3-smaller"),
    "dflash-shared": Kind("dflash", "llama", "dflash-shared", BLOCK - 1),
    "dspark-smaller": Kind("dspark", "llama", "dspark-smaller", BLOCK),
    "dflash": Kind("dflash", "llama", "dflash", BLOCK - 1),
    "dflash2": Kind("dflash", "llama", "dflash2", BLOCK - 1),
    "dflash-multimodal": Kind("dflash", "mtp", "dflash-multimodal", BLOCK - 1),
    "dflash-reduced": Kind("dflash", "llama", "dflash-reduced", BLOCK - 1),
    "dspark": Kind("dspark", "llama", "dspark", BLOCK),
    "dspark-bonus": Kind("dspark", "llama", "dspark-bonus", BLOCK - 1),
    "dspark-sure": Kind("dspark", "llama", "dspark-sure", BLOCK),
    "dspark-hybrid": Kind("dspark", "mtp", "dspark-hybrid", BLOCK),
}
every_kind = pytest.mark.parametrize("kind", KINDS)

MakePair = Callable[..., Pair]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all of them."""
    folder = tmp_path_factory.mktemp("modules")
    write_hybrid_model(folder / "mtp.gguf", mtp=True)
    write_hybrid_model(folder / "hybrid.gguf")
    write_hybrid_model(folder / "heads.gguf", mtp=True, heads_only=True)
    write_step_model(folder / "step.gguf")
    write_model(folder / "llama.gguf", layers=4, amplitude=0.8)
    write_eagle3(folder / "eagle3.gguf", target_layers=[1, 2, 3])
    write_eagle3(folder / "eagle3-reduced.gguf", target_layers=[1, 2, 3], reduced=200)
    write_eagle3(folder / "eagle3-hybrid.gguf", target_layers=[1, 2, 4])
    write_eagle3(folder / "eagle3-shared.gguf", target_layers=[1, 2, 3], own_embeddings=False)
    write_eagle3(folder / "eagle3-smaller.gguf", target_layers=[1, 2, 3], n_vocab=275)
    write_dflash(folder / "dflash-shared.gguf", target_layers=[1, 3], own_embeddings=False)
    write_dflash(folder / "dspark-smaller.gguf", target_layers=[1, 3], markov=True, n_vocab=275)
    write_dflash(folder / "dflash.gguf", target_layers=[1, 3])
    write_dflash(folder / "dflash2.gguf", target_layers=[1, 3], selector=True)
    write_dflash(folder / "dflash-multimodal.gguf", target_layers=[1, 3], multimodal=True)
    write_dflash(folder / "dflash-reduced.gguf", target_layers=[1, 3], reduced=200)
    write_dflash(folder / "dspark.gguf", target_layers=[1, 3], markov=True)
    write_dflash(folder / "dspark-bonus.gguf", target_layers=[1, 3], markov=True, from_anchor=False)
    write_dflash(folder / "dspark-sure.gguf", target_layers=[1, 3], markov=True, confidence=True)
    write_dflash(folder / "dspark-hybrid.gguf", target_layers=[1, 3], markov=True)
    return folder


@pytest.fixture
def make_pair(files: Path) -> Iterator[MakePair]:
    """Loads a kind's pair and frees it after the test."""
    made: list[Any] = []

    def make(kind: str, n_max: int = 16) -> Pair:
        names = KINDS[kind]
        target = Model(files / f"{names.target}.gguf", ModelOptions(load_mtp=names.draft is None))
        draft = Model(files / f"{names.draft}.gguf") if names.draft else None
        pair = Pair(target, draft, EXACT, EXACT, n_max)
        made[:0] = [pair, target, *([draft] if draft else [])]
        return pair

    yield make
    for thing in made:
        thing.close()


def first_row(pair: Pair, name: str, context: Sequence[int]) -> np.ndarray:
    """The logits that a drafter's next token would be drawn from."""
    rows = []

    class Watching(Transforms):
        def distribution(self, logits, history):
            rows.append(logits.copy())
            return super().distribution(logits, history)

    pair._drafters[name].propose(context, Watching(GREEDY), lambda distribution, i: 0, FixedLength(1))
    return rows[0]


def check_against_plain(pair: Pair, kind: str, mode: str, n_prompts: int) -> None:
    """Each prompt with every fourth length from 1 to 8; some drafts are accepted and some are not."""
    accepted = rejected = 0
    for i, prompt in enumerate(prompts(n_prompts, seed=len(mode))):
        plain = start(pair, prompt, mode, n_max=0)
        for _ in plain:
            pass
        for n_max in range(1 + i % 4, 9, 4):
            generation = start(pair, prompt, mode, n_max=n_max)
            for round_ in generation:
                assert round_.drafter == KINDS[kind].drafter or len(generation.token_ids) == 24
                assert_target_cache(pair, [*prompt, *generation.token_ids])
            assert_same_text(pair, prompt, mode, generation.token_ids, plain.token_ids)
            accepted += generation.stats.accepted
            rejected += generation.stats.rejected
    assert 0.02 < accepted / (accepted + rejected) < 0.98


@pytest.mark.parametrize("mode", MODES)
@every_kind
def test_text_is_that_of_plain_decoding(make_pair: MakePair, kind: str, mode: str) -> None:
    check_against_plain(make_pair(kind), kind, mode, 8)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@every_kind
def test_a_hundred_texts_are_those_of_plain_decoding(make_pair: MakePair, kind: str, mode: str) -> None:
    check_against_plain(make_pair(kind), kind, mode, 100)


@every_kind
def test_drafts_after_rounds_are_those_of_a_fresh_start(make_pair: MakePair, kind: str) -> None:
    """What rejected drafts left in the caches, and in the states that were kept, is seen nowhere."""
    pair, fresh = make_pair(kind), make_pair(kind)
    name = KINDS[kind].drafter
    for n_rounds, prompt in enumerate(prompts(15, seed=2), start=1):
        prompt = [1, *prompt]
        generation = start(pair, prompt, n_max=1 + n_rounds % 5, n_predict=100)
        for _, _ in zip(range(n_rounds), generation, strict=False):
            pass
        context = [*prompt, *generation.token_ids]
        fresh.target.truncate(0)
        fresh.forget_drafts()
        fresh.target.decode(context[:-1], 0)
        fresh._drafters[name].begin(context)
        row = first_row(fresh, name, context)
        np.testing.assert_allclose(first_row(pair, name, context), row, atol=1e-3)


def assert_as_fresh(make_pair: MakePair, kind: str, pair: Pair, context: list[int]) -> None:
    """What a drafter would draw from next is what it would after a fresh start."""
    fresh, name = make_pair(kind), KINDS[kind].drafter
    fresh.target.decode(context[:-1], 0)
    fresh._drafters[name].begin(context)
    row = first_row(fresh, name, context)
    np.testing.assert_allclose(first_row(pair, name, context), row, atol=1e-3)


@every_kind
def test_the_next_text_goes_on_from_what_it_shares(make_pair: MakePair, kind: str) -> None:
    pair, prompt = make_pair(kind), [1, *prompts(1, seed=11)[0]]
    for _ in start(pair, prompt, n_max=3, n_predict=30):
        pass
    for n_shared in (len(prompt), len(prompt) - 3, 1, 0):
        second = [*prompt[:n_shared], 7, 8, 9, *prompt[:5]]
        generation = start(pair, second, n_max=4, n_predict=40)
        next(iter(generation))
        assert_as_fresh(make_pair, kind, pair, [*second, *generation.token_ids])


@every_kind
@pytest.mark.parametrize("call", ["draw", "verify"])
def test_an_interrupted_round_leaves_no_drafts_behind(
    make_pair: MakePair, kind: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while it drafts, or while the target verifies, and the same text begun again."""
    pair, prompt = make_pair(kind), [1, *prompts(1, seed=12)[0]]
    generation = start(pair, prompt, n_max=5, n_predict=60)
    next(iter(generation))
    calls = 0

    def interrupt(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    owner, method = (SeededDraws, "race") if call == "draw" else (type(pair.target), "decode")
    whole = getattr(owner, method)
    calls = 0 if call == "draw" else 1
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, method, interrupt)
        for _ in generation:
            pass
    context = [*prompt, *generation.token_ids, 5, 6]
    again = start(pair, context, n_max=3, n_predict=40)
    next(iter(again))
    assert_as_fresh(make_pair, kind, pair, [*context, *again.token_ids])


@pytest.mark.parametrize("kind", ["eagle3-smaller", "dspark-smaller"])
def test_tokens_that_a_draft_does_not_know(make_pair: MakePair, kind: str) -> None:
    """In the prompt, and last in it: llama.cpp would refuse them."""
    pair = make_pair(kind)
    for prompt in ([3, 280, 4, 5], [3, 4, 5, 281]):
        plain, generation = start(pair, prompt, n_max=0), start(pair, prompt, n_max=3)
        for one in (plain, generation):
            for _ in one:
                pass
        assert generation.stats.drafted
        assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)


def test_several_heads_and_a_window_that_forgets(files: Path) -> None:
    """A cache as small as can be beside the window: long prompts, and a long beginning in common."""
    target = Model(files / "step.gguf", ModelOptions(load_mtp=True))
    options = replace(EXACT, ubatch_size=16)
    pair, fresh = Pair(target, None, options, options, 4), Pair(target, None, options, options, 4)
    text = prompts(1, longest=400, seed=4)[0] * 400
    for n_shared, n in ((0, 200), (150, 330), (100, 120)):
        prompt = [*text[:n_shared], *text[50 : 50 + n - n_shared]]
        generation = start(pair, prompt, n_max=3, n_predict=30)
        for _ in generation:
            pass
        plain = start(fresh, prompt, n_max=0, n_predict=30)
        for _ in plain:
            pass
        assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)
        again = start(fresh, prompt, n_max=3, n_predict=30)
        fresh.target.truncate(0)
        fresh.forget_drafts()
        for _ in again:
            pass
        assert generation.stats.accepted == again.stats.accepted, "the heads saw the same"
    for thing in (pair, fresh, target):
        thing.close()


@every_kind
def test_heads_and_blocks_bound_drafts(make_pair: MakePair, kind: str) -> None:
    pair = make_pair(kind)
    generation = start(pair, [1, 2, 3, 4, 5], n_max=16, n_predict=60)
    drafted = {len(round_.drafted) for round_ in generation if len(generation.token_ids) < 40}
    assert drafted == {KINDS[kind].most}


@every_kind
def test_automatic_lengths(make_pair: MakePair, kind: str) -> None:
    """They draft with it, and write plain decoding's text."""
    pair = make_pair(kind)
    prompt = prompts(1, seed=9)[0]
    plain = start(pair, prompt, n_max=0, n_predict=200)
    for _ in plain:
        pass
    pair.measure()
    assert pair.learnt
    pair.learnt.costs.step_seconds = dict.fromkeys(pair.learnt.costs.step_seconds, 1e-9)  # so cheap that it must pay
    pair.learnt.costs.read_seconds = {}
    pair.learnt.costs.frozen = True
    generation = start(pair, prompt, n_max=None, n_predict=200, drafters=(KINDS[kind].drafter,), repeatable=True)
    for _ in generation:
        pass
    assert generation.stats.drafted
    assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)


@every_kind
def test_a_trace_of_its_proposals(make_pair: MakePair, kind: str) -> None:
    pair = make_pair(kind)
    generation = start(pair, [5, 6, 7], n_max=3)
    for _ in generation:
        pass
    recorded = pair.trace([5, 6, 7], generation.token_ids, GenerationOptions(GREEDY, n_max=3, ignore_eos=True), None)
    proposals = recorded.proposals[KINDS[kind].drafter]
    assert len(proposals) == len(generation.token_ids)
    first = next(iter(start(pair, [5, 6, 7], n_max=3)))
    assert proposals[0].tokens[: len(first.drafted)] == list(first.drafted)


@pytest.mark.parametrize("kind", ["mtp", "eagle3-hybrid", "dspark-hybrid"])
def test_a_recurrent_target_without_snapshots(make_pair: MakePair, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state is saved and restored, and what was accepted computed again: the same text."""
    assert make_pair(kind).target.rollback == "snapshots"
    monkeypatch.setattr(context_module, "_SNAPSHOT_BYTES", 0)
    pair = make_pair(kind)
    assert pair.target.rollback == "checkpoint"
    rejected = 0
    for prompt in prompts(10, seed=3):
        plain = start(pair, prompt, n_max=0)
        for _ in plain:
            pass
        generation = start(pair, prompt, n_max=4)
        for round_ in generation:
            assert round_.rollback_seconds > 0.0
        rejected += generation.stats.rejected
        assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)
    assert rejected


def test_what_a_file_drafts_as(files: Path) -> None:
    for name in ("mtp", "hybrid", "step", "llama"):
        assert drafter_kind(files / f"{name}.gguf") == "model"
        assert has_mtp_heads(files / f"{name}.gguf") == (name in ("mtp", "step"))
    for kind in KINDS.values():
        if kind.draft:
            assert drafter_kind(files / f"{kind.draft}.gguf") == kind.drafter


def test_a_module_for_another_target(files: Path, tmp_path: Path) -> None:
    target = Model(files / "llama.gguf")
    write_eagle3(tmp_path / "wide.gguf", target_layers=[1, 2, 3], target_width=2 * WIDTH)
    write_eagle3(tmp_path / "deep.gguf", target_layers=[1, 2, 30])
    write_dflash(tmp_path / "deep-block.gguf", target_layers=[1, 9])
    for name, numbers in (("wide", (128, 64)), ("deep", (4, 30)), ("deep-block", (4, 9))):
        draft = Model(tmp_path / f"{name}.gguf")
        with pytest.raises(SpecliError) as failure:
            Pair(target, draft, EXACT, EXACT, 4)
        assert all(str(number) in str(failure.value) for number in numbers)
        draft.close()
    target.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 1}, "drafts blocks of 0 tokens"),
        ({"block_size": 5000}, "drafts blocks of 4999 tokens"),
        ({"block_size": 2**31}, "drafts blocks of 2147483647 tokens"),
        ({"mask": 999_999}, "names no token of its vocabulary"),
    ],
)
def test_blocks_that_cannot_be(files: Path, tmp_path: Path, options: dict[str, int], message: str) -> None:
    target = Model(files / "llama.gguf")
    draft = Model(write_dflash(tmp_path / "x.gguf", target_layers=[1, 3], **options))
    with pytest.raises(SpecliError, match=message):
        Pair(target, draft, EXACT, EXACT, 4)
    for model in (draft, target):
        model.close()


def test_numbers_of_heads_that_cannot_be(tmp_path: Path) -> None:
    """llama.cpp would end the process."""
    with pytest.raises(SpecliError, match="9 heads for further tokens among 6 layers"):
        Model(write_step_model(tmp_path / "x.gguf", declared_heads=9))
    with pytest.raises(SpecliError, match="name 5 heads for further tokens, and it holds 3"):
        has_mtp_heads(write_step_model(tmp_path / "y.gguf", declared_heads=5))


def test_a_target_whose_states_llama_cpp_does_not_give(files: Path, tiny: Path) -> None:
    target, draft = Model(tiny / "sliding.gguf"), Model(files / "eagle3.gguf")
    with pytest.raises(SpecliError, match="does not give the hidden state before layer 1 of a gemma3 model"):
        Pair(target, draft, EXACT, EXACT, 4)
    for model in (target, draft):
        model.close()


def test_the_wrong_name_for_a_module(make_pair: MakePair) -> None:
    with pytest.raises(UsageError, match=r"--drafter model: eagle3\.gguf drafts as eagle3"):
        next(iter(start(make_pair("eagle3"), [1, 2], drafters=("model",))))
    with pytest.raises(UsageError, match="--drafter eagle3"):
        next(iter(start(make_pair("mtp"), [1, 2], drafters=("eagle3",))))
