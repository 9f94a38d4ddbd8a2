"""The whole loop on tiny models in llama.cpp: speculation must not be seen in the text, nor in the caches.

Widths of batches from 2 up are bit-equal on these f32 models; width 1 takes another path through llama.cpp and differs
in the seventh digit. Two texts may therefore part where two tokens tie, and there only: ``assert_same_text`` looks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from conftest import EXACT
from tiny_gguf import write_model

from specli.decoding.comparison import first_difference, logit_gap
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Generation, Pair
from specli.drafters.model import ModelDrafter
from specli.errors import SpecliError, UsageError
from specli.llama.context import Context
from specli.llama.model import Model
from specli.llama.options import ContextOptions
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import SamplingOptions, Transforms

N_MAX = 16
PROMPT = list(b"hello there")
GREEDY, SAMPLED = SamplingOptions(temperature=0.0), SamplingOptions(temperature=0.8)
MODES = {"greedy": (GREEDY, "block"), "match": (SAMPLED, "match")}
ARCHITECTURES = [
    pytest.param("sliding.gguf", "sliding-draft.gguf", id="sliding-sliding"),
    pytest.param("hybrid.gguf", "hybrid-draft.gguf", id="hybrid-hybrid"),
    pytest.param("hybrid.gguf", "draft.gguf", id="hybrid-attention"),
    pytest.param("target.gguf", "hybrid-draft.gguf", id="attention-hybrid"),
    pytest.param("mamba.gguf", "mamba-draft.gguf", id="mamba-mamba"),
]

MakePair = Callable[..., Pair]


@pytest.fixture
def make_pair(tiny: Path) -> Iterator[MakePair]:
    """Loads pairs by file name and frees them after the test."""
    made: list[Any] = []

    def make(
        target: str | Path = "target.gguf",
        draft: str | Path = "draft.gguf",
        options: ContextOptions = EXACT,
        draft_options: ContextOptions | None = None,
    ) -> Pair:
        models = Model(tiny / target), Model(tiny / draft)
        pair = Pair(*models, options, draft_options or options, N_MAX)
        made[:0] = [pair, *models]
        return pair

    yield make
    for thing in made:
        thing.close()


def prompts(n: int, *, longest: int = 40, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, rng.integers(1, longest + 1)).tolist() for _ in range(n)]


def start(pair: Pair, prompt: Sequence[int], mode: str = "greedy", **options: Any) -> Generation:
    sampling, verification = MODES[mode]
    defaults = {"sampling": sampling, "verification": verification, "n_predict": 24, "ignore_eos": True, "seed": 3}
    defaults["n_max"] = 4
    return pair.generate(prompt, GenerationOptions(**(defaults | options)))


def run(pair: Pair, prompt: Sequence[int], mode: str = "greedy", **options: Any) -> Generation:
    """Generate to the end; the caches are looked at after every round."""
    generation = start(pair, prompt, mode, **options)
    for _ in generation:
        assert_target_cache(pair, [*prompt, *generation.token_ids])
        if options.get("n_max", 4):
            assert_draft_cache(pair, [*prompt, *generation.token_ids])
    return generation


def assert_target_cache(pair: Pair, context: list[int]) -> None:
    if pair.target.model.is_recurrent:
        assert pair.target.tokens == context[: len(pair.target.tokens)]
    else:
        assert pair.target.tokens == context[:-1]


def assert_draft_cache(pair: Pair, context: list[int]) -> None:
    assert pair.draft
    start, n = pair._drafters["model"]._window_start, len(pair.draft.tokens)
    assert start + n < len(context)
    assert pair.draft.tokens == [min(token, pair.n_shared - 1) for token in context[start : start + n]]


def assert_same_text(pair: Pair, prompt: Sequence[int], mode: str, text: list[int], plain: list[int]) -> None:
    """Two texts are equal, or part at a tie that the width of the batch decides."""
    if (i := first_difference(text, plain)) is None:
        return
    assert i < min(len(text), len(plain)), "one text is longer"
    context = [*prompt, *plain[:i]]
    if mode == "greedy":
        report = logit_gap(pair.target, context, text[i], plain[i], i + 1)
        assert report.numerics, f"token {i}: {report}"
        assert report.spread < 1e-2
    else:
        assert {text[i], plain[i]} <= drawn_at_widths(pair.target, context), f"token {i}"


def drawn_at_widths(target: Context, context: list[int]) -> set[int]:
    """The tokens that ``match`` draws after a context when its end is decoded in batches of different widths."""
    sampler, draws, tokens = Transforms(SAMPLED), SeededDraws(3), set()
    for width in (9, 5, 3, 2, 1):
        target.truncate(0)
        if before := context[:-width]:
            target.decode(before, 0)
        row = target.decode(context[-width:], 1)[0]
        tokens.add(draws.race(sampler.distribution(row, context), len(context)))
    return tokens


class Recorder:
    """A context that remembers what was decoded: (cache before, batch, rows)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.calls: list[tuple[list[int], list[int], np.ndarray]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def decode(self, tokens: Sequence[int], n_logits: int) -> np.ndarray:
        before = list(self._context.tokens)
        rows = self._context.decode(tokens, n_logits)
        self.calls.append((before, list(tokens), rows.copy()))
        return rows


def record(pair: Pair) -> tuple[Recorder, Recorder]:
    """Let everything the target and the draft decode be remembered."""
    assert pair.draft
    target, draft = Recorder(pair.target), Recorder(pair.draft)
    pair.target = pair.verifier = target  # type: ignore[assignment]
    pair._drafters["model"] = ModelDrafter(draft, pair.n_shared)
    return target, draft


def check_against_plain(pair: Pair, mode: str, all_prompts: list[list[int]], lengths: Callable[[int], range]) -> None:
    """Every length of draft writes plain decoding's text; some drafts are accepted and some are not."""
    accepted = rejected = 0
    for i, prompt in enumerate(all_prompts):
        plain = run(pair, prompt, mode, n_max=0)
        assert plain.stats.drafted == 0
        assert plain.stats.rounds == plain.stats.tokens == 24
        for n_max in lengths(i):
            generation = run(pair, prompt, mode, n_max=n_max)
            assert_same_text(pair, prompt, mode, generation.token_ids, plain.token_ids)
            accepted += generation.stats.accepted
            rejected += generation.stats.rejected
    assert 0.1 < accepted / (accepted + rejected) < 0.9


@pytest.mark.parametrize("mode", MODES)
def test_text_is_that_of_plain_decoding(make_pair: MakePair, mode: str) -> None:
    """100 prompts, each with every fourth length from 1 to 16."""
    check_against_plain(make_pair(), mode, prompts(100), lambda i: range(1 + i % 4, N_MAX + 1, 4))


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_text_is_that_of_plain_decoding_at_every_length(make_pair: MakePair, mode: str) -> None:
    check_against_plain(make_pair(), mode, prompts(200, seed=1), lambda i: range(1, N_MAX + 1))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("target", "draft"), ARCHITECTURES)
