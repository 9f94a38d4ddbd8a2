"""The pair inside specli: small, honest, coherent, and lossless like any other."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from terminals import environment, python, run_in_pty

from specli import api
from specli.bench.prompts import story_prompts
from specli.decoding.pair import Generation
from specli.decoding.stats import summed
from specli.llama.options import ContextOptions
from specli.models import stories as inside

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from stories import english
from stories.corpus import story
from stories.plan import DRAFT_STAGES, TARGET_STAGES, n_stories
from story_card import copied, ends_well, token_entropies

NAMES = {name for names in english.NAMES.values() for name in names}
WHOLE = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
N_SEEDS = 12


@pytest.fixture(scope="module")
def pair() -> Iterator[api.Speculator]:
    with api.load(inside.TARGET, inside.DRAFT, context_options=ContextOptions(ctx_size=1024), n_max=8) as speculator:
        yield speculator


def told(pair: api.Speculator, prompt: str = inside.PROMPT, **options: object) -> Generation:
    generation = pair.generate(prompt, **{"n_max": 6, **options})  # fixed: automatic lengths would follow the clock
    for _ in generation:
        pass
    return generation


@cache
def words_of_the_corpus() -> set[str]:
    return {word for seed in range(4000) for word in words(story(seed)[1])}


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def test_it_is_as_small_as_it_says(pair: api.Speculator) -> None:
    target, draft = pair.pair.target.model.n_parameters, pair.pair.draft.model.n_parameters
    assert 15e6 <= target <= 25e6 and draft * 20 <= target
    assert sum(path.stat().st_size for path in (inside.TARGET, inside.DRAFT)) <= 20e6


@pytest.fixture(scope="module")
def told_hot(pair: api.Speculator) -> list[Generation]:
    """Stories at temperature 1, without truncation."""
    return [told(pair, seed=seed, **WHOLE) for seed in range(N_SEEDS)]


def test_stories_differ_and_end(told_hot: list[Generation]) -> None:
    texts = [generation.text for generation in told_hot]
    assert len(set(texts)) == N_SEEDS
    assert all(generation.stop_reason == "eog" and ends_well(generation.text) for generation in told_hot)


def test_stories_keep_to_their_hero_and_their_words(pair: api.Speculator) -> None:
    """What a grammar's stories have and babble has not: known words, few names that come back, five paragraphs."""
    texts = [told(pair, seed=seed).text for seed in range(N_SEEDS)]
    assert len(set(texts)) == N_SEEDS
    for text in texts:
        assert ends_well(text) and len(text.split("\n")) == 5, text
        unknown = set(words(text)) - words_of_the_corpus()
        assert not unknown, (unknown, text)
        named = [word for word in re.findall(r"[A-Z][a-z]+", text) if word in NAMES]
        assert not text.isascii() or (len(set(named)) <= 3 and named.count(named[0]) >= 4), (named, text)


def test_the_text_has_choices_and_the_draft_knows_most_of_them(
    pair: api.Speculator, told_hot: list[Generation]
) -> None:
    prompt = pair.tokenize(inside.PROMPT)
    entropies = [h for one in told_hot[:4] for h in token_entropies(pair, prompt, one.token_ids)]
    assert np.mean(entropies) >= 0.8
    assert 0.5 < summed(generation.stats for generation in told_hot).acceptance_rate < 0.99


@pytest.mark.parametrize(
    "request_, expected",
    [
        ("Tell me a story about an owl named Tilda.", "Tilda"),
        ("讲一个小兔子的故事。", "小兔子"),
        ("A story about the moon.", "moon"),
    ],
)
def test_requests_are_heard(pair: api.Speculator, request_: str, expected: str) -> None:
    assert sum(expected in told(pair, request_, temperature=0.8, seed=seed).text for seed in range(3)) >= 2


