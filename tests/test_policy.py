"""Automatic lengths on texts and costs made up for it: fast where drafts pay, never far behind plain decoding."""

import copy
import dataclasses
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specli.decoding import measuring, remembered
from specli.decoding.calibration import Calibration
from specli.decoding.costs import CostCurve, Costs
from specli.decoding.draft_length import FixedLength
from specli.decoding.policy import AutoPolicy, FixedPolicy
from specli.decoding.remembered import Learnt
from specli.decoding.replay import ReplayDrafter, replay
from specli.decoding.round import Round
from specli.decoding.trace import LENGTH, Proposal, Trace, load

N_MAX = LENGTH
FLAT = {1: 1.0, 33: 1.2}
STEPS = {1: 1.0, 2: 1.7, 5: 1.9, 9: 2.2, 17: 3.9}
PROPORTIONAL = {1: 1.0, 2: 2.0}


def costs(target=FLAT, step=0.1, read=0.01):
    return Costs(CostCurve(target), {"model": step}, {"model": read}, frozen=True)


def scaled(usual, factor):
    """The same machine, slower by a factor."""
    target = {width: factor * seconds for width, seconds in usual.target.known.items()}
    return Costs(CostCurve(target), {"model": factor * usual.step("model")}, {"model": factor * usual.read("model", 1)})


def trace(acceptance, n_tokens=200, confident=True, seed=0, name="model", n_prompt=10):
    """A text whose drafts are right with a probability, at each token for itself; the confidence tells it or is random.

    Args:
        acceptance: Of each position of the text, or of all.
    """
    rng = np.random.default_rng(seed)
    chances = np.broadcast_to(acceptance, n_tokens)
    tokens = list(range(100, 100 + n_tokens))
    proposals = []
    for i in range(n_tokens):
        n = min(LENGTH, n_tokens - i)
        right = rng.random(n) < chances[i : i + n]
        proposed = [tokens[i + j] if right[: j + 1].all() else 1 for j in range(n)]
        confidences = chances[i : i + n] if confident else rng.random(n)
        proposals.append(Proposal(proposed, [float(c) for c in confidences]))
    looked_up = [] if name == "model" else [name]
    sure = [float(chance) for chance in (chances if confident else rng.random(n_tokens))]
    return Trace(list(range(n_prompt)), tokens, sure, {name: proposals}, looked_up, {}, {}, {})


def auto(believed, calibrations=None, **limits):
    return AutoPolicy(believed, {} if calibrations is None else calibrations, N_MAX, **limits)


def seconds(text, policy, true_costs, names=("model",)):
    return replay(text, policy, true_costs, names, N_MAX).seconds


def fixed(text, true_costs, n_max):
    return seconds(text, FixedPolicy(FixedLength(n_max)), true_costs)


def test_as_fast_as_the_best_fixed_length_and_never_slower_than_plain():
    """On average within 3 % of the length that turns out best for each text and cost, which nobody knows before."""
    shares = []
    for target, step, acceptance in itertools.product(
        (FLAT, STEPS, PROPORTIONAL), (0.02, 0.1, 0.5), (0.0, 0.3, 0.6, 0.9, 1.0)
    ):
        true_costs = costs(target, step)
        text = trace(acceptance, 400)
        taken = seconds(text, auto(true_costs), true_costs)
        best = min(fixed(text, true_costs, n_max) for n_max in (0, 1, 2, 3, 4, 6, 8, 12, 16))
        assert taken <= 1.03 * fixed(text, true_costs, 0)
        shares.append(best / taken)
    assert np.mean(shares) >= 0.97 and min(shares) >= 0.8


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1000),
    step=st.sampled_from([0.02, 0.2, 0.6]),
    read=st.sampled_from([0.0, 0.05]),
    target=st.sampled_from([FLAT, STEPS, PROPORTIONAL]),
    believed=st.sampled_from([FLAT, STEPS, PROPORTIONAL]),
    n_prompt=st.sampled_from([2, 300]),
)
def test_lies_cost_little(seed, step, read, target, believed, n_prompt):
    """Confidences that mean nothing, on a text that no draft ever fits: the account limits what that can cost."""
    text = trace(0.0, 300, confident=False, seed=seed, n_prompt=n_prompt)
    true_costs = costs(target, step, read)
    taken = seconds(text, auto(costs(believed, step, read)), true_costs)
    really, supposedly = (
        [CostCurve(curve).seconds(n + 1) - 1.0 + n * step for n in range(1, N_MAX + 1)] for curve in (target, believed)
    )
    shown = max(a / b for a, b in zip(really, supposedly, strict=True))  # what a draft costs for what it seems to
    reading = (n_prompt + 300) * read  # the prompt, and what plain decoding has added before a draft
    assert taken <= 300 + max(1.0, shown) * (8.0 + 0.02 * 300) + 2 * reading


