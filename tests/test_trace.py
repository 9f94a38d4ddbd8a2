"""Traces: replayed, they are what the loop itself does."""

import json
from dataclasses import replace

import numpy as np
import pytest
from exact import ExactSampler, Rounds, Setup, Table, TableDecoder
from hypothesis import given, settings
from hypothesis import strategies as st

from specli.decoding import trace
from specli.decoding.costs import CostCurve, Costs
from specli.decoding.draft_length import FixedLength
from specli.decoding.policy import AutoPolicy, FixedPolicy
from specli.decoding.replay import ReplayDrafter, replay
from specli.drafters.drafter import shared_prefix
from specli.drafters.lookup import LookupDrafter
from specli.drafters.model import ModelDrafter
from specli.drafters.suffix import SuffixIndex
from specli.sampling.draws import SeededDraws
from specli.sampling.verification import verify_match

N_TOKENS, N_VOCAB = 40, 6


class GreedySampler(ExactSampler):
    """Takes the likeliest token, and says how likely it was, as ``Transforms`` does."""

    def confidence(self, logits, distribution):
        return float(np.exp(logits).max())


GREEDY = GreedySampler(temperature=0.0)


def costs(**changes):
    values = {"target": CostCurve({1: 1.0, 2: 1.4, 9: 2.0}), "step_seconds": {"model": 0.2}, "read_seconds": {}}
    return Costs(**{**values, **changes}, frozen=True)


def setup(seed, names, policy):
    """A greedy text of N_TOKENS tokens, by a draft table near the target's and a suffix drafter."""
    target = Table(N_VOCAB, seed)

    def drafters(draft):
        suffix = LookupDrafter("suffix", SuffixIndex(), N_VOCAB, trace.LENGTH)
        made = {"model": ModelDrafter(draft), "suffix": suffix}
        return [made[name] for name in names]

    return Setup(
        target,
        Table(N_VOCAB, seed + 1, near=target, distance=0.6),
        verify=verify_match,
        sampler=GREEDY,
        make_policy=lambda _: policy,
        n_ctx=len(Setup.prompt) + N_TOKENS - 1,
        make_drafter=drafters,
    )


def recorded(made):
    """The trace of the text that plain decoding writes."""
    plain = Rounds(replace(made, make_policy=lambda _: FixedPolicy(FixedLength(0))), SeededDraws(0))
    for _ in plain:
        pass
    drafters = [ModelDrafter(TableDecoder(made.draft)), LookupDrafter("suffix", SuffixIndex(), N_VOCAB, trace.LENGTH)]
    target = TableDecoder(made.target)
    return trace.record(target, drafters, made.prompt, plain.emitted, GREEDY, GREEDY, lambda token: False, costs())


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1000),
    names=st.sampled_from([["model"], ["suffix"], ["suffix", "model"]]),
    n_max=st.sampled_from([1, 3, 7, None]),
)
def test_a_replay_drafts_and_accepts_as_the_loop_does(seed, names, n_max):
    """Every policy, every round: the trace holds all that a policy can ask for."""

    def policy():
        return AutoPolicy(costs(), {}, 7) if n_max is None else FixedPolicy(FixedLength(n_max))

    made = setup(seed, names, policy())
    loop = Rounds(made, SeededDraws(0))
    seen = [(round_.drafter, round_.drafted, round_.n_accepted, round_.tokens) for round_ in loop]
    text = recorded(made)
    assert list(text.tokens) == loop.emitted
    again = replay(text, policy(), costs(), names, 7)
    assert [(round_.drafter, round_.drafted, round_.n_accepted, round_.tokens) for round_ in again.rounds] == seen


def test_a_replay_reads_what_the_draft_model_would():
    """What a lookup drafted is new to the draft model."""
    made = setup(2, ["suffix", "model"], None)
    text = recorded(made)
    context = list(text.prompt)
    replayed = ReplayDrafter("model", text)
    real = ModelDrafter(TableDecoder(made.draft))
    drafters = [replayed, real]
    for drafter in drafters:
        drafter.begin(context)
    rng = np.random.default_rng(0)
    while len(context) < len(text.prompt) + N_TOKENS - 8:
        assert replayed.forecast(context) == real.forecast(context)
        rest = text.tokens[len(context) - len(text.prompt) :]
        n_accepted = int(rng.integers(0, 4))  # by another drafter
        if rng.random() < 0.5:
            drafted, again = (
                drafter.propose(context, GREEDY, likeliest, FixedLength(3)).tokens for drafter in drafters
            )
            assert list(drafted) == list(again)
            n_accepted = shared_prefix(drafted, rest)
        for drafter in drafters:
            drafter.accept(n_accepted, rest[n_accepted])
        context += rest[: n_accepted + 1]


def likeliest(distribution, i):
    return trace.most_likely(distribution)


def test_a_draft_ends_with_the_text():
    made = setup(4, ["model"], FixedPolicy(FixedLength(0)))
    target, draft = TableDecoder(made.target), ModelDrafter(TableDecoder(made.draft))
    eog = trace.most_likely(GREEDY.distribution(TableDecoder(made.draft).decode(list(made.prompt), 1)[0], ()))
    text = trace.record(target, [draft], made.prompt, [0] * 5, GREEDY, GREEDY, lambda token: token == eog, costs())
    assert list(text.proposals["model"][0].tokens) == [eog]
    assert all(eog not in proposal.tokens[:-1] for proposal in text.proposals["model"])


def test_confidences_are_the_probabilities_before_the_draw():
    made = setup(3, ["model"], None)
    text = recorded(made)
    context = list(made.prompt)
    for i, token in enumerate(text.tokens):
        assert text.confidences[i] == pytest.approx(made.target.probabilities(tuple(context)).max(), abs=1e-4)
        probabilities = made.draft.probabilities(tuple(context))
        assert text.proposals["model"][i].tokens[0] == probabilities.argmax()
        assert text.proposals["model"][i].confidences[0] == pytest.approx(probabilities.max(), abs=1e-4)
        context.append(token)


def test_a_trace_is_read_as_it_was_written(tmp_path):
    text = recorded(setup(5, ["model"], None))
    trace.save(tmp_path / "x.json", text)
    assert trace.load(tmp_path / "x.json") == text


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda document: document.pop("tokens"), "not a trace"),
        (lambda document: document.update(schema="specli.trace/0"), "another version"),
        (lambda document: document["confidences"].pop(), "positions are missing"),
        (lambda document: document["proposals"]["model"].pop(), "positions are missing"),
        (lambda document: document.update(more=1), "not a trace"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, damage, words):
    file = tmp_path / "x.json"
    trace.save(file, recorded(setup(5, ["model"], None)))
    document = json.loads(file.read_text())
    damage(document)
    file.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=words):
        trace.load(file)