def test_whatever_is_asked_a_story_is_told(pair: api.Speculator) -> None:
    for request_ in ("Write a Python function.", "hello", "什么？", "3 × 7 = ?", "🦊"):
        assert ends_well(told(pair, request_, temperature=0.8, seed=1).text), request_


def as_users_have_it() -> dict[str, str]:
    """An environment in which lengths are automatic."""
    return {name: value for name, value in environment().items() if not name.startswith("LLAMA_ARG_")}


def specli(*arguments: str, typed: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run it as users do."""
    command, env = python("-m", "specli", *arguments), as_users_have_it()
    return subprocess.run(
        command, capture_output=True, text=True, env=env, input=typed, timeout=200, cwd=folder, check=False
    )


def test_specli_run_alone_tells_a_story_that_it_can_repeat() -> None:
    first, again = specli("run"), specli("run")
    assert first.returncode == 0 and ends_well(first.stdout.removesuffix("\n")), first.stderr
    assert "no --target" in first.stderr and f"seed {inside.SEED}" in first.stderr
    assert again.stdout == first.stdout
    assert specli("run", "--seed", "2").stdout != first.stdout


def test_at_a_terminal_it_does_not_ask_for_a_prompt() -> None:
    assert "the model ended it" in run_in_pty(python("-m", "specli", "run"), env=as_users_have_it()).decode()


def test_a_prompt_of_standard_input_is_told_a_story_and_a_blank_one_is_none() -> None:
    assert "snail" in specli("run", typed="Tell me a story about a snail.\n").stdout
    assert specli("run", typed=" \n\n").stdout == specli("run").stdout


def test_every_command_has_it_where_no_target_is_named() -> None:
    plan = specli("sweep", "--dry-run")
    assert plan.returncode == 0 and f"{len(story_prompts())} prompts" in plan.stderr, plan.stderr
    chat = specli("chat", "--seed", "1", typed="Tell me a story.\n再讲一个吧！\n")
    assert chat.returncode == 0 and chat.stdout.count("The end.") + chat.stdout.count("完。") == 2, chat.stdout
    refused = specli("run", "-sys", "Be brief.")
    assert refused.returncode == 1 and "no system message" in refused.stderr, refused.stderr
    missing = specli("run", "--draft", str(inside.DRAFT))
    assert missing.returncode == 2 and "no --target is named" in missing.stderr


def test_a_folder_of_its_name_does_not_stand_in_its_way(tmp_path: Path) -> None:
    (tmp_path / inside.NAME).mkdir()
    assert specli("run", "--target", inside.NAME, "-n", "8", folder=tmp_path).returncode == 0


@pytest.mark.long
def test_it_is_verified_as_others_are() -> None:
    proof = specli("verify")
    assert proof.returncode == 0, proof.stdout + proof.stderr


def test_it_is_a_model_like_others() -> None:
    listed = {model["name"]: model for model in json.loads(specli("models", "--format", "json").stdout)["here"]}
    assert listed[inside.NAME]["drafts_here"] == [inside.DRAFT_NAME]
    assert specli("models", "path", inside.NAME).stdout.strip() == str(inside.TARGET)
    refused = specli("models", "remove", inside.NAME)
    assert refused.returncode == 1 and "part of specli" in refused.stderr and inside.TARGET.exists()
    named = json.loads(specli("run", "--target", inside.NAME, "-n", "8", "--format", "json", "Hello").stdout)
    assert named["draft"]["path"] == str(inside.DRAFT)
    fits = json.loads(specli("inspect", inside.NAME, "--with", inside.DRAFT_NAME, "--format", "json").stdout)
    assert fits["pair"]["vocabulary_difference"] is None


@pytest.mark.long
def test_a_hundred_seeds_tell_a_hundred_stories_that_nobody_wrote(pair: api.Speculator) -> None:
    texts = [told(pair, seed=seed, **WHOLE).text for seed in range(100)]
    assert len(set(texts)) == 100
    assert copied(texts, max(n_stories(TARGET_STAGES), n_stories(DRAFT_STAGES))) == 0
