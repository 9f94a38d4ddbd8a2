"""The closing report at any width, and the JSON documents."""

import io
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import fake_run
import pytest
from rich.cells import cell_len
from rich.console import Console

from specli.decoding.stats import Stats
from specli.report.documents import round_event, run_document
from specli.report.facts import Comparison, FirstDifference, ModelFacts, RunFacts
from specli.report.summary import print_summary

MIB = 1 << 20
TARGET = ModelFacts("/m/target.gguf", "qwen2", 1_543_714_304, 1060 * MIB, 20, 29, {"CPU": 1, "GPU": 2}, 224 * MIB)
DRAFT = ModelFacts("/m/draft.gguf", "qwen2", 494_032_768, 463 * MIB, 0, 25, {"CPU": 463 * MIB}, 96 * MIB)
SETTINGS = {"temperature": 0.8, "seed": 42, "n_max": 4, "verification": "block", "drafters": ["model"]}
FACTS = RunFacts(TARGET, DRAFT, SETTINGS, 1.25)


def generation(n_max: int = 4, stop_reason: str = "eog", n_rounds: int | None = None) -> SimpleNamespace:
    """What a ``Generation`` is to the report."""
    made = SimpleNamespace(stats=Stats(prompt_tokens=40, prefill_seconds=0.4), text="", token_ids=[])
    for round_ in list(fake_run.rounds(fake_run.TEXT, 0, n_max))[:n_rounds]:
        made.stats.add(round_)
        made.text += round_.text
        made.token_ids += round_.tokens
    made.stop_reason = stop_reason
    return made


def difference(gap: float | None, spread: float | None, token: int | None = 5) -> FirstDifference:
    return FirstDifference(56, token, 7, " foo[/b]", "\tbar\x1b[2J", gap, spread)


def compared(first_difference: FirstDifference | None, text_claimed: bool = True) -> RunFacts:
    return replace(FACTS, comparison=Comparison(generation(0), first_difference, text_claimed))


def summary(made: SimpleNamespace, facts: RunFacts = FACTS, width: int = 80) -> str:
    out = io.StringIO()
    print_summary(Console(file=out, width=width), made, facts)
    return out.getvalue()


def said(*arguments: object) -> str:
    """The summary on one line."""
    return " ".join(summary(*arguments).split())


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("n_max", [0, 1, 4, 20])
def test_the_summary_keeps_to_its_width_and_pads_nothing(width: int, n_max: int) -> None:
    lines = summary(generation(n_max), compared(difference(0.02, 0.1)), width).split("\n")
    assert all(cell_len(line) <= width for line in lines)
    assert all(line == line.rstrip() for line in lines)
    assert any(cell_len(line) > 0.7 * min(width, 80) for line in lines)
    assert width < 80 or n_max > 4 or len(lines) - 2 <= 15


def test_the_summary_tells_what_the_run_counted() -> None:
    made = generation()
    text, stats = said(made), made.stats
    assert f"{stats.tokens} in {stats.rounds} rounds" in text
    assert f"{stats.drafted}: {stats.accepted} accepted, {stats.rejected} rejected, {stats.discarded} discarded" in text
    assert f"{100 * stats.acceptance_rate:.1f}%" in text and f"τ {stats.mean_accepted_length:.2f}" in text
    assert "n-max 4" in text and "seed 42" in text and "verification block" in text
    assert "20 of 29 layers offloaded" in text and "weights 1.04 GiB, KV cache 224 MiB" in text
    assert "draft 20.0%, verify 80.0%, rest 0.0%" in text


def test_each_position_has_a_bar_as_long_as_its_acceptance() -> None:
    made = generation()
    made.stats.accepted_by_position, made.stats.drafted_by_position = [10, 5, 1, 0], [10, 10, 10, 10]
    assert "1 █████ 100% 2 ██▌ 50% 3 ▌ 10% 4 0%" in said(made)


def test_more_positions_than_fit_are_left_out_visibly() -> None:
    text = said(generation(20))
    assert "16 " in text.split("speed")[0] and "17 " not in text.split("speed")[0] and "…" in text
    assert "…" not in said(generation(16))


def test_plain_decoding_has_no_lines_about_drafts() -> None:
    text = said(generation(0), replace(FACTS, draft=None, settings={**FACTS.settings, "n_max": 0}))
    assert not any(word in text for word in ("draft", "accept", "reject", "position", "verif", "n-max"))
    assert "target 100.0%" not in text and "seed 42" in text


@pytest.mark.parametrize(
    "stop_reason, words",
    [
        ("eog", "the model ended it"),
        ("length", "the length asked for"),
        ("stop", "a stop string"),
        ("context", "the context is full"),
        ("interrupted", "interrupted"),
    ],
)
def test_the_summary_says_why_the_text_ended(stop_reason: str, words: str) -> None:
    assert f"ended: {words}" in said(generation(stop_reason=stop_reason))


def test_a_run_interrupted_before_its_first_round_has_a_summary() -> None:
    text = said(generation(n_rounds=0, stop_reason="interrupted"), compared(None))
    assert "0 in 0 rounds; ended: interrupted" in text and "nothing was decoded" in text


def test_the_comparison_says_what_it_found() -> None:
    made = generation()
    assert "identical to plain decoding" in said(made, compared(None))
    assert "2.79× end to end, 2.87× decode" in said(made, compared(None))
    numerics = said(made, compared(difference(0.02, 0.1)))
    assert "at token 57: ' foo[/b]' here, '\\tbar\\x1b[2J' there, 0.020 apart" in numerics
    assert numerics.endswith("moves that by 0.100: numerics")
    assert said(made, compared(difference(-0.3, 0.1))).endswith(
        "more than the 0.100 that other batch widths moved it by here"
    )
    assert "the end here" in said(made, compared(difference(None, None, token=None)))
    other = said(made, compared(difference(3.0, 0.1), text_claimed=False))
    assert "promises its distribution, not its text" in other and "numerics" not in other


def test_documents_are_json_whatever_is_in_them() -> None:
    facts = compared(difference(math.nan, math.inf))
    settings = {"temperature": math.nan, "top_p": math.inf, "logit_bias": ((1, -math.inf),), "seed": 1}
    made = generation()
    document = run_document(made, replace(facts, settings=settings))
    again = json.loads(json.dumps(document, allow_nan=False))
    assert again["settings"] == {"temperature": None, "top_p": None, "logit_bias": [[1, None]], "seed": 1}
    assert again["plain"]["first_difference"]["gap"] is None
    assert again["plain"]["identical"] is False
    assert again["accepted_by_position"] == made.stats.accepted_by_position
    assert again["token_ids"] == made.token_ids


def test_the_document_of_nothing_is_whole() -> None:
    document = run_document(generation(n_rounds=0, stop_reason="interrupted"), compared(None))
    assert document["acceptance_rate"] is None and document["tokens_per_second"] is None
    assert document["speedup"] is None and document["decode_speedup"] is None
    json.dumps(document, allow_nan=False)


def test_an_event_tells_a_round() -> None:
    round_ = next(r for r in fake_run.rounds(fake_run.TEXT, 0, 4) if 0 < r.n_accepted < 4)
    event = round_event(3, round_, lambda token: f"<{token}>")
    assert event["schema"] == "specli.round/1" and event["round"] == 3
    assert event["drafted"] == [0, 1, 2, 3] and event["drafted_texts"] == ["<0>", "<1>", "<2>", "<3>"]
    assert event["accepted"] + event["rejected"] + event["discarded"] == 4
    assert event["text"] == "".join(round_.texts) and len(event["tokens"]) == event["accepted"] + 1
    json.dumps(event, allow_nan=False)