def test_other_architectures(make_pair: MakePair, target: str, draft: str, mode: str) -> None:
    check_against_plain(make_pair(target, draft), mode, prompts(12), lambda i: range(1 + i % 4, N_MAX + 1, 5))


@pytest.mark.parametrize("ubatch", [1, 4, 16])
def test_sliding_window_that_has_forgotten(make_pair: MakePair, ubatch: int) -> None:
    """A prompt far longer than the window, and batches wider than what the cache keeps beside the window."""
    pair = make_pair("sliding.gguf", "sliding-draft.gguf", replace(EXACT, ubatch_size=ubatch))
    for prompt in prompts(2, seed=4):
        prompt = (prompt * 400)[:400]
        plain = run(pair, prompt, n_max=0)
        for n_max in (3, 8, 16):
            generation = run(pair, prompt, n_max=n_max)
            assert generation.stats.accepted
            assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)


@pytest.mark.parametrize("n_max", [1, 4, 16])
def test_verified_rows_are_bitwise_those_of_a_fresh_context(make_pair: MakePair, n_max: int) -> None:
    """Nothing that rejected drafts left in the cache, or in its layout, is seen."""
    pair = make_pair()
    target, _ = record(pair)
    compared = 0
    fresh = Context(pair.target.model, EXACT, N_MAX + 1)
    for prompt in prompts(16, seed=2):
        target.calls.clear()
        run(pair, [7, 8, *prompt], n_max=n_max, n_min=n_max)
        for before, batch, rows in target.calls:
            if len(batch) < 2:
                break  # no room for a draft: the end
            if len(rows):
                fresh.truncate(0)
                fresh.decode(before, 0)
                np.testing.assert_array_equal(fresh.decode(batch, len(batch)), rows)
                compared += 1
    fresh.close()
    assert compared > 20


