"""The measuring tools: what their figures are made of."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specli.decoding.costs import CostCurve, Costs
from specli.decoding.draft_length import FixedLength
from specli.decoding.policy import FixedPolicy
from specli.decoding.replay import replay
from specli.decoding.trace import Proposal, Trace
from specli.drafters.drafter import shared_prefix
from specli.errors import SpecliError, UsageError
from specli.sampling.transforms import SamplingOptions

sys.path.append(str(Path(__file__).parents[1] / "tools"))

import bench_auto
import bench_peer
import bench_policy
import bench_rounds
import peer_report
from peer_server import PeerServer, Run, read_run

from specli.bench import intervals


def run(**changes):
    """A run of 9 tokens that took 3 s, the first of them 1 s."""
    values = {"text": "", "n_tokens": 9, "n_first": 1, "first_seconds": 1.0, "seconds": 3.0}
    return Run(**{**values, "drafted": 8, "accepted": 6, "rounds": 3, "round_tokens": 9, **changes})


def test_what_comes_with_the_first_arrival_is_not_decode_speed():
    assert run().decode_speed == pytest.approx(8 / 2)
    assert run(n_first=5).decode_speed == pytest.approx(4 / 2)
    assert run(n_first=5).request_speed == pytest.approx(9 / 3)


def event(n_tokens, content, **more):
    return {"tokens_predicted": n_tokens, "content": content, **more}


def test_a_stream_of_the_server_becomes_a_run():
    """Token 2 ends within a character and has no event; the prompt's pass gave token 1, two rounds the other five."""
    counts = {"draft_n": 8, "draft_n_accepted": 3}
    stream = [
        (11.0, event(1, "a")),
        (12.0, event(3, "é")),
        (12.0, event(4, "b")),
        (13.0, event(5, "c")),
        (13.0, event(6, "d")),
        (13.5, event(6, "", stop=True, timings=counts)),
    ]
    assert read_run(stream, 10.0) == run(
        text="aébcd", n_tokens=6, drafted=8, accepted=3, rounds=2, round_tokens=5, first_seconds=1.0, seconds=3.0
    )


def test_a_stream_that_ends_early_is_an_error():
    with pytest.raises(SpecliError, match="broke off"):
        read_run([(1.0, event(1, "a"))], 0.0)


def test_questions_are_the_first_of_each_category_in_a_fixed_order():
    rows = [
        {"question_id": i, "category": category, "turns": [f"question {i}", "more"]}
        for i, category in enumerate(["stem", "qa", "coding", "qa", "math", "writing"])
    ]
    chosen = bench_peer.choose_questions(rows, 4)
    assert [question.name for question in chosen] == ["writing 5", "coding 2", "qa 1", "stem 0"]
    assert chosen[0].text == "question 5"


def test_sets_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(UsageError, match="--prompts FILE"):
        bench_peer.read_sets([])
    with pytest.raises(UsageError, match="absent"):
        bench_peer.read_sets([tmp_path / "absent"])
    (tmp_path / "text").write_text("no JSON")
    with pytest.raises(UsageError, match="JSON object"):
        bench_peer.read_sets([tmp_path / "text"])


def test_expected_acceptance_by_hand():
    p, q = [0.5, 0.2, 0.3], [0.1, 0.6, 0.3]
    logits = [np.log(np.array([row], np.float32)) for row in (p, q)]
    assert bench_peer.expected_acceptance(*logits) == pytest.approx((0.1 + 0.2 + 0.3, 0.2, 1), abs=1e-6)
    forbidding = bench_peer.expected_acceptance(*logits, forbidden=[1])  # p = 5/8, 3/8 and q = 1/4, 3/4
    assert forbidding == pytest.approx((1 / 4 + 3 / 8, 3 / 8, 1), abs=1e-6)


def test_intervals_hold_the_estimate_and_know_certainty():
    rng = np.random.default_rng(1)
    ones = np.ones((5, 3))
    assert intervals.median_ratio(1.2 * ones, ones) == pytest.approx((1.2, 1.2, 1.2))
    noisy = intervals.median_ratio(ones + rng.random((5, 3)), ones)
    assert noisy.low < noisy.value < noisy.high
    assert intervals.pooled_ratio((6 * ones, 2 * ones), (4 * ones, 2 * ones)) == pytest.approx((1.5, 1.5, 1.5))


def test_prompts_are_resampled_before_rounds():
    """Two prompts that differ, each always the same: what is unknown is which prompts there are."""
    ratios = np.array([[1.0] * 50, [2.0] * 50])
    estimate = intervals.median_ratio(ratios, np.ones_like(ratios))
    assert (estimate.low, estimate.high) == (1.0, 2.0)


def test_the_document_says_which_goals_are_met():
    specli, peer = [[run(llama_seconds=2.9)]], [[run(seconds=4.0, accepted=5, rounds=4)]]
    comparison = peer_report.Comparison(specli, peer)
    settings = peer_report.Settings("command", "server", "1", n_max=4, tokens=9, rounds=1, threads=1)
    text = peer_report.document(settings, ["qa 1"], [20], comparison, comparison, [peer_report.Acceptance(0.8, 0.7, 9)])
    goals = [line for line in text.splitlines() if line.endswith(("✓ |", "✗ |"))]
    assert [line.split(" | ")[-1][0] for line in goals] == ["✓", "✓", "✗", "✓", "✗", "✗"]
    assert "| 75.0% | 62.5% | 80.0% | 70.0% | 9 |" in text