@pytest.mark.parametrize("target", [FLAT, STEPS, PROPORTIONAL])
def test_lookups_that_lie_cost_little(target):
    for seed in range(5):
        text = trace(0.0, 300, confident=False, seed=seed, name="suffix")
        taken = seconds(text, auto(costs(target)), costs(target), ["suffix"])
        assert taken <= 300 + 2.0 + 0.02 * 300


def test_a_lookup_earns_trust_by_guesses_that_come_true():
    """Where the shortest draft costs more than a lookup is trusted with at first, who guesses right drafts sooner."""
    dear = costs({1: 1.0, 2: 4.0, 17: 4.2})
    right = trace(1.0, 200, name="suffix")
    proposals = [
        Proposal([1, *proposal.tokens[1:]], proposal.confidences) if i % 6 == 5 else proposal
        for i, proposal in enumerate(right.proposals["suffix"])
    ]
    often_wrong = replace(right, proposals={"suffix": proposals})
    first, later = (
        next((i for i, round_ in enumerate(rounds) if round_.drafted), len(rounds))
        for rounds in (replay(text, auto(dear), dear, ["suffix"], N_MAX).rounds for text in (right, often_wrong))
    )
    assert first < 15 and 2 * first < later < 200


def test_a_lookup_is_judged_by_the_tokens_it_did_not_draft():
    """Where no draft pays, its guesses come true or not all the same."""
    true_costs, calibrations = costs(PROPORTIONAL), {}
    text = trace(0.5, 100, name="suffix")
    rounds = replay(text, auto(true_costs, calibrations), true_costs, ["suffix"], N_MAX).rounds
    assert not any(round_.drafted for round_ in rounds)
    n_right = sum(p.tokens[0] == token for p, token in zip(text.proposals["suffix"], text.tokens, strict=True))
    learnt = calibrations["suffix"]
    assert sum(learnt.judged) == pytest.approx(99, rel=0.2)  # of the last, nobody is asked
    assert sum(learnt.accepted) / sum(learnt.judged) == pytest.approx(n_right / 100, abs=0.1)


@pytest.mark.parametrize("target", [FLAT, STEPS, PROPORTIONAL])
def test_trust_betrayed_costs_no_more_than_the_allowance(target):
    """Sure of all, and wrong at every eleventh token: what ten right guesses earn is the most that is lost."""
    text = trace([1.0 if i % 11 else 0.0 for i in range(330)], 330, name="suffix")
    for proposal in text.proposals["suffix"]:
        proposal.confidences[:] = [1.0] * len(proposal.confidences)
    taken = seconds(text, auto(costs(target)), costs(target), ["suffix"])
    assert taken <= 330 + 4.0 + 0.02 * 330


@pytest.mark.parametrize("target", [FLAT, STEPS])
def test_bad_luck_in_one_text_does_not_spoil_the_next(target):
    """Sure and wrong in one, sure and right in the other."""
    true_costs = costs(target, 0.25)
    wrong, right = trace(0.0, 200), trace(1.0, 200)
    sure = [Proposal(proposal.tokens, [0.99] * len(proposal.tokens)) for proposal in wrong.proposals["model"]]
    wrong = replace(wrong, confidences=[0.99] * 200, proposals={"model": sure})
    calibrations = {}
    seconds(wrong, auto(true_costs, calibrations), true_costs)
    assert seconds(right, auto(true_costs, calibrations), true_costs) < 0.7 * 200


def test_a_text_that_becomes_predictable_is_noticed():
    text = trace(np.repeat([0.0, 1.0], 200), 400)
    true_costs = costs(STEPS, 0.1)
    plain_half = 200.0
    assert seconds(text, auto(true_costs), true_costs) < plain_half * 1.05 + 0.7 * plain_half