def test_a_clear_difference_is_not_called_numerics(make_pair: MakePair) -> None:
    """The comparison that excuses near ties must not excuse anything else."""
    pair = make_pair()
    for prompt in prompts(5):
        plain = run(pair, prompt, n_max=0).token_ids
        wrong = [*plain[:9], (plain[9] + 1) % 256, *plain[10:]]
        for mode in MODES:
            with pytest.raises(AssertionError, match="token 9"):
                assert_same_text(pair, prompt, mode, wrong, plain)
        with pytest.raises(AssertionError, match="longer"):
            assert_same_text(pair, prompt, "greedy", plain[:9], plain)


@pytest.mark.parametrize("model", ["target.gguf", "sliding.gguf", "hybrid.gguf", "mamba.gguf"])
@pytest.mark.parametrize("mode", MODES)
def test_a_draft_that_is_the_target_is_accepted(make_pair: MakePair, model: str, mode: str) -> None:
    pair = make_pair(model, model)
    for i, prompt in enumerate(prompts(20, seed=3)):
        generation = start(pair, prompt, mode, n_max=1 + i % N_MAX)
        refused = []  # (context, the draft's token, the target's)
        for round_ in generation:
            assert round_.drafted or generation.stats.tokens == 24
            if round_.n_rejected:
                context = [*prompt, *generation.token_ids[:-1]]
                refused.append((context, round_.drafted[round_.n_accepted], round_.tokens[-1]))
        for context, drafted, chosen in refused:
            assert_same_text(pair, context, mode, [drafted], [chosen])


@pytest.mark.parametrize("length", [200, 253, 254, 255, 256])
@pytest.mark.parametrize(("target", "draft"), [("target.gguf", "draft.gguf"), *ARCHITECTURES])
def test_running_into_the_end_of_the_context(make_pair: MakePair, target: str, draft: str, length: int) -> None:
    pair = make_pair(target, draft, replace(EXACT, ctx_size=256))
    prompt = np.random.default_rng(length).integers(0, 256, length).tolist()
    plain = run(pair, prompt, n_max=0, n_predict=-1)
    assert len(plain.token_ids) == 256 - length + 1, "the last token needs no place in the cache"
    for n_max in range(9):
        generation = run(pair, prompt, n_max=n_max, n_predict=-1)
        assert generation.stop_reason == "context"
        assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)


@pytest.mark.parametrize("draft", ["draft.gguf", "hybrid-draft.gguf"])
@pytest.mark.parametrize("length", [20, 255, 256, 257, 300])
def test_drafting_goes_on_where_the_text_outgrows_the_drafts_context(
    make_pair: MakePair, draft: str, length: int
) -> None:
    pair = make_pair("target.gguf", draft, EXACT, replace(EXACT, ctx_size=256))
    prompt = np.random.default_rng(length).integers(0, 256, length).tolist()
    plain = run(pair, prompt, n_max=0, n_predict=-1)
    generation = start(pair, prompt, n_max=5, n_predict=-1)
    windows, accepted_in_window = {0}, 0
    for round_ in generation:
        assert_draft_cache(pair, [*prompt, *generation.token_ids])
        windows.add(pair._drafters["model"]._window_start)
        accepted_in_window += round_.n_accepted if pair._drafters["model"]._window_start else 0
    assert len(windows) > 2, "it moved once and again"
    if draft == "draft.gguf":  # made from this target
        assert accepted_in_window > 10
    assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)
    again = run(pair, prompt[:19], n_max=5)
    assert pair._drafters["model"]._window_start == 0, "the next text begins at its beginning"
    assert_same_text(pair, prompt[:19], "greedy", again.token_ids, run(pair, prompt[:19], n_max=0).token_ids)


