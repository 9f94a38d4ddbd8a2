"""Real models: speculative decoding writes plain decoding's text, up to what the batch width alone explains.

llama.cpp's logits depend on how many tokens are decoded at once. Where two texts part, the two tokens must therefore
be nearer to a tie than the width moves them; anything else is a fault of the loop.
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specli import api
from specli.decoding.comparison import first_difference, logit_gap
from specli.decoding.pair import Generation
from specli.llama.options import ContextOptions
from specli.sampling.distribution import Distribution
from specli.sampling.draws import SeededDraws

PROMPTS = [
    "Write a Python function that merges two sorted lists.",
    "Explain in three sentences why the sky is blue.",
    "用中文简要解释什么是递归，并举一个例子。",
    "Translate to French: The library opens at nine, but the reading room stays closed until noon.",
    "Find the mistake:\n\n```c\nfor (int i = 0; i <= n; i++) {\n    sum += values[i];\n}\n```",
    "把下面的句子改写得更礼貌：把文件发给我，我马上要用。",
]
CONTEXT = ContextOptions(ctx_size=2048)
TEMPERATURE, SEED = 0.8, 7


@pytest.fixture(scope="module")
def pair(qwen_target: Path, qwen_draft: Path) -> Iterator[api.Speculator]:
    with api.load(qwen_target, qwen_draft, context_options=CONTEXT, n_max=8) as speculator:
        yield speculator


def long_prompts() -> list[str]:
    """Twenty questions, spread over the Spec-Bench file that SPECLI_PROMPTS names; else those written here."""
    if not (path := os.environ.get("SPECLI_PROMPTS")):
        return PROMPTS
    questions = [json.loads(line)["turns"][0] for line in Path(path).read_text(encoding="utf-8").splitlines() if line]
    return questions[:: max(1, len(questions) // 20)][:20]


def generate(speculator: api.Speculator, prompt: list[int], **options: object) -> Generation:
    """The whole text, decoded from an empty cache."""
    speculator.pair.target.truncate(0)
    generation = speculator.generate(prompt, **options)
    for _ in generation:
        pass
    return generation


def greedy_difference(
    speculator: api.Speculator, prompt: list[int], generation: Generation, plain: Generation
) -> str | None:
    """Check where a greedy text parts from plain decoding's, if it does; None: nowhere."""
    mine, other = generation.token_ids, plain.token_ids
    index = first_difference(mine, other)
    if index is None:
        assert generation.text == plain.text
        return None
    assert index < min(len(mine), len(other)), "one text is the beginning of the other"
    gap = logit_gap(speculator.pair.target, [*prompt, *other[:index]], other[index], mine[index], index + 1)
    assert gap.numerics, f"token {index}: {mine[index]} instead of {other[index]}, {gap}"
    return f"token {index}: gap {gap.gap:.3f}, spread {gap.spread:.3f}"


def compare_greedy(speculator: api.Speculator, prompts: list[str], n_predict: int, lengths: tuple[int, ...]) -> None:
    differences, n_texts = [], 0
    for prompt in prompts:
        tokens = speculator.tokenize(prompt)
        plain = generate(speculator, tokens, temperature=0.0, n_max=0, n_predict=n_predict)
        assert plain.stats.drafted == 0
        for n_max in lengths:
            generation = generate(speculator, tokens, temperature=0.0, n_max=n_max, n_predict=n_predict)
            assert generation.stats.accepted > 0
            assert generation.stats.rounds < plain.stats.rounds
            n_texts += 1
            if difference := greedy_difference(speculator, tokens, generation, plain):
                differences.append(f"n-max {n_max}, {difference}: {prompt[:40]!r}")
    print(f"\n{n_texts - len(differences)} of {n_texts} texts identical", *differences, sep="\n  ")


def test_greedy(pair):
    compare_greedy(pair, PROMPTS[:1], 32, (4,))


@pytest.mark.long
def test_greedy_at_length(pair):
    compare_greedy(pair, long_prompts(), 48, (1, 4, 8))