def test_a_long_prompt_is_not_read_for_a_short_answer():
    """Reading it would take longer than all that drafts could save."""
    text = trace(0.0, 64, n_prompt=3000)
    true_costs = costs(STEPS, 0.3, read=0.02)
    assert seconds(text, auto(true_costs), true_costs) == pytest.approx(64.0, rel=0.03)


def test_what_was_learnt_is_of_use_to_the_next_text():
    """A draft that is sure and wrong costs something once."""
    text = trace(0.0, 100, confident=False)
    true_costs = costs(STEPS, 0.2)
    calibrations = {}
    first = seconds(text, auto(true_costs, calibrations), true_costs)
    for seed in range(5):
        seconds(trace(0.0, 100, confident=False, seed=seed), auto(true_costs, calibrations), true_costs)
    assert seconds(text, auto(true_costs, calibrations), true_costs) < first


def test_the_better_of_two_is_asked():
    good, bad = trace(1.0, name="suffix"), trace(0.2)
    text = replace(good, confidences=bad.confidences, proposals={**good.proposals, **bad.proposals})
    true_costs = costs(STEPS, 0.3)
    alone = seconds(good, auto(true_costs), true_costs, ["suffix"])
    assert seconds(text, auto(true_costs), true_costs, ["suffix", "model"]) <= 1.02 * alone
    assert seconds(text, auto(true_costs), true_costs, ["model", "suffix"]) <= 1.02 * alone


def test_the_same_again():
    """It looks at no clock: the same costs and texts give the same lengths."""
    text, true_costs = trace(0.7, confident=False), costs(STEPS, 0.1)
    assert replay(text, auto(true_costs), true_costs, ["model"], N_MAX) == replay(
        text, auto(copy.deepcopy(true_costs)), true_costs, ["model"], N_MAX
    )


def test_discarded_tokens_are_not_judged():
    """What the end of the text cut off was neither accepted nor rejected."""
    policy = auto(costs(FLAT, 0.01))
    text = trace(1.0, 50)
    drafter = ReplayDrafter("model", text)
    drafter.begin(text.prompt)
    choice = policy.choose([drafter], text.prompt, 8, None)
    drafted = drafter.propose(text.prompt, None, lambda distribution, i: 0, choice.rule).tokens
    assert len(drafted) == 8
    tokens = tuple(drafted[:3])
    policy.learn(
        Round("model", tuple(drafted), 3, 0, 5, tokens, ("",) * 3, "stop", 0.0, 0.1, 1.2, 0.0, 1.3), lambda i: 1.0
    )
    assert sum(policy.calibrations["model"].judged) == pytest.approx(3, rel=0.02)
    assert sum(policy.calibrations["model"].accepted) == pytest.approx(3, rel=0.02)


def test_limits_are_kept():
    text, true_costs = trace(0.9, 100, confident=False), costs(FLAT, 0.01)
    policy = auto(true_costs, n_min=3, p_min=0.5)
    lengths, confidences = [], []
    learn = policy.learn

    def learning(round_, confidence):
        lengths.append(len(round_.drafted))
        confidences.extend(policy._chosen.confidences[3 : lengths[-1]] if lengths[-1] else [])
        learn(round_, confidence)

    policy.learn = learning
    seconds(text, policy, true_costs)
    assert any(lengths) and all(length == 0 or length >= 3 for length in lengths)
    assert all(confidence >= 0.5 for confidence in confidences)


# The parts


@settings(max_examples=200, deadline=None, derandomize=True)
@given(known=st.dictionaries(st.integers(2, 40), st.floats(0.5, 9.0), max_size=6), width=st.integers(1, 64))
def test_costs_between_widths_lie_between_theirs(known, width):
    curve = CostCurve({1: 1.0, **known})
    below = max(w for w in {1, *known} if w <= width)
    above = min((w for w in known if w >= width), default=None)
    if above is None:
        assert curve.seconds(width) == pytest.approx(curve.seconds(below) * width / below)
    else:
        ends = sorted([curve.seconds(below), curve.seconds(above)])
        assert ends[0] - 1e-9 <= curve.seconds(width) <= ends[1] + 1e-9


def test_costs_follow_what_is_observed():
    curve = CostCurve({1: 1.0, 5: 2.0})
    for _, width in itertools.product(range(200), (1, 3, 5)):
        curve.observe(width, {1: 2.0, 3: 5.0, 5: 3.0}[width])
    assert [curve.seconds(width) for width in (1, 3, 5)] == pytest.approx([2.0, 5.0, 3.0], rel=0.1)