@pytest.mark.parametrize(("target", "draft"), [("target.gguf", "draft.gguf"), *ARCHITECTURES])
def test_the_next_turn_reads_only_what_is_new(make_pair: MakePair, target: str, draft: str) -> None:
    pair = make_pair(target, draft)
    target_calls, draft_calls = record(pair)
    prompt, more = prompts(2, seed=8)
    answer = run(pair, prompt, n_max=4).token_ids
    longer = [*prompt, *answer, *more]
    kept, draft_kept = len(pair.target.tokens), len(draft_calls.tokens)
    target_calls.calls.clear()
    draft_calls.calls.clear()
    second = start(pair, longer, n_max=4)
    next(iter(second))
    read = [batch for _, batch, rows in target_calls.calls if not len(rows)]
    if not pair.target.model.is_recurrent:
        assert kept == len(prompt) + len(answer) - 1
        assert sum(map(len, read)) == len(longer) - 1 - kept
        assert target_calls.calls[0][0] == longer[:kept]
    if not draft_calls.model.is_recurrent:
        assert draft_calls.calls[0][0] == longer[:draft_kept]
        assert draft_kept >= len(prompt) + len(answer) - 3, "the last draft token, the target's own, an undrafted one"
    for _ in second:
        pass
    fresh = run(make_pair(target, draft), longer, n_max=4)
    assert_same_text(pair, longer, "greedy", second.token_ids, fresh.token_ids)


def test_a_prompt_that_parts_from_the_last_one(make_pair: MakePair) -> None:
    """An edited prompt keeps what is before the edit; one that the cache begins with is cut to its last token."""
    pair = make_pair()
    target, draft = record(pair)
    prompt = np.random.default_rng(11).integers(0, 256, 60).tolist()
    run(pair, prompt, n_max=4)
    for changed, shared in (([*prompt[:30], 1, 2, 3], 30), (prompt[:20], 19), (prompt[:20], 19), ([9, *prompt], 0)):
        for recorder in (target, draft):
            recorder.calls.clear()
        generation = run(pair, changed, n_max=4)
        for recorder in (target, draft):
            assert len(recorder.calls[0][0]) == shared
        fresh = run(make_pair(), changed, n_max=4)
        assert_same_text(pair, changed, "greedy", generation.token_ids, fresh.token_ids)


@pytest.mark.parametrize(("n_target", "n_draft", "token"), [(288, 280, 285), (280, 288, 275)])
def test_vocabularies_of_different_sizes(
    tmp_path: Path, make_pair: MakePair, n_target: int, n_draft: int, token: int
) -> None:
    """The target emits its token, also where the draft lacks it; the draft drafts none that the target lacks."""
    target = write_model(tmp_path / "t.gguf", n_vocab=n_target)
    draft = write_model(tmp_path / "d.gguf", n_vocab=n_draft, noise=0.05)
    pair = make_pair(target, draft)
    assert pair.n_shared == 280
    sampling = replace(GREEDY, logit_bias=((token, 16.0),))
    emitted, accepted = 0, 0
    for prompt in prompts(10):
        prompt = [*prompt[:5], token, *prompt[5:]]
        plain = run(pair, prompt, n_max=0, sampling=sampling)
        emitted += plain.token_ids.count(token)
        assert plain.token_ids.count(token) < 24
        for n_max in (1, 4, 9):
            generation = start(pair, prompt, n_max=n_max, sampling=sampling)
            for round_ in generation:
                assert_draft_cache(pair, [*prompt, *generation.token_ids])
                assert all(drafted < 280 for drafted in round_.drafted)
            accepted += generation.stats.accepted
            assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)
    assert emitted
    assert accepted


