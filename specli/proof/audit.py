"""Looking over a loop's shoulder: every decision of a text is compared with what the reference would have decided."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from specli.decoding.loop import Speculation
from specli.decoding.round import Round
from specli.drafters.drafter import Draft, Drafter, DrawToken, Forecast, LengthRule, Sampler
from specli.llama.decoder import Decoder, Logits, OnProgress
from specli.proof.faults import Faults, Kind
from specli.proof.reference import TOLERANCE, Probabilities, acceptances, apart, is_made_of, residual, spread
from specli.proof.reference import prefix_weights as reference_weights
from specli.sampling.distribution import Distribution
from specli.sampling.draws import Draws, Purpose
from specli.sampling.transforms import SamplingOptions
from specli.sampling.verification import Target, Verdict


@dataclass
class _Decision:
    """One random decision: what was asked for, with which number, and the answer."""

    purpose: Purpose
    position: int
    offset: int
    probability: float = 0.0
    distribution: Distribution | None = None
    answer: int = 0


@dataclass(frozen=True)
class Seen:
    """A row of logits that a text was made with.

    Attributes:
        tokens: The text it should follow, prompt included.
        row: float32, shape (n_vocab,), copied when it was new.
    """

    tokens: tuple[int, ...]
    row: Logits


class Audit:
    """Wraps the parts of one text's loop and compares what they do with the reference.

    Args:
        prompt: What the text begins with.
        sampling: The target's transforms, forbidden tokens included.
        verification: 'greedy', 'match', 'token' or 'block'.
        faults: Where faults are noted.
        where: What to call the text in them.
        keep_rows: Whether to keep all rows of logits, or those of the last round alone.

    Attributes:
        target_rows: The rows the target gave, round by round.
        draft_rows: Those that drafts were drawn from, round by round.
        n_decisions: How many random decisions were looked at.
        context: The text so far, prompt included.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        sampling: SamplingOptions,
        verification: str,
        faults: Faults,
        where: str,
        *,
        keep_rows: bool = False,
    ) -> None:
        self.context = list(prompt)
        self.target_rows: list[list[Seen]] = []
        self.draft_rows: list[list[Seen]] = []
        self.n_decisions = 0
        self._sampling = sampling
        self._verification = verification
        self._faults = faults
        self._where = where
        self._keep_rows = keep_rows
        self._rows: list[Logits] = []  # of the round's verification
        self._drawn: list[tuple[int, Distribution, Probabilities]] = []  # of the round's draft
        self._decisions: list[_Decision] = []  # of the round's verification
        self._used: set[tuple[Purpose, int, int]] = set()
        self._target: Decoder | None = None

    def target(self, decoder: Decoder) -> Decoder:
        """The target, watched."""
        self._target = decoder
        return _Target(decoder, self)

    def drafter(self, drafter: Drafter) -> Drafter:
        """A drafter, watched."""
        return _Drafter(drafter, self)

    def speculation(self, how: Speculation) -> Speculation:
        """The verification and the randomness, watched."""
        inner, draws = how.verify, _Draws(how.draws, self)

        def verify(
            tokens: Sequence[int], q: Sequence[Distribution], target: Target, watched: Draws, position: int
        ) -> Verdict:
            asked: dict[int, Distribution] = {}

            def remember(i: int) -> Distribution:
                asked[i] = target(i)
                return asked[i]

            self._decisions.clear()
            verdict = inner(tokens, q, remember, watched, position)
            self._check(list(tokens), q, asked, verdict)
            return verdict

        return replace(how, verify=verify, draws=draws)

    def end_round(self, round_: Round) -> None:
        """Hear what a round added to the text, and look into the cache."""
        self.context += round_.tokens
        self._drawn.clear()
        held = list(self._target.tokens) if self._target else []
        if held != self.context[: len(held)] or len(held) >= len(self.context):
            self._fault(
                Kind.CACHE, f"after a round it holds {len(held)} tokens, not the {len(self.context) - 1} before"
            )

    def saw_batch(self, cached: Sequence[int], tokens: Sequence[int], rows: list[Logits]) -> None:
        """The target has decoded tokens after those in its cache."""
        whole = [*cached, *tokens]
        if whole[: len(self.context)] != self.context:
            self._fault(Kind.CACHE, f"a batch was decoded after {len(cached)} tokens that are not the text's")
        self._rows = rows
        if not self._keep_rows:
            self.target_rows.clear()
        n, text = len(self.context), [*self.context, *(token for token, _, _ in self._drawn)]
        self.target_rows.append([Seen(tuple(text[: n + i]), row) for i, row in enumerate(rows)])

    def starts_draft(self) -> None:
        """A drafter is asked."""
        if not self._keep_rows:
            self.draft_rows.clear()
        self.draft_rows.append([])

    def saw_draft_row(self, row: Logits) -> None:
        """The draft has made a distribution of a row of logits."""
        tokens = (*self.context, *(token for token, _, _ in self._drawn))
        self.draft_rows[-1].append(Seen(tokens, row.copy()))

    def saw_draw(self, token: int, distribution: Distribution) -> None:
        """A token was drawn for the draft."""
        self._drawn.append((token, distribution, distribution.probabilities.astype(np.float64)))

    def saw_draft(self, draft: Draft) -> None:
        """A draft is complete."""
        dropped = self._drawn[len(draft.tokens) :]
        if any(distribution.only_token is None for _, distribution, _ in dropped):
            self._fault(Kind.DROPPED, f"{len(dropped)} of {len(self._drawn)} drawn tokens")
        del self._drawn[len(draft.tokens) :]

    def saw_decision(self, decision: _Decision) -> None:
        """A random decision was made."""
        key = (decision.purpose, decision.position, decision.offset)
        distribution = decision.distribution
        certain = distribution.only_token is not None if distribution else not 0.0 < decision.probability < 1.0
        if decision.purpose is not Purpose.TOKEN or decision.offset:
            if key in self._used and not certain:
                self._fault(Kind.RANDOMNESS, f"one random number decides twice ({decision.purpose.name.lower()})")
            self._used.add(key)
        self._decisions.append(decision)
        self.n_decisions += 1

    def _fault(self, kind: Kind, detail: str) -> None:
        self._faults.add(kind, self._where, detail)

    def _check(
        self, tokens: list[int], q: Sequence[Distribution], asked: dict[int, Distribution], verdict: Verdict
    ) -> None:
        n_vocab = len(self._rows[0])
        known: dict[int, Probabilities] = {}
        for i in sorted(asked):
            given = spread(asked[i], n_vocab)
            history = [*self.context, *tokens[:i]]
            right, known[i] = _made_of(given.tobytes(), self._rows[i].tobytes(), tuple(history), self._sampling)
            if not right:
                kind = Kind.PENALTIES if self._sampling.penalizes else Kind.TRANSFORMS
                self._fault(kind, f"the two are {apart(given, known[i]):.2g} apart (total variation)")
        if [token for token, _, _ in self._drawn] != tokens:
            self._fault(Kind.DROPPED, "other tokens are verified than were drawn")
            return
        now = [spread(one, n_vocab) for one in q]
        drawn = [spread(replace(one, weights=then), n_vocab) for _, one, then in self._drawn]
        for then, later in zip(drawn, now, strict=False):
            if apart(then, later) > TOLERANCE:
                self._fault(Kind.OVERWRITTEN, f"by {apart(then, later):.2g} (total variation)")
        p = [known[i] for i in range(len(known)) if i in known]
        if self._verification in ("token", "block"):
            self._check_acceptance(tokens, drawn, p, verdict)
        else:
            self._check_match(tokens, verdict)

    def _check_acceptance(
        self, tokens: list[int], q: list[Probabilities], p: list[Probabilities], verdict: Verdict
    ) -> None:
        expected = acceptances(self._verification, tokens, q, p)
        accepts = [one for one in self._decisions if one.purpose is Purpose.ACCEPT]
        for one in accepts:
            if one.offset >= len(expected):
                continue
            (wanted, tolerance), got = expected[one.offset], min(1.0, max(0.0, one.probability))
            if not abs(wanted - got) <= tolerance:
                self._fault(Kind.ACCEPTANCE, f"token {one.offset + 1} is kept with {got:.4f} instead of {wanted:.4f}")
        yes = [one.offset for one in accepts if one.answer]
        no = [one.offset for one in accepts if not one.answer]
        kept = max(yes, default=-1) + 1 if self._verification == "block" else min(no, default=len(yes))
        if kept != verdict.n_accepted:
            self._fault(Kind.ACCEPTANCE, f"{verdict.n_accepted} tokens are kept where the draws say {kept}")
        drawn = [one for one in self._decisions if one.distribution is not None]
        i = verdict.n_accepted
        if not drawn or drawn[-1].distribution is None or i >= len(p):
            self._fault(Kind.BONUS if i == len(tokens) else Kind.RESIDUAL, "it is not drawn at all")
            return
        got_law = spread(drawn[-1].distribution, len(p[0]))
        if i == len(tokens):
            if (gap := apart(got_law, p[i])) > TOLERANCE:
                self._fault(Kind.BONUS, f"the two are {gap:.2g} apart (total variation)")
            return
        weights = [1.0, *reference_weights(self._verification, tokens, q, p)]
        weight = weights[i] if self._verification == "block" else 1.0
        wanted_law, tolerance = residual(weight, p[i], q[i])
        if (gap := apart(got_law, wanted_law)) > tolerance:
            self._fault(Kind.RESIDUAL, f"the two are {gap:.2g} apart (total variation)")

    def _check_match(self, tokens: list[int], verdict: Verdict) -> None:
        raced = {one.position: one.answer for one in self._decisions if one.distribution is not None}
        n = 0
        while n < len(tokens) and raced.get(len(self.context) + n) == tokens[n]:
            n += 1
        if n != verdict.n_accepted or raced.get(len(self.context) + n) != verdict.token:
            self._fault(Kind.ACCEPTANCE, f"{verdict.n_accepted} tokens are kept where {n} are the target's own")