def test_a_server_that_does_not_start_is_reported_with_its_words(tmp_path):
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\necho cannot start >&2\nexit 3\n")
    program.chmod(0o755)
    server = PeerServer(program, tmp_path / "t", ["-md", str(tmp_path / "d")], ctx_size=64, threads=1)
    with pytest.raises(SpecliError, match=r"(?s)ended with 3.*cannot start"), server:
        pass


def test_rows_come_round_and_the_loop_runs_on_them():
    rows = np.arange(7 * 40, dtype=np.float32).reshape(7, 40)
    decoder = bench_rounds.RowDecoder(rows, 100)
    decoder.decode([0] * 6, 0)
    assert np.array_equal(decoder.decode([1, 2, 3], 3), rows[[6, 0, 1]])
    decoder.truncate(7)
    assert np.array_equal(decoder.decode([5], 1), rows[[0]])

    same, _ = bench_rounds.synthetic_rows(7, 300)
    case = bench_rounds.Case("greedy", SamplingOptions(temperature=0.0), "match", None)
    seconds, tokens_per_round = bench_rounds.measure(case, same, same, 5)
    assert len(seconds) == 5
    assert tokens_per_round == bench_rounds.N_MAX + 1  # the draft is the target


def trace_of(chance, seed, n_tokens=20):
    """A text and drafts of which each token is right with a probability."""
    rng = np.random.default_rng(seed)
    proposals = [
        Proposal([100 + i + j if rng.random() < chance else 1 for j in range(6)], [chance] * 6) for i in range(n_tokens)
    ]
    text = list(range(100, 100 + n_tokens))
    curve = {1: 1.0, 2: 1.3, 7: 2.0}
    return Trace([0, 1], text, [chance] * n_tokens, {"model": proposals}, [], curve, {"model": 0.1}, {"model": 0.01})


@pytest.mark.parametrize("chance", [0.0, 0.6, *(pytest.param(chance, marks=pytest.mark.long) for chance in (0.9, 1.0))])
def test_nothing_is_faster_than_the_oracle_and_it_can_be_reached(chance):
    for seed in range(5):
        text = trace_of(chance, seed)
        costs = Costs(CostCurve(text.target_seconds), dict(text.step_seconds), {"model": 0.0}, frozen=True)
        oracle = bench_policy.oracle_seconds(text, costs, ["model"])
        for n_max in range(7):
            fixed = replay(text, FixedPolicy(FixedLength(n_max)), costs, ["model"], 6).seconds
            assert oracle <= fixed + 1e-9
        assert oracle <= bench_policy.auto_seconds(text, costs, ["model"], {}) + 1e-9
        assert oracle == pytest.approx(fastest(text, costs, 0))


def fastest(text, costs, done):
    """The least time by trying everything."""
    left = len(text.tokens) - done
    if left == 0:
        return 0.0
    best = np.inf
    for n_max in range(min(6, left - 1) + 1):
        drafted = text.proposals["model"][done].tokens[:n_max]
        n_accepted = shared_prefix(drafted, text.tokens[done:])
        if n_accepted == n_max:  # rejected tokens only cost
            seconds = n_max * costs.step("model") + costs.target.seconds(n_max + 1)
            best = min(best, seconds + fastest(text, costs, done + n_max + 1))
    return best


def test_policies_are_compared_on_every_machine():
    names = [f"text-{seed}" for seed in range(4)]
    traces = [replace(trace_of(0.8, seed, 70), looked_up=["suffix"]) for seed in range(4)]
    traces = [replace(trace, proposals={**trace.proposals, "suffix": [Proposal([], [])] * 70}) for trace in traces]
    text = bench_policy.document(names, traces)
    assert text.count("| as measured |") == 2 and text.count("| flat to 32, draft step 1/30 |") == 2
    assert all(text.count(f"| {name} |") == 2 for name in names)


def test_automatic_lengths_are_asked_for_so_many_of_each_group():
    categories = ["writing", "writing", "coding", "stem", "qa", "qa", "qa", *["edit"] * 5, "unknown"]
    rows = [{"question_id": i, "category": name, "turns": [f"question {i}"]} for i, name in enumerate(categories)]
    chosen = bench_auto.choose_questions(rows, 2)
    assert [question.name for question in chosen] == [
        *("mt_bench 0", "mt_bench 2"),
        *("qa 4", "qa 5"),
        *("edit 7", "edit 8", "edit 9", "edit 10"),
    ]


def test_speedups_are_over_plain_decoding_of_the_same_prompt_and_round():
    def timings(*speeds):
        return [[bench_auto.Timing(speed, speed, 0.5) for speed in runs] for runs in speeds]

    plain, other = timings((1.0, 2.0), (4.0, 8.0)), timings((2.0, 4.0), (12.0, 24.0))
    measured = bench_auto.Measured([], ["qa", "rag"], {bench_auto.PLAIN: plain, "auto model": other})
    assert measured.speedup("auto model", "decode_speed", "qa").value == pytest.approx(2.0)
    assert measured.speedup("auto model", "decode_speed", "rag").value == pytest.approx(3.0)
    assert measured.speedup("auto model", "decode_speed").value == pytest.approx(2.5)