def test_the_cache_of_a_smaller_vocabulary_is_kept_between_turns(tmp_path: Path, make_pair: MakePair) -> None:
    write_model(tmp_path / "d.gguf", n_vocab=280, noise=0.05)
    pair = make_pair("target.gguf", tmp_path / "d.gguf")
    _, draft = record(pair)
    prompt = [1, 285, 2, 286, 3, 4]
    answer = run(pair, prompt, n_max=4).token_ids
    draft.calls.clear()
    run(pair, [*prompt, *answer, 5, 6], n_max=4)
    assert len(draft.calls[0][0]) >= len(prompt) + len(answer) - 3


@pytest.mark.parametrize("mode", MODES)
def test_number_of_tokens(make_pair: MakePair, mode: str) -> None:
    pair = make_pair()
    (prompt,) = prompts(1)
    plain = run(pair, prompt, mode, n_max=0).token_ids
    for n_predict in range(1, 13):
        for n_max in (0, 3, 8):
            generation = run(pair, prompt, mode, n_max=n_max, n_predict=n_predict)
            assert generation.stop_reason == "length"
            assert len(generation.token_ids) == n_predict
            assert_same_text(pair, prompt, mode, generation.token_ids, plain[:n_predict])


def readable(n: int) -> tuple[tuple[int, float], ...]:
    """A bias that leaves only n ASCII letters, so that text is text."""
    letters = range(ord("a"), ord("a") + n)
    return tuple((token, -np.inf) for token in range(288) if token not in letters)


def test_stop_strings(make_pair: MakePair) -> None:
    pair = make_pair()
    sampling = replace(GREEDY, logit_bias=readable(20))
    for prompt in prompts(6, seed=12):
        plain = run(pair, prompt, n_max=0, sampling=sampling)
        assert len(plain.text) == 24
        stop = plain.text[10:13]
        end = plain.text.find(stop)
        for n_max in (0, 1, 4, 8, 16):
            generation = run(pair, prompt, n_max=n_max, sampling=sampling, stop=("xyz", stop))
            assert generation.stop_reason == "stop"
            assert generation.text == plain.text[:end]
            assert generation.token_ids == plain.token_ids[: end + 3]


def test_end_of_generation(make_pair: MakePair) -> None:
    pair = make_pair()
    eos = pair.target.model.vocab.eos
    sampling = replace(GREEDY, logit_bias=((eos, 15.0),))
    ended = 0
    for prompt in prompts(20, seed=13):
        plain = run(pair, prompt, n_max=0, sampling=sampling, ignore_eos=False)
        ended += plain.stop_reason == "eog" and len(plain.token_ids) > 1
        for n_max in (1, 4, 8):
            generation = run(pair, prompt, n_max=n_max, sampling=sampling, ignore_eos=False)
            assert_same_text(pair, prompt, "greedy", generation.token_ids, plain.token_ids)
            assert (generation.text, generation.stop_reason) == (plain.text, plain.stop_reason)
            assert_counts(generation)
    assert ended > 3


@pytest.mark.parametrize("verification", ["block", "token", "match"])
def test_a_seed_decides_the_text(make_pair: MakePair, verification: str) -> None:
    (prompt,) = prompts(1, seed=14)

    def text(seed: int) -> list[int]:
        options = {"sampling": SAMPLED, "verification": verification, "n_max": 4, "n_predict": 60}
        return run(make_pair(), prompt, seed=seed, **options).token_ids

    assert text(1) == text(1)
    assert text(1) != text(2)


def assert_counts(generation: Generation) -> None:
    """What ``Stats`` adds up agrees with itself and with the tokens."""
    stats = generation.stats
    assert stats.tokens == len(generation.token_ids)
    assert stats.drafted == stats.accepted + stats.rejected + stats.discarded
    assert stats.accepted + stats.rejected == sum(stats.drafted_by_position)
    assert stats.accepted == sum(stats.accepted_by_position)
    assert all(np.diff(stats.drafted_by_position) <= 0)
    cut_in_the_draft = stats.accepted + stats.rounds - stats.tokens
    assert cut_in_the_draft in ((0, 1) if generation.stop_reason in ("eog", "stop") else (0,))
    if not cut_in_the_draft:
        assert stats.discarded == 0