@pytest.mark.parametrize("slower", [4.0, 0.25])
def test_a_machine_that_changes_its_speed_does_not_change_what_pays(slower):
    """A long prompt is not read by the draft model because plain decoding has just become slow."""
    text = trace(0.9, 400, n_prompt=2000)
    usual = costs(STEPS, 0.3, read=0.05)
    believed, now = copy.deepcopy(usual), scaled(usual, slower)
    believed.frozen = False
    assert not any(round_.drafted for round_ in replay(text, auto(usual), usual, ["model"], N_MAX).rounds)
    assert not any(round_.drafted for round_ in replay(text, auto(believed), now, ["model"], N_MAX).rounds)


def test_costs_of_drafts_keep_their_proportion_to_plain_decoding():
    believed = Costs(CostCurve({1: 1.0, 5: 2.0}), {"model": 0.3}, {"model": 0.02}, 0.1)
    for _ in range(200):
        believed.observe(1, 4.0)
    drafting = [believed.step("model"), believed.read("model", 1), believed.save_seconds]
    assert drafting == pytest.approx([1.2, 0.08, 0.4], rel=0.05)
    believed.observe_steps("model", 1, 1.2 * 1.4)
    assert believed.step("model") > 1.2


def test_costs_say_how_far_they_were_too_high():
    curve = CostCurve({1: 4.0, 5: 9.0})
    for _ in range(200):
        curve.observe(1, 1.0)
    assert curve.overestimate == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize("unit", [0.0005, 0.02])
@given(begins=st.floats(0.0, 2.0), lasts=st.floats(0.0, 1.0))
def test_what_else_the_machine_does_for_a_moment_is_not_measured(unit, begins, lasts):
    """Ten times as slow for a while that is shorter than a round of all widths, whenever that is."""
    true = {width: unit * (1 + 0.3 * width) for width in (1, 4, 2, 8, 16, 32)}
    a_round = sum(true.values())
    busy_from = begins * a_round
    busy_until = busy_from + lasts * 0.5 * (a_round - true[32])
    now = 0.0

    def work(width: int) -> None:
        nonlocal now
        now += true[width] * (10.0 if busy_from <= now < busy_until else 1.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring.time, "perf_counter", lambda: now)
        assert measuring._time_widths(work, list(true), 100.0) == pytest.approx(true)


def test_slow_models_are_measured_as_far_as_the_time_allows(monkeypatch):
    now = 0.0

    def work(width: int) -> None:
        nonlocal now
        now += 0.1 * width

    monkeypatch.setattr(measuring.time, "perf_counter", lambda: now)
    assert measuring._time_widths(work, (1, 4, 2, 8, 16, 32), 2.2) == pytest.approx({1: 0.1, 4: 0.4, 2: 0.2, 8: 0.8})
    assert now <= 2.3
    assert measuring._time_widths(work, (1, 4), 0.0) == pytest.approx({1: 0.1})


def test_one_hiccup_moves_little():
    curve = CostCurve({1: 1.0, 5: 2.0})
    curve.observe(1, 100.0)
    assert curve.seconds(1) < 1.1 and curve.seconds(5) < 2.1


def test_calibration_learns_what_confidence_is_worth():
    calibration = Calibration("lookup")
    rng = np.random.default_rng(0)
    for confidence in rng.random(5000):
        calibration.judge(confidence, rng.random() < confidence**2)
    for confidence in (0.15, 0.55, 0.85):
        assert calibration.probability(confidence) == pytest.approx(confidence**2, abs=0.12)


