"""Which drafter a round asks, and how far its draft goes: fixed, or what is expected to be fastest."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple, Protocol

from specli.decoding.calibration import Calibration
from specli.decoding.costs import Costs
from specli.decoding.draft_length import FixedLength
from specli.decoding.outlook import Outlook
from specli.decoding.round import Round
from specli.decoding.track_record import TrackRecord
from specli.drafters.drafter import Drafter, LengthRule


class Choice(NamedTuple):
    """Who drafts in a round, and how far."""

    drafter: Drafter
    rule: LengthRule


class Policy(Protocol):
    """Decides, before anything of a round is drawn, how it drafts."""

    def choose(
        self, drafters: Sequence[Drafter], context: Sequence[int], room: int, remaining: int | None
    ) -> Choice | None:
        """Choose for the next round; None: nobody, the target decodes plainly.

        Args:
            drafters: Who can be asked, the preferred first.
            context: Prompt and text so far.
            room: The most tokens that may be drafted, at least 1.
            remaining: How many tokens the text may still have; None: any number.
        """

    def learn(self, round_: Round, confidence: Callable[[int], float]) -> None:
        """Learn what became of the round chosen for last.

        Args:
            round_: What it did.
            confidence: How sure the target was of the round's i-th token before it was drawn, 0 to 1; takes a moment.
        """


@dataclass(frozen=True)
class FixedPolicy:
    """The same length every round; of several drafters the first that has anything to propose."""

    length: FixedLength

    def choose(
        self, drafters: Sequence[Drafter], context: Sequence[int], room: int, remaining: int | None
    ) -> Choice | None:
        """Choose the first drafter with a proposal."""
        rule = self.length.within(room)
        if rule.n_max > 0:
            for drafter in drafters:
                if (guesses := drafter.forecast(context).guesses) is None or guesses:
                    return Choice(drafter, rule)
        return None

    def learn(self, round_: Round, confidence: Callable[[int], float]) -> None:
        """A fixed length learns nothing."""


_RATE_MEMORY = 0.9  # of the decayed sums a rate is worked out from, per round
_LEAST_HORIZON = 64  # tokens a text is expected to go on for, at least; later as many as it has already
_PAYBACK = 8  # tokens of which one pays for what a drafter must read first
_ALLOWANCE = 8.0  # tokens that a text may be behind plain decoding
_LOSS_SHARE = 0.02  # and of its own
_FIRST_TRUST = 1.0  # tokens of the allowance for a lookup that has yet to guess right
_STREAK_TRUST = 0.3  # and for each of the latest tokens that came as it would have proposed


class AutoPolicy:
    """Maximises expected tokens per second: a round is worth its tokens less its time at the going rate.

    A draft goes on as long as some number of further tokens is worth more than it costs: the forward pass has steps, so
    one more token may not pay where three more do. Where nothing pays, the target decodes plainly, and its own
    confidence tells when a draft may pay again. An account of tokens gained and lost against plain decoding limits what
    wrong expectations cost: no draft may cost more than what is left of it. A lookup earns that trust by guesses that
    come true, drafted or not, and what it is believed to be worth follows its record in this text. A drafter that must
    read the prompt first does so where that is expected to be earned back within an eighth of the text; the account
    bears only what it reads later.

    Given the same costs and calibrations it decides the same: it looks at no clock.

    Args:
        costs: What things cost here.
        calibrations: By drafter; what is learnt stays there.
        n_max: The most tokens a round drafts.
        n_min: What --n-min says: no shorter drafts.
        p_min: What --p-min says: no token the drafter is less sure of.
    """

    def __init__(
        self, costs: Costs, calibrations: dict[str, Calibration], n_max: int, n_min: int = 0, p_min: float = 0.0
    ) -> None:
        self.costs = costs
        self.calibrations = calibrations
        self._limits = FixedLength(n_max, n_min, p_min)
        self._tokens = self._seconds = 0.0  # decayed, of the latest rounds
        self._n_tokens = 0
        self._account = 0.0  # tokens ahead of plain decoding
        self._has_read: set[str] = set()
        self._outlooks: dict[str, Outlook] = {}
        self._records: dict[str, TrackRecord] = {}
        self._chosen: _Plan | None = None

    @property
    def _plain_seconds(self) -> float:
        return self.costs.target.seconds(1)

    @property
    def _rate(self) -> float:
        """Tokens a second that time is worth: of the latest rounds, and no less than plain decoding's."""
        plain = 1.0 / self._plain_seconds
        return max(plain, self._tokens / self._seconds) if self._seconds else plain

    def choose(
        self, drafters: Sequence[Drafter], context: Sequence[int], room: int, remaining: int | None
    ) -> Choice | None:
        """Choose what has the best expected gain, if any has."""
        self._chosen = None
        limits = self._limits.within(room)
        if limits.n_max == 0:
            return None
        rate = self._rate
        horizon = max(_LEAST_HORIZON, self._n_tokens)
        horizon = horizon if remaining is None else min(horizon, remaining)
        plans = [self._plan(drafter, context, limits, rate, horizon) for drafter in drafters]
        best = max(plans, key=lambda plan: plan.gain, default=None)
        if best is None or best.gain <= 0.0:
            return None
        self._chosen = best
        return Choice(best.drafter, best)

    def _plan(
        self, drafter: Drafter, context: Sequence[int], limits: FixedLength, rate: float, horizon: int
    ) -> "_Plan":
        forecast = drafter.forecast(context)
        if (calibration := self.calibrations.get(drafter.name)) is None:
            calibration = self.calibrations[drafter.name] = Calibration(
                "model" if forecast.guesses is None else "lookup"
            )
        upfront = self.costs.read(drafter.name, forecast.n_unread)
        limits = limits if forecast.most is None else limits.within(forecast.most)
        plan = _Plan(drafter, self.costs, calibration, rate, limits, self._affordable(_ALLOWANCE), upfront)
        plan.in_one_pass = forecast.in_one_pass
        if forecast.guesses is None:
            if drafter.name not in self._outlooks:
                self._outlooks[drafter.name] = Outlook(calibration.typical_probability)
            plan.outlook = self._outlooks[drafter.name]
            plan.foreseen, _ = plan.best(repeat(plan.outlook.acceptance))
            plan.gain = plan.foreseen + plan.outlook.surprise - rate * upfront / max(1.0, horizon / _PAYBACK)
        else:
            if drafter.name not in self._records:
                self._records[drafter.name] = TrackRecord(calibration)
            record = self._records[drafter.name]
            plan.affordable = self._affordable(min(_ALLOWANCE, _FIRST_TRUST + _STREAK_TRUST * record.n_right))
            plan.gain, plan.length = plan.best(record.expect(forecast.guesses))
        return plan

    def _affordable(self, trust: float) -> float:
        """How many seconds more than plain decoding a draft may take: what this text can still lose."""
        return (trust + _LOSS_SHARE * self._n_tokens + self._account) * self._plain_seconds

    def learn(self, round_: Round, confidence: Callable[[int], float]) -> None:
        """Learn from what the round cost and what was accepted."""
        n_drafted = len(round_.drafted)
        seconds = self.costs.target.seconds(n_drafted + 1)
        if n_drafted:
            seconds += self.costs.save_seconds
        if round_.n_rejected:
            seconds += self.costs.rollback(round_.n_accepted)
        if plan := self._chosen:
            seconds += plan.n_steps * self.costs.step(plan.drafter.name)
            if plan.outlook:
                self._learn_from_draft(plan, plan.outlook, round_, seconds, confidence)
            if plan.drafter.name in self._has_read:
                seconds += plan.upfront
            self._has_read.add(plan.drafter.name)
        elif self._outlooks:
            target_confidence = confidence(0)
            for name, outlook in self._outlooks.items():
                outlook.see_plain_token(target_confidence)
                self.calibrations[name].expect(outlook.acceptance)
        for record in self._records.values():
            record.see(round_.tokens)
        self.costs.observe(n_drafted + 1, round_.verify_seconds)
        n_tokens = len(round_.tokens)
        self._n_tokens += n_tokens
        self._account += n_tokens - seconds / self._plain_seconds
        self._tokens = _RATE_MEMORY * self._tokens + n_tokens
        self._seconds = _RATE_MEMORY * self._seconds + seconds

    def _learn_from_draft(
        self, plan: "_Plan", outlook: Outlook, round_: Round, seconds: float, confidence: Callable[[int], float]
    ) -> None:
        calibration = plan.calibration
        judged = plan.confidences[: round_.n_accepted + (round_.n_rejected > 0)]
        for i, drafters_confidence in enumerate(judged):
            calibration.judge(drafters_confidence, i < round_.n_accepted)
        if judged:
            outlook.judge(confidence(0), round_.n_accepted > 0)
        for drafters_confidence in judged or plan.confidences[:1]:
            outlook.see_drafted_token(calibration.probability(drafters_confidence))
        outlook.see_draft(plan.expected - plan.rate * (seconds - self._plain_seconds) - plan.foreseen)
        calibration.see(plan.confidences)
        calibration.expect(outlook.acceptance)
        if not plan.upfront:
            self.costs.observe_steps(plan.drafter.name, plan.n_steps, round_.draft_seconds)