@pytest.mark.parametrize("verification", ["block", "token", "match"])
def test_counts(make_pair: MakePair, verification: str) -> None:
    pair = make_pair()
    for i, prompt in enumerate(prompts(20, seed=15)):
        sampling = replace(SAMPLED, logit_bias=readable(20))
        options = {"sampling": sampling, "verification": verification, "n_max": i % N_MAX, "stop": ("g", "hi")}
        generation = run(pair, prompt, seed=i, **options)
        assert_counts(generation)
        assert generation.stats.prompt_tokens == len(prompt)


def test_a_prompt_longer_than_the_context(make_pair: MakePair) -> None:
    pair = make_pair(options=replace(EXACT, ctx_size=256))
    with pytest.raises(SpecliError, match="257 tokens long and the context holds 256"):
        start(pair, [1] * 257)


def test_an_empty_prompt(make_pair: MakePair) -> None:
    with pytest.raises(SpecliError, match="the prompt is empty"):
        start(make_pair(), [])


@pytest.mark.parametrize("token", [-1, 288])
def test_a_bias_on_a_token_that_is_not(make_pair: MakePair, token: int) -> None:
    pair = make_pair()
    with pytest.raises(UsageError, match=f"--logit-bias {token}: the vocabulary has 288 tokens"):
        start(pair, [1], sampling=replace(GREEDY, logit_bias=((token, 1.0),)))


def test_an_interrupted_text_does_not_spoil_the_next(make_pair: MakePair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted at every decode in turn, of the target or the draft, and started again."""
    pair = make_pair()
    (prompt,) = prompts(1, seed=16)
    expected = run(pair, prompt, n_max=4).token_ids
    synchronize, interrupted = llama_cpp.llama_synchronize, 0
    for when in range(1, 30):
        remaining = iter(range(when))

        def interrupt(context: object, remaining: Iterator[int] = remaining) -> None:
            synchronize(context)
            if next(remaining, None) is None:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(llama_cpp, "llama_synchronize", interrupt)
            try:
                run(pair, prompt, n_max=4)
            except KeyboardInterrupt:
                interrupted += 1
        generation = run(pair, prompt, n_max=4)
        assert_same_text(pair, prompt, "greedy", generation.token_ids, expected)
    assert interrupted > 20


def test_drafts_that_do_not_fit_the_batch(tiny: Path, make_pair: MakePair) -> None:
    with pytest.raises(UsageError, match=r"--n-max 16: .* -b 16 limits"):
        make_pair(options=replace(EXACT, batch_size=16))
    assert run(make_pair(options=replace(EXACT, batch_size=17)), [1, 2], n_max=16).stats.accepted


def test_drafts_longer_than_the_pair_was_made_for(make_pair: MakePair) -> None:
    with pytest.raises(UsageError, match="--n-max 17: the pair was made for 16 at most"):
        start(make_pair(), [1], n_max=17)


def test_a_text_left_unfinished_cannot_go_on_after_another(make_pair: MakePair) -> None:
    """Both would write into the same caches."""
    pair = make_pair()
    options = GenerationOptions(GREEDY, n_max=4, n_predict=20, ignore_eos=True)
    first = iter(pair.generate(PROMPT, options))
    next(first)
    second = pair.generate(PROMPT, options)
    texts = [round_.text for round_ in second]
    with pytest.raises(SpecliError, match="another text"):
        next(first)
    assert texts == [round_.text for round_ in pair.generate(PROMPT, options)]


def test_both_models_tell_how_far_they_are_with_the_prompt(make_pair: MakePair) -> None:
    pair = make_pair(options=replace(EXACT, ubatch_size=32))
    told: dict[str, list[tuple[int, int]]] = {"target": [], "draft": []}

    def teller(name: str) -> Callable[[int, int], None]:
        return lambda done, total: told[name].append((done, total))

    prompt = (PROMPT * 100)[:101]
    generation = pair.generate(
        prompt, GenerationOptions(GREEDY, n_max=4, n_predict=9, ignore_eos=True), teller("target"), teller("draft")
    )
    list(generation)
    assert told == {name: [(32, 100), (64, 100), (96, 100), (100, 100)] for name in told}