def test_what_is_remembered_is_found_again(tmp_path):
    calibration = Calibration("model")
    for i in range(50):
        calibration.judge(0.7, i % 3 == 0)
        calibration.see([0.7, 0.9])
        calibration.expect(0.2)
    file = remembered.memory_file(tmp_path / "deep", {"target": "x"})
    assert remembered.load(file) is None
    remembered.save(file, Learnt(costs(STEPS, 0.3), {"model": calibration}))
    found = remembered.load(file)
    assert found.costs.target.known == STEPS and found.costs.step_seconds == {"model": 0.3}
    assert found.calibrations["model"].tables == calibration.tables
    for confidence in (0.05, 0.5, 0.7, 0.99):  # those never seen come from the prior
        assert found.calibrations["model"].probability(confidence) == calibration.probability(confidence)
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert remembered.memory_file(tmp_path / "deep", {"target": "y"}) != file


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "null", "{}", '{"schema": "specli.memory/4", "target_seconds": {"0": 1}}']
)
def test_what_is_no_memory_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match="damaged"):
        remembered.load(tmp_path / "x.json")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_damaged_memory_is_refused_never_believed(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("memory") / "x.json"
    remembered.save(file, Learnt(costs(STEPS, 0.3), {"model": Calibration("model")}))
    text = file.read_text()
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    file.write_text(text[:start] + data.draw(st.sampled_from(["", "null", "-1", "x", "[]", "9e99"])) + text[end:])
    try:
        found = remembered.load(file)
    except ValueError:
        return
    assert found.costs.target.seconds(1) > 0.0
    assert all(0.0 <= calibration.probability(0.5) <= 1.0 for calibration in found.calibrations.values())
    assert all(math.isfinite(value) for value in found.costs.step_seconds.values())


# Real texts


TRACES = sorted((Path(__file__).parent / "traces").glob("*.json"))
HARDWARE = {
    "a CPU": costs({1: 1.0, 2: 1.6, 5: 1.9, 9: 2.6, 17: 3.2}, 0.45, 0.06),
    "flat to 8": costs({1: 1.0, 8: 1.1, 16: 2.0, 32: 4.0}, 0.1),
    "flat to 32": costs({1: 1.0, 32: 1.2}, 1 / 30, 1 / 300),
}


@pytest.mark.parametrize("machine", HARDWARE)
def test_on_real_texts_no_fixed_length_is_much_faster(machine):
    """Nothing is known of the texts; the best fixed length is chosen afterwards."""
    true_costs = HARDWARE[machine]
    texts = [load(file) for file in TRACES]
    assert len(texts) >= 10
    fixed_lengths = [sum(fixed(text, true_costs, n_max) for text in texts) for n_max in (0, 2, 4, 6, 8, 12)]
    for names in (["model"], ["suffix", "model"]):
        taken = sum(seconds(text, auto(true_costs), true_costs, names) for text in texts)
        assert taken <= min(fixed_lengths) / 0.97


# Targets whose memory cannot be cut, and drafts worked out at once


@pytest.mark.parametrize("acceptance", [0.3, 0.5, 0.7, 0.9])
def test_computing_again_what_was_accepted_is_reckoned_with(acceptance):
    """Who reckons with it is faster than who does not, and never much slower than plain decoding."""
    text, true_costs = trace(acceptance, 400), costs(STEPS, 0.05)
    true_costs.save_seconds = 0.05
    taken = []
    for save_seconds in (0.05, 0.0):
        believed, calibrations = copy.deepcopy(true_costs), {}
        believed.save_seconds = save_seconds
        taken += [seconds(text, auto(believed, calibrations), true_costs) for _ in range(2)]
    assert max(taken[:2]) <= 1.03 * 400
    assert taken[1] <= 1.04 * taken[3], "the second text, which knows how its drafts fare"
    if acceptance == 0.9:
        assert taken[1] < 0.65 * 400


def test_saving_a_state_is_remembered(tmp_path):
    believed = costs(STEPS, 0.3)
    believed.save_seconds = 0.02
    remembered.save(tmp_path / "x.json", Learnt(believed))
    assert remembered.load(tmp_path / "x.json").costs.save_seconds == 0.02


@pytest.mark.parametrize("acceptance", [0.1, 0.5, 0.8, 0.95])
def test_a_block_costs_one_step(acceptance):
    """Its length follows acceptance alone, and where one pass does not pay nothing is drafted."""
    text, true_costs = trace(acceptance, 400), costs(FLAT, 0.5)
    step_by_step = seconds(text, auto(copy.deepcopy(true_costs)), true_costs)
    block = dataclasses.replace(text, in_one_pass=["model"])
    done = replay(block, auto(copy.deepcopy(true_costs)), true_costs, ("model",), N_MAX)
    assert done.seconds <= 1.03 * 400
    assert done.seconds <= 1.01 * step_by_step
    if acceptance == 0.95:
        assert done.seconds < 0.4 * 400
        assert max(len(round_.drafted) for round_ in done.rounds) > 8