@lru_cache(maxsize=20_000)
def _made_of_small(
    probabilities: bytes, row: bytes, history: tuple[int, ...], sampling: SamplingOptions
) -> tuple[bool, Probabilities]:
    return is_made_of(np.frombuffer(probabilities), np.frombuffer(row, np.float32), history, sampling)


def _made_of(
    probabilities: bytes, row: bytes, history: tuple[int, ...], sampling: SamplingOptions
) -> tuple[bool, Probabilities]:
    """``is_made_of``; of small vocabularies, whose rows come again and again, remembered."""
    if len(row) <= _SMALL_ROW:
        return _made_of_small(probabilities, row, history if sampling.penalizes else (), sampling)
    return is_made_of(np.frombuffer(probabilities), np.frombuffer(row, np.float32), history, sampling)


_SMALL_ROW = 256  # bytes


class _Target:
    """A target whose batches are seen."""

    def __init__(self, inner: Decoder, audit: Audit) -> None:
        self._inner = inner
        self._audit = audit

    @property
    def n_ctx(self) -> int:
        return self._inner.n_ctx

    @property
    def tokens(self) -> Sequence[int]:
        return self._inner.tokens

    @property
    def n_ubatch(self) -> int:
        return self._inner.n_ubatch

    def decode(self, tokens: Sequence[int], n_logits: int) -> Any:
        cached = list(self._inner.tokens)
        rows = self._inner.decode(tokens, n_logits)
        if n_logits:
            self._audit.saw_batch(cached, tokens, [rows[i].copy() for i in range(n_logits)])
        return rows

    def truncate(self, n_tokens: int) -> None:
        self._inner.truncate(n_tokens)

    def checkpoint(self, n_tokens: int | None = None) -> None:
        self._inner.checkpoint(n_tokens)


