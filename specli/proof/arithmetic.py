"""The loop's own code on real probabilities: the exact distribution of its texts, and of many seeded ones.

The real distributions of target and draft after every continuation by a few tokens are worked out once. On them the
loop takes every random path there is, so that the distribution of its texts is known exactly; it is compared with the
target's. Then it writes many short texts with seeds, which tests the generator of random numbers too.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specli.decoding.draft_length import FixedLength
from specli.decoding.ending import Ending
from specli.decoding.loop import Speculation, generate, prefill
from specli.decoding.policy import FixedPolicy
from specli.decoding.round import Round
from specli.drafters.drafter import Drafter, known
from specli.drafters.lookup import LookupDrafter
from specli.drafters.model import ModelDrafter
from specli.drafters.names import SUFFIX
from specli.drafters.suffix import SuffixIndex
from specli.llama.decoder import Decoder, Logits
from specli.proof.audit import Audit
from specli.proof.enumeration import Law, NotIndependentError, distance, law_of, law_of_steps
from specli.proof.faults import Faults, Kind
from specli.proof.goodness import Goodness, test_texts
from specli.proof.matrix import Setting
from specli.proof.reference import target_probabilities
from specli.proof.tables import RememberedRows, Table, TableDecoder, spreading_temperature
from specli.sampling.draws import Draws, SeededDraws
from specli.sampling.transforms import Transforms
from specli.sampling.verification import VERIFICATIONS

N_CHOICES = 3
N_MAX = 2
N_TOKENS = 4
_PROMPT = (0, 1, 0, 1)  # of the few tokens, so that there is something to look up
_LAW_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Tables:
    """What target and draft say after every continuation of a prompt by a few tokens."""

    target: Table
    draft: Table


def make_tables(target: Decoder, draft: Decoder | None, prompt: Sequence[int], n_shared: int | None) -> Tables:
    """Choose the tokens likeliest to follow a prompt, and look up real probabilities as they are needed.

    Args:
        target: The target.
        draft: A draft model of its vocabulary; None: the target stands in for it, a token behind.
        prompt: At least one token.
        n_shared: How many ids, counted from 0, both know; None: all.
    """
    rows = RememberedRows(target, prompt)
    choices = np.sort(np.argsort(-rows.row(())[:n_shared])[:N_CHOICES])
    table = Table(rows, choices.tolist())
    if draft:
        return Tables(table, Table(RememberedRows(draft, known(prompt, n_shared)), choices.tolist()))
    return Tables(table, _Behind(rows, choices.tolist()))


class _Behind(Table):
    """What a model says without having seen the last token."""

    def logits(self, context: tuple[int, ...]) -> Logits:
        return super().logits(context[:-1])


class Text:
    """One audited text on tables (an ``enumeration.Text``)."""

    def __init__(self, tables: Tables, setting: Setting, draws: Draws, faults: Faults, *, audited: bool = True) -> None:
        self.emitted: list[int] = []
        self.has_ended = False
        self._target = TableDecoder(tables.target.logits, N_CHOICES)
        self._draft = TableDecoder(tables.draft.logits, N_CHOICES)
        drafter: Drafter = ModelDrafter(self._draft)
        if setting.looks_up:
            drafter = LookupDrafter(SUFFIX, SuffixIndex(), N_CHOICES, N_MAX)
        draft_sampling = setting.sampling
        if setting.draft_temperature is not None:
            draft_sampling = replace(draft_sampling, temperature=setting.draft_temperature)
        verification = "match" if setting.sampling.greedy else setting.verification
        how = Speculation(
            sampler=Transforms(setting.sampling),
            draft_sampler=Transforms(draft_sampling),
            verify=VERIFICATIONS[verification],
            policy=FixedPolicy(FixedLength(N_MAX, p_min=setting.p_min)),
            draws=draws,
            coupled=verification == "match",
        )
        eog = N_CHOICES - 1 if setting.eog_in_drafts else -1
        ending = Ending(lambda token: b"%d" % token, lambda token: token == eog, N_TOKENS)
        prefill(self._target, _PROMPT)
        self._audit: Audit | None = None
        target: Decoder = self._target
        if audited:
            where = f"arithmetic, {setting.name}"
            self._audit = Audit(_PROMPT, setting.sampling, setting.effective_verification, faults, where)
            target, drafter, how = (
                self._audit.target(target),
                self._audit.drafter(drafter),
                self._audit.speculation(how),
            )
        self._rounds = generate(target, [drafter], _PROMPT, how, ending)

    @property
    def position(self) -> int:
        """Where the next round begins."""
        return len(_PROMPT) + len(self.emitted)

    def state(self) -> Hashable:
        """What the caches hold."""
        return tuple(self._target.tokens), tuple(self._draft.tokens)

    def __iter__(self) -> Iterator[Round]:
        for round_ in self._rounds:
            self.emitted += round_.tokens
            if self._audit:
                self._audit.end_round(round_)
            self.has_ended = round_.stop_reason is not None
            yield round_


def exact_distance(tables: Tables, setting: Setting, faults: Faults) -> float | None:
    """How far the probability of any text by the loop is from the target's, at most; None: it has none."""

    def begin(draws: Draws) -> Text:
        return Text(tables, setting, draws, faults)

    where = f"arithmetic, {setting.name}"
    try:
        apart = distance(law_of(begin, N_TOKENS), law_of_target(tables, setting))
    except NotIndependentError as error:
        faults.add(Kind.RANDOMNESS, where, str(error))
        return None
    if not apart <= _LAW_TOLERANCE:
        faults.add(Kind.DISTRIBUTION, where, f"a text's probability is {apart:.2g} from the target's")
    return apart


def law_of_target(tables: Tables, setting: Setting) -> Law:
    """The law of the texts the target alone writes."""
    eog = N_CHOICES - 1 if setting.eog_in_drafts else -1

    def next_token(text: tuple[int, ...]) -> Iterator[tuple[int, float]]:
        context = (*_PROMPT, *text)
        return enumerate(target_probabilities(tables.target.logits(context), context, setting.sampling).tolist())

    return law_of_steps(next_token, lambda text: len(text) == N_TOKENS or text[-1] == eog)


def seeded_texts(
    tables: Tables, setting: Setting, faults: Faults, n_runs: int, on_text: Callable[[], None] = lambda: None
) -> Goodness:
    """Write many short texts with seeds, and test them against the target's distribution.

    At a temperature that spreads them: texts that are nearly all alike show little.
    """
    temperature = spreading_temperature(tables.target.logits(_PROMPT))
    setting = replace(setting, sampling=replace(setting.sampling, temperature=temperature))

    def write(seed: int) -> tuple[int, ...]:
        text = Text(tables, setting, SeededDraws(seed), faults, audited=False)
        for _ in text:
            pass
        on_text()
        return tuple(text.emitted)

    goodness = test_texts(write, [law_of_target(tables, setting)], n_runs)
    if goodness.differs:
        faults.add(
            Kind.RANDOMNESS,
            f"seeded texts on tables, {setting.name}",
            f"{goodness.n_runs} texts are not the target's (p = {goodness.p_value:.1g})",
        )
    return goodness