def both_can_win(gap: float, spread: float, tokens: tuple[int, int], position: int) -> bool:
    """Whether either of two tokens can win the race at a position while their logits' gap stays within the spread."""
    order = np.argsort(tokens)
    draws = SeededDraws(SEED)
    winners = set()
    for g in (gap - spread, gap + spread):
        first = 1.0 / (1.0 + math.exp(-g / TEMPERATURE))
        probabilities = np.array([first, 1.0 - first])
        winners.add(draws.race(Distribution(np.array(tokens)[order], probabilities[order]), position))
    return len(winners) == 2


@pytest.mark.long
def test_match_verification(pair):
    """Plain decoding's text of the same seed, or a race as near to a tie as the width can turn."""
    prompt = pair.tokenize(PROMPTS[1])
    options = {"temperature": TEMPERATURE, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": SEED, "n_predict": 16}
    plain = generate(pair, prompt, n_max=0, **options)
    generation = generate(pair, prompt, n_max=4, verification="match", **options)
    assert generation.stats.accepted > 0
    index = first_difference(generation.token_ids, plain.token_ids)
    print(f"\nidentical for {len(plain.token_ids) if index is None else index} tokens")
    if index is None:
        return
    mine, other = generation.token_ids[index], plain.token_ids[index]
    context = [*prompt, *plain.token_ids[:index]]
    gap = logit_gap(pair.target, context, other, mine, index + 1)
    assert both_can_win(gap.gap, gap.spread, (other, mine), len(context)), gap


def test_the_race_decides_a_match():
    """both_can_win says no to tokens far from a tie, and yes to a spread that covers any gap."""
    assert not both_can_win(30.0, 1.0, (5, 3), 10)
    assert not both_can_win(-30.0, 1.0, (5, 3), 10)
    assert both_can_win(0.0, 30.0, (5, 3), 10)
    assert not both_can_win(0.0, 0.0, (5, 3), 10)


def test_a_model_drafting_for_itself(smollm):
    with api.load(smollm, smollm, context_options=CONTEXT, n_max=4) as speculator:
        tokens = speculator.tokenize("List the planets of the solar system with one fact about each.")
        plain = generate(speculator, tokens, temperature=0.0, n_max=0, n_predict=96)
        generation = generate(speculator, tokens, temperature=0.0, n_max=4, n_predict=96)
        print(
            f"\nacceptance {generation.stats.acceptance_rate:.3f}",
            greedy_difference(speculator, tokens, generation, plain),
        )
        assert generation.stats.acceptance_rate > 0.9
        assert generation.stats.mean_accepted_length > 4.0


@pytest.mark.long
@pytest.mark.parametrize("n_least", [612, 4000])
def test_a_sliding_window(gemma, n_least):
    """A prompt longer than the window: rejected drafts are cut from a cache that has forgotten its beginning."""
    with api.load(gemma, gemma, context_options=replace(CONTEXT, ctx_size=8192), n_max=4) as speculator:
        target = speculator.pair.target
        text = " ".join(
            f"In {year} the village counted {year * 7 % 613} sheep and {year % 89} goats."
            for year in range(1900, 1900 + n_least * 45 // 612)
        )
        tokens = target.model.vocab.tokenize(text, add_special=True, parse_special=False)
        assert target.model.n_swa == 512 < n_least < len(tokens) < 8000
        options = {"temperature": 0.0, "top_p": 1.0, "min_p": 0.0}
        plain = generate(speculator, tokens, n_max=0, n_predict=48, **options)
        for draft_temperature in (None, 8.0):  # the second draft is drawn, and mostly wrong
            generation = generate(
                speculator, tokens, n_max=4, n_predict=48, draft_temperature=draft_temperature, **options
            )
            difference = greedy_difference(speculator, tokens, generation, plain)
            print(f"\nacceptance {generation.stats.acceptance_rate:.3f}", difference)
            if draft_temperature:
                assert generation.stats.rejected > 10
            else:
                assert generation.stats.acceptance_rate > 0.9