@dataclass
class _Plan:
    """A draft in the making (a ``LengthRule``): goes on as long as that is expected to gain."""

    drafter: Drafter
    costs: Costs
    calibration: Calibration
    rate: float
    limits: FixedLength
    affordable: float
    upfront: float
    in_one_pass: bool = False
    """Whether the first step works out all tokens."""
    outlook: Outlook | None = None
    """Of a drafter that only tells by drafting."""
    foreseen: float = 0.0
    """The gain such a draft is expected to have by its outlook, in tokens."""
    gain: float = 0.0
    """The gain expected by all that is known, in tokens."""
    expected: float = 0.0
    """How many of the tokens drafted so far are expected to be accepted."""
    length: int | None = None
    """What was settled before the first draw, where all confidences were known."""
    confidences: list[float] = field(default_factory=list)
    survival: float = 1.0
    """The probability that all tokens drafted so far are accepted."""

    @property
    def n_steps(self) -> int:
        """How many steps the drafter has taken."""
        return min(1, len(self.confidences)) if self.in_one_pass else len(self.confidences)

    @property
    def most(self) -> int:
        """The most tokens of the draft."""
        return self.limits.n_max if self.length is None else self.length

    def best(self, acceptances: Iterable[float], sunk_steps: int = 0) -> tuple[float, int]:
        """The best expected gain of drafting on, in tokens, and with how many more tokens; −∞ where none may follow.

        Args:
            acceptances: Of the next token, if those before it are accepted, and so on.
            sunk_steps: How many of the next tokens' draft steps have been paid for.
        """
        n = len(self.confidences) - sunk_steps
        step, once = self.costs.step(self.drafter.name), 0.0
        if self.in_one_pass:
            step, once = 0.0, step
        first = 0.0 if self.confidences else once
        plain, seconds = self.costs.target.seconds(1), self.costs.target.seconds(n + 1)
        survival, tokens, best, best_length = self.survival, 0.0, -math.inf, 0
        restores = self.costs.save_seconds > 0.0
        before = self._rollback(n, self.survival, self.expected) if restores else 0.0
        for i, acceptance in zip(range(1, self.limits.n_max - n + 1), acceptances, strict=False):
            survival *= acceptance
            tokens += survival
            verify = self.costs.target.seconds(n + 1 + i)
            worst = self._rollback(n + i, 0.0, n + i - 1) if restores else 0.0
            if verify - plain + (n + i) * step + once + worst > self.affordable:
                break
            time = verify - seconds + max(0, i - sunk_steps) * step + first
            if restores:
                time += self._rollback(n + i, survival, self.expected + tokens) - before
            if (gain := tokens - self.rate * time) > best and n + i >= self.limits.n_min:
                best, best_length = gain, i
        return best, best_length

    def _rollback(self, n_drafted: int, survival: float, expected: float) -> float:
        """Expected seconds for a target whose memory cannot be cut, if so many tokens are accepted of the draft."""
        if not n_drafted:
            return 0.0
        return self.costs.save_seconds + (1.0 - survival) * self.costs.rollback(expected)

    def propose_another(self, n_drafted: int) -> bool:
        """Whether another token is expected to pay."""
        if self.length is not None:
            return n_drafted < self.length
        if n_drafted < max(1, self.limits.n_min):
            return n_drafted < self.limits.n_max
        following = self.calibration.following(self.confidences[-1])
        return n_drafted < self.limits.n_max and self.best(repeat(following))[0] > 0.0

    def draw(self, n_drafted: int, confidence: Callable[[], float]) -> bool:
        """Whether the next token, now that its confidence is known, is expected to pay."""
        known = confidence()
        self.confidences.append(known)
        if n_drafted >= self.limits.n_min and known < self.limits.p_min:
            return False
        if self.length is not None:
            return True
        acceptance = self.calibration.probability(known)
        following = repeat(self.calibration.following(known), self.limits.n_max)
        gain, _ = self.best((acceptance, *following), sunk_steps=1)
        if gain <= 0.0 and not 0 < n_drafted < self.limits.n_min:
            return False
        self.survival *= acceptance
        self.expected += self.survival
        return True