class _Drafter:
    """A drafter whose rows and draws are seen."""

    def __init__(self, inner: Drafter, audit: Audit) -> None:
        self._inner = inner
        self._audit = audit

    @property
    def name(self) -> str:
        return self._inner.name

    def begin(self, prompt: Sequence[int], on_prefill: OnProgress | None = None) -> None:
        self._inner.begin(prompt, on_prefill)

    def forecast(self, context: Sequence[int]) -> Forecast:
        return self._inner.forecast(context)

    def propose(self, context: Sequence[int], sampler: Sampler, draw: DrawToken, rule: LengthRule) -> Draft:
        def seen_draw(distribution: Distribution, i: int) -> int:
            token = draw(distribution, i)
            self._audit.saw_draw(token, distribution)
            return token

        self._audit.starts_draft()
        draft = self._inner.propose(context, _Sampler(sampler, self._audit), seen_draw, rule)
        self._audit.saw_draft(draft)
        return draft

    def accept(self, n_accepted: int, token: int) -> None:
        self._inner.accept(n_accepted, token)


class _Sampler:
    """A draft's sampler whose rows are seen."""

    def __init__(self, inner: Sampler, audit: Audit) -> None:
        self._inner = inner
        self._audit = audit

    @property
    def history_length(self) -> int | None:
        return self._inner.history_length

    def distribution(self, logits: Any, history: Sequence[int]) -> Distribution:
        self._audit.saw_draft_row(logits)
        return self._inner.distribution(logits, history)

    def confidence(self, logits: Any, distribution: Distribution) -> float:
        return self._inner.confidence(logits, distribution)


class _Draws:
    """Draws that are seen."""

    def __init__(self, inner: Draws, audit: Audit) -> None:
        self._inner = inner
        self._audit = audit

    def accept(self, probability: float, position: int, offset: int) -> bool:
        answer = self._inner.accept(probability, position, offset)
        self._audit.saw_decision(_Decision(Purpose.ACCEPT, position, offset, probability, None, int(answer)))
        return answer

    def choose(self, distribution: Distribution, purpose: Purpose, position: int, offset: int) -> int:
        token = self._inner.choose(distribution, purpose, position, offset)
        self._audit.saw_decision(_Decision(purpose, position, offset, 0.0, distribution, token))
        return token

    def race(self, distribution: Distribution, position: int) -> int:
        token = self._inner.race(distribution, position)
        self._audit.saw_decision(_Decision(Purpose.TOKEN, position, 0, 0.0, distribution, token))
        return token
