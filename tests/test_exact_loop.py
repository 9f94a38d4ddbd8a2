"""The loop writes the target's distribution: every random path enumerated, nothing sampled."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from exact import (
    ExactSampler,
    Fixed,
    LookupDrafter,
    Setup,
    Table,
    TableDecoder,
    assert_exact,
    law_of_loop,
    law_of_loop_unmerged,
    law_of_target,
)

from specli.decoding import loop
from specli.decoding.costs import CostCurve, Costs
from specli.decoding.draft_length import FixedLength
from specli.decoding.policy import AutoPolicy, FixedPolicy
from specli.drafters.lookup import LookupDrafter as TextDrafter
from specli.drafters.model import ModelDrafter
from specli.drafters.suffix import SuffixIndex
from specli.proof.enumeration import distance, every_path
from specli.sampling.distribution import Distribution
from specli.sampling.draws import SeededDraws
from specli.sampling.transforms import SamplingOptions, Transforms
from specli.sampling.verification import VERIFICATIONS, verify_block, verify_match, verify_token

every_verification = pytest.mark.parametrize("verify", VERIFICATIONS.values(), ids=VERIFICATIONS.keys())
TARGET, DRAFT = Table(3, seed=1), Table(3, seed=2)
SPARSE_TARGET, SPARSE_DRAFT = Table(3, seed=3, support=2), Table(3, seed=4, support=2)


def lookup(_: object) -> LookupDrafter:
    return LookupDrafter(3, seed=5)


# γ = 1 … 4 with full and one-hot drafts. Where every path of a long draft is too many, each context has two possible
# tokens of the three, or the text ends after γ + 2 tokens.


def fixed(*limits):
    return lambda setup: FixedPolicy(FixedLength(*limits))


@every_verification
@pytest.mark.parametrize("n_vocab, gamma", [(3, 1), (4, 1), (5, 1), (3, 2)])
def test_full_distributions(verify, n_vocab, gamma):
    assert_exact(Setup(Table(n_vocab, seed=1), Table(n_vocab, seed=2), gamma, verify))


@every_verification
@pytest.mark.parametrize("gamma", [3, 4])
def test_full_distributions_and_long_drafts(verify, gamma):
    target = SPARSE_TARGET if (verify, gamma) == (verify_match, 4) else TARGET
    assert_exact(Setup(target, DRAFT, gamma, verify, n_predict=gamma + 2))


@pytest.mark.parametrize(
    "verify, gamma", [(verify_token, 3), (verify_block, 3), (verify_match, 3), (verify_token, 4), (verify_block, 4)]
)
def test_long_drafts_without_an_end(verify, gamma):
    assert_exact(Setup(SPARSE_TARGET, SPARSE_DRAFT, gamma, verify))


@pytest.mark.long
@every_verification
@pytest.mark.parametrize("target, draft, gamma", [(TARGET, DRAFT, 3), (SPARSE_TARGET, SPARSE_DRAFT, 4)])
def test_all_paths_of_long_drafts(verify, target, draft, gamma):
    assert_exact(Setup(target, draft, gamma, verify))


@every_verification
@pytest.mark.parametrize("gamma", [1, 2, 3, 4])
def test_greedy_drafts(verify, gamma):
    target = TARGET if gamma < 4 else SPARSE_TARGET
    assert_exact(Setup(target, DRAFT, gamma, verify, draft_sampler=ExactSampler(temperature=0.0)))


@every_verification
@pytest.mark.parametrize("gamma", [1, 2, 3, 4])
def test_lookup_drafts(verify, gamma):
    target = TARGET if gamma < 4 else SPARSE_TARGET
    assert_exact(Setup(target, None, gamma, verify, make_drafter=lookup))


def test_plain_decoding():
    assert_exact(Setup(TARGET, gamma=0, make_drafter=lambda _: None), n=4)
    assert_exact(Setup(TARGET, DRAFT, gamma=0), n=4)


@every_verification
def test_greedy_target_writes_its_one_text(verify):
    for draft_temperature in (0.0, 1.0):
        setup = Setup(TARGET, DRAFT, 2, verify, ExactSampler(temperature=0.0), ExactSampler(draft_temperature))
        law = law_of_loop(setup, 5)
        assert len(law) == 1
        assert distance(law, law_of_target(setup, 5)) < 1e-12


@every_verification
def test_going_on_from_a_place_as_one_changes_nothing(verify):
    """The law with paths merged is the law of all paths run separately from beginning to end."""
    for setup, n in (
        (Setup(TARGET, DRAFT, 1, verify), 3),
        (Setup(SPARSE_TARGET, SPARSE_DRAFT, 2, verify, n_predict=4), 4),
        (Setup(SPARSE_TARGET, DRAFT, 2, verify, draft_n_ctx=4, n_predict=4), 4),
        (Setup(TARGET, None, 3, verify, make_drafter=lookup), 5),
    ):
        law = law_of_loop_unmerged(setup, n)
        assert distance(law, law_of_loop(setup, n)) < 1e-12
        assert distance(law, law_of_target(setup, n)) < 1e-12


# How far a draft goes.


class StoppingDrafter(ModelDrafter):
    """Ends a draft early by a rule that looks at the kept tokens and at the next distribution before the draw."""

    def propose(self, context, sampler, draw, rule):
        return super().propose(context, sampler, *_watched(draw, rule, len(context)))


def _watched(draw, rule, n_context):
    kept = []

    def draw_and_keep(distribution, i):
        kept.append(draw(distribution, i))
        return kept[-1]

    class Stopping:
        most = rule.most

        def propose_another(self, n_drafted):
            return rule.propose_another(n_drafted) and kept[-2:] != [0, 0] and (not kept or kept[-1] != 1)

        def draw(self, n_drafted, confidence):
            return rule.draw(n_drafted, confidence) and confidence() > 0.35 + 0.1 * ((sum(kept) + n_context) % 3)

    return draw_and_keep, Stopping()


@every_verification
@pytest.mark.parametrize("gamma", [2, 3])
def test_stopping_early_by_what_was_kept_and_by_the_next_distribution(verify, gamma):
    setup = Setup(SPARSE_TARGET if gamma == 3 else TARGET, DRAFT, gamma, verify, make_drafter=StoppingDrafter)
    assert_exact(setup)
    lengths = {tuple(draft_lengths(setup, draws)) for draws in map(SeededDraws, range(50))}
    assert len(lengths) > 5, "the rule must really stop drafts at several lengths"


def draft_lengths(setup, draws):
    return [len(round_.drafted) for round_ in itertools.islice(setup.rounds(draws), 3)]


@every_verification
@pytest.mark.parametrize("n_min", [0, 1, 2])
def test_p_min_and_n_min(verify, n_min):
    for p_min in (0.5, 0.7):
        assert_exact(Setup(SPARSE_TARGET, DRAFT, 2, verify, make_policy=fixed(2, n_min, p_min)))
        assert_exact(Setup(TARGET, DRAFT, 3, verify, make_policy=fixed(3, n_min, p_min), n_predict=4), n=4)


@every_verification
def test_rounds_without_room_for_n_min(verify):
    setup = Setup(TARGET, DRAFT, 2, verify, make_policy=fixed(2, 2), n_predict=4, n_ctx=5)
    assert_exact(setup)
    lengths = {n for seed in range(20) for n in draft_lengths(setup, SeededDraws(seed))}
    assert lengths == {0, 2}


# What the distributions are made of.


@every_verification
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_draft_temperature_of_its_own(verify, temperature):
    assert_exact(Setup(SPARSE_TARGET, DRAFT, 2, verify, ExactSampler(0.8), ExactSampler(temperature)))


@every_verification
@pytest.mark.parametrize("window", [1, 2, 3, None])
def test_penalties(verify, window):
    sampler = ExactSampler(penalty=0.9, window=window)
    assert_exact(Setup(SPARSE_TARGET, DRAFT, 2, verify, sampler))
    assert_exact(Setup(SPARSE_TARGET, DRAFT, 2, verify, ExactSampler(), sampler))
    assert_exact(Setup(TARGET, None, 2, verify, sampler, make_drafter=lookup))


@every_verification
def test_penalties_in_long_drafts(verify):
    sampler = ExactSampler(penalty=0.9, window=3)
    assert_exact(Setup(SPARSE_TARGET, SPARSE_DRAFT, 3, verify, sampler))


@dataclass(frozen=True)
class Normalised:
    """The real transforms; their single-precision probabilities then divided by their sum in double precision.

    The law of a loop is that of its distributions only as far as these sum to 1, which single precision leaves at 1e-7.
    """

    transforms: Transforms

    @property
    def history_length(self):
        return self.transforms.history_length

    def distribution(self, logits, history):
        distribution = self.transforms.distribution(logits.astype(np.float32), history)
        probabilities = distribution.probabilities.astype(np.float64)
        return Distribution(distribution.ids, probabilities / probabilities.sum())

    def confidence(self, logits, distribution):
        return self.transforms.confidence(logits, distribution)


REPEATED = SamplingOptions(0.9, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.3, presence_penalty=0.4)


@every_verification
@pytest.mark.parametrize(
    "options",
    [
        REPEATED,
        replace(REPEATED, repeat_last_n=2, frequency_penalty=0.3),
        replace(REPEATED, repeat_last_n=-1, top_k=3, logit_bias=((0, -math.inf), (2, 0.7))),
        replace(REPEATED, top_p=0.8),
        SamplingOptions(top_k=3),
        SamplingOptions(temperature=1.3, top_k=0, top_p=0.9, min_p=0.2),
    ],
    ids=["penalties", "window", "bias", "top-p", "top-k", "min-p"],
)
def test_the_real_transforms(verify, options):
    target, draft = Table(4, seed=1), Table(4, seed=2)
    sampler = Normalised(Transforms(options))
    draft_sampler = Normalised(Transforms(replace(options, temperature=1.0), n_shared=4))
    assert_exact(Setup(target, draft, 2, verify, sampler, draft_sampler, n_predict=4))


@every_verification
def test_single_precision(verify):
    """Unaltered transforms, dense and in single precision: exact within that."""

    class Single(Transforms):
        def distribution(self, logits, history):
            return super().distribution(logits.astype(np.float32), history)

    sampler = Single(SamplingOptions(temperature=0.7, top_k=0, top_p=1.0, min_p=0.0))
    assert_exact(Setup(SPARSE_TARGET, DRAFT, 2, verify, sampler), within=1e-6)


@every_verification
def test_equal_models_accept_everything(verify):
    for sampler in (ExactSampler(), ExactSampler(sparse=True), ExactSampler(penalty=0.5, window=2)):
        setup = Setup(TARGET, TARGET, 2, verify, sampler)
        assert_exact(setup)
        for _, rounds in every_path(lambda draws, setup=setup: setup.rounds(draws).run(3)):
            assert rounds.stats.rejected == 0
            assert rounds.stats.accepted == 2 * rounds.stats.rounds


@every_verification
@pytest.mark.parametrize("factor", [1e-7, 1e-12, 1e-16])
def test_nearly_equal_models(verify, factor):
    near = Table(3, seed=7, near=TARGET, distance=factor)
    assert_exact(Setup(TARGET, near, 2, verify))
    assert_exact(Setup(near, TARGET, 3, verify, n_predict=5))


@every_verification
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "target, draft",
    [
        (Table(4, seed=1, support=2), Table(4, seed=2, support=2)),
        (Table(4, seed=1, support=1), Table(4, seed=2)),
        (Table(3, seed=1), Table(3, seed=2, support=1)),
        (Fixed((0.3, 0.7, 0.0, 0.0)), Fixed((0.0, 0.0, 0.6, 0.4))),
        (Fixed((0.5, 0.0, 0.5)), Fixed((0.5, 0.5, 0.0))),
    ],
    ids=["overlapping", "certain-target", "certain-draft", "apart", "half"],
)
def test_zeros(verify, target, draft, sparse):
    assert_exact(Setup(target, draft, 2, verify, ExactSampler(sparse=sparse)))


@every_verification
def test_dense_and_sparse_mixed(verify):
    for sparse in (False, True):
        sampler, draft_sampler = ExactSampler(sparse=sparse), ExactSampler(sparse=not sparse)
        assert_exact(Setup(SPARSE_TARGET, DRAFT, 2, verify, sampler, draft_sampler))


@every_verification
@pytest.mark.parametrize("sparse", [False, True])
def test_vocabularies_of_different_sizes(verify, sparse):
    sampler = ExactSampler(sparse=sparse)
    assert_exact(Setup(Table(4, seed=1), Table(3, seed=2), 2, verify, sampler, n_predict=4))
    setup = Setup(Table(3, seed=1), Table(5, seed=2), 2, verify, sampler, replace(sampler, n_shared=3), n_predict=4)
    assert_exact(setup)


# Where a text ends.


@every_verification
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_end_of_generation_inside_drafts(verify, gamma):
    for target, draft in ((TARGET, SPARSE_DRAFT), (SPARSE_TARGET, TARGET)):
        setup = Setup(target, draft, gamma, verify, eog=2)
        assert_exact(setup, n=gamma + 2)
        assert any(text[-1] == 2 and len(text) < gamma + 2 for text in law_of_target(setup, gamma + 2))
    assert_exact(Setup(TARGET, None, gamma, verify, eog=2, make_drafter=lookup))


@every_verification
def test_end_of_generation_ends_a_draft(verify):
    setup = Setup(TARGET, DRAFT, 3, verify, eog=2)
    rounds = [next(iter(setup.rounds(SeededDraws(seed)))) for seed in range(100)]
    ended = [round_.drafted for round_ in rounds if 2 in round_.drafted]
    assert ended
    assert all(drafted.index(2) == len(drafted) - 1 for drafted in ended)
    kept = [round_ for round_ in rounds if round_.n_accepted and round_.tokens[-1] == round_.drafted[-1] == 2]
    assert any(round_.stop_reason == "eog" for round_ in kept)


@every_verification
@pytest.mark.parametrize("n_predict", [1, 2, 3, 4, 5])
def test_length(verify, n_predict):
    setup = Setup(TARGET, DRAFT, 2, verify, n_predict=n_predict)
    assert_exact(setup, n=6)
    for seed in range(20):
        rounds = setup.rounds(SeededDraws(seed)).run(math.inf)
        assert (rounds.stop_reason, len(rounds.emitted)) == ("length", n_predict)
        assert rounds.stats.discarded == 0, "the draft's length leaves room for the target's own token"


@every_verification
@pytest.mark.parametrize("n_ctx", [2, 3, 4, 5])
def test_full_context(verify, n_ctx):
    setup = Setup(TARGET, DRAFT, 2, verify, n_ctx=n_ctx)
    assert_exact(setup, n=6)
    for seed in range(20):
        rounds = setup.rounds(SeededDraws(seed)).run(math.inf)
        assert (rounds.stop_reason, len(rounds.emitted)) == ("context", n_ctx + 1 - len(setup.prompt))


@every_verification
@pytest.mark.parametrize("stop", [("b",), ("ab",), ("ca", "bb"), ("aba", "c")])
def test_stop_strings(verify, stop):
    assert_exact(Setup(TARGET, SPARSE_DRAFT, 2, verify, stop=stop))


def test_the_end_discards_what_it_cuts_off():
    setup = Setup(TARGET, TARGET, 3, verify_block, stop=("ab",))
    cut = 0
    for seed in range(50):
        rounds = setup.rounds(SeededDraws(seed)).run(math.inf)
        assert rounds.stop_reason == "stop"
        assert rounds.emitted[-2:] == [0, 1] or rounds.emitted == [1], rounds.emitted
        cut += rounds.stats.discarded
    assert cut > 0


def test_a_rounds_time_is_all_that_passes_in_it(monkeypatch):
    """Choosing, drafting, verifying and learning; not what is done with the round afterwards."""
    now = [0.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])

    def taking(seconds, function):
        def slow(*arguments):
            now[0] += seconds
            return function(*arguments)

        return slow

    def policy(_: Setup) -> FixedPolicy:
        made = FixedPolicy(FixedLength(2))
        for name, seconds in (("choose", 1.0), ("learn", 2.0)):
            object.__setattr__(made, name, taking(seconds, getattr(made, name)))
        return made

    rounds = Setup(TARGET, DRAFT, 2, verify_block, make_policy=policy).rounds(SeededDraws(1))
    rounds.target.decode = taking(4.0, rounds.target.decode)
    rounds.draft.decode = taking(8.0, rounds.draft.decode)
    for i, round_ in enumerate(rounds):
        now[0] += 1000.0
        drafting = round_.draft_prefill_seconds + round_.draft_seconds
        assert drafting % 8.0 == 1.0 and drafting >= 9.0
        assert round_.verify_seconds == 4.0
        assert round_.seconds == drafting + 4.0 + 2.0
        if i == 5:
            break


# Caches.


@every_verification
@pytest.mark.parametrize("draft_n_ctx", [1, 2, 3, 4])
def test_a_draft_context_smaller_than_the_text(verify, draft_n_ctx):
    assert_exact(Setup(SPARSE_TARGET, DRAFT, 2, verify, prompt=(0, 1, 2), draft_n_ctx=draft_n_ctx))


@every_verification
def test_memory_that_is_cut_at_checkpoints_only(verify):
    assert_exact(Setup(SPARSE_TARGET, DRAFT, 2, verify, prompt=(0, 1, 2), forgetful=True))
    assert_exact(Setup(SPARSE_TARGET, SPARSE_DRAFT, 3, verify, prompt=(0, 1, 2), forgetful=True, draft_n_ctx=5))


@every_verification
@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("draft_n_ctx", [6, 64])
def test_long_texts_leave_the_caches_in_order(verify, forgetful, draft_n_ctx):
    """The assertions of ``Rounds`` over whole texts."""
    setup = Setup(
        Table(4, seed=1), Table(4, seed=2), 4, verify, eog=3, n_ctx=48, draft_n_ctx=draft_n_ctx, forgetful=forgetful
    )
    reasons = {setup.rounds(SeededDraws(seed)).run(math.inf).stop_reason for seed in range(30)}
    reasons |= {replace(setup, eog=None).rounds(SeededDraws(seed)).run(math.inf).stop_reason for seed in range(5)}
    assert reasons == {"eog", "context"}


# Match verification.


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_match_writes_the_text_of_plain_decoding(temperature):
    sampler = ExactSampler(temperature)
    plain = Setup(TARGET, gamma=0, sampler=sampler, verify=verify_match, n_predict=24, make_drafter=lambda _: None)
    texts = set()
    for seed in range(20):
        text = plain.rounds(SeededDraws(seed)).run(math.inf).emitted
        texts.add(tuple(text))
        for gamma, draft_temperature in itertools.product((1, 2, 4, 7), (0.0, 1.0)):
            setup = replace(plain, draft=DRAFT, gamma=gamma, make_drafter=ModelDrafter)
            setup = replace(setup, draft_sampler=ExactSampler(draft_temperature))
            assert setup.rounds(SeededDraws(seed)).run(math.inf).emitted == text
        assert replace(plain, gamma=4, make_drafter=lookup).rounds(SeededDraws(seed)).run(math.inf).emitted == text
    assert len(texts) == (20 if temperature else 1)


# Automatic lengths, several drafters.

CHEAP = {"target": {1: 1.0, 9: 1.1}, "steps": {"model": 0.05}}
STEEP = {"target": {1: 1.0, 2: 1.6, 5: 1.9, 9: 4.0}, "steps": {"model": 0.3}}


def automatic(costs, n_min=0, p_min=0.0):
    """A policy that has learnt nothing yet, and learns from the very rounds enumerated."""

    def make(setup):
        curve = Costs(CostCurve(costs["target"]), dict(costs["steps"]), frozen=True)
        return AutoPolicy(curve, {}, setup.gamma, n_min, p_min)

    return make


def text_index(_: object) -> TextDrafter:
    return TextDrafter("suffix", SuffixIndex(), 3, 3)


def both(decoder: TableDecoder) -> list:
    return [text_index(decoder), ModelDrafter(decoder)]


@every_verification
@pytest.mark.parametrize(
    "costs", [pytest.param(CHEAP, id="cheap"), pytest.param(STEEP, id="steep", marks=pytest.mark.long)]
)
def test_automatic_lengths(verify, costs):
    setup = Setup(SPARSE_TARGET, SPARSE_DRAFT, 3, verify, make_policy=automatic(costs), merge=False)
    assert_exact(setup, 4)
    assert_exact(replace(setup, target=TARGET, draft=DRAFT, gamma=2), 3)


def test_automatic_lengths_with_limits():
    setup = Setup(SPARSE_TARGET, SPARSE_DRAFT, 3, verify_block, make_policy=automatic(CHEAP, 2, 0.6), merge=False)
    assert_exact(setup, 4)


@every_verification
@pytest.mark.parametrize("prompt", [(0, 1, 0, 1), pytest.param((1, 0, 2, 1, 0, 2, 1, 0), marks=pytest.mark.long)])
def test_lookups_and_several_drafters(verify, prompt):
    setup = Setup(SPARSE_TARGET, SPARSE_DRAFT, 3, verify, prompt=prompt, make_policy=automatic(CHEAP), merge=False)
    assert_exact(replace(setup, make_drafter=both), 4)
    assert_exact(replace(setup, draft=None, make_drafter=text_index), 4)
    fixed_length = replace(setup, make_policy=fixed(3), merge=True)
    assert_exact(replace(fixed_length, make_drafter=both), 4)
    assert_exact(replace(fixed_length, draft=None, make_drafter=text_index), 4)


@every_verification
def test_automatic_lengths_do_draft(verify):
    """The tests above would pass if nothing were ever drafted."""
    setup = Setup(TARGET, TARGET, 4, verify, make_policy=automatic(CHEAP), n_ctx=200, draft_n_ctx=200)
    stats = setup.rounds(SeededDraws(1)).run(100).stats
    assert stats.mean_accepted_length > 3 and stats.rejected == 0
