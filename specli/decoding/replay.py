"""How long a policy would have taken for a text, from a trace and a model of what things cost."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from specli.decoding.costs import Costs
from specli.decoding.policy import Policy
from specli.decoding.round import Round
from specli.decoding.trace import Trace
from specli.drafters.drafter import Draft, DrawToken, Forecast, Guess, LengthRule, Sampler, shared_prefix
from specli.llama.decoder import OnProgress
from specli.sampling.distribution import Distribution
from specli.sampling.transforms import SamplingOptions, Transforms

_GREEDY = Transforms(SamplingOptions(temperature=0.0))


class ReplayDrafter:
    """A drafter that proposes what a trace says (a ``Drafter``); it draws nothing, so the text must be greedy.

    Attributes:
        n_steps: How many tokens it has worked out in all.
        n_read: How many tokens of context it has read in all, beyond what every round leaves.
    """

    def __init__(self, name: str, trace: Trace) -> None:
        self.name = name
        self.n_steps = self.n_read = 0
        self._proposals = trace.proposals[name]
        self._n_prompt = len(trace.prompt)
        self._costs_nothing = name in trace.looked_up
        self._in_one_pass = name in trace.in_one_pass
        self._n_cached = self._n_context = 0

    def begin(self, prompt: Sequence[int], on_prefill: OnProgress | None = None) -> None:
        """Start the text again."""
        self._n_cached, self._n_context = 0, len(prompt)

    def forecast(self, context: Sequence[int]) -> Forecast:
        """What it would have told."""
        if self._costs_nothing:
            proposal = self._proposals[len(context) - self._n_prompt]
            return Forecast(list(map(Guess, proposal.tokens, proposal.confidences)))
        n_unread = max(0, len(context) - self._n_cached - 2)
        return Forecast(None, n_unread=n_unread, in_one_pass=self._in_one_pass)

    def propose(self, context: Sequence[int], sampler: Sampler, draw: DrawToken, rule: LengthRule) -> Draft:
        """Propose what it did, as far as the rule goes."""
        draft = Draft()
        if not rule.propose_another(0):
            return draft
        self.n_read += self.forecast(context).n_unread
        proposal = self._proposals[len(context) - self._n_prompt]
        for i, (token, confidence) in enumerate(zip(proposal.tokens, proposal.confidences, strict=True)):
            self.n_steps += i == 0 or not self._in_one_pass
            self._n_cached = len(context) + i
            if not rule.draw(i, partial(float, confidence)):
                break
            draft.tokens.append(token)
            draft.distributions.append(Distribution.one_hot(token))
            if not rule.propose_another(i + 1):
                break
        return draft

    def accept(self, n_accepted: int, token: int) -> None:
        """Forget the rejected tokens, as far as the cache holds them."""
        self._n_cached = min(self._n_cached, self._n_context + n_accepted)
        self._n_context += n_accepted + 1


class Replayed(NamedTuple):
    """What a text took.

    Attributes:
        rounds: What each round did; its seconds are by the costs.
        seconds: Of all.
    """

    rounds: list[Round]
    seconds: float


def replay(trace: Trace, policy: Policy, costs: Costs, names: Sequence[str], n_max: int) -> Replayed:
    """Let a policy write the text of a trace again.

    Args:
        trace: The text and its proposals.
        policy: What decides; it learns.
        costs: What things really cost; the policy may believe otherwise.
        names: The drafters it may ask.
        n_max: The most tokens of a draft.
    """
    drafters = [ReplayDrafter(name, trace) for name in names]
    for drafter in drafters:
        drafter.begin(trace.prompt)
    context = list(trace.prompt)
    rounds = []
    while (done := len(context) - len(trace.prompt)) < len(trace.tokens):
        before = [(drafter.n_steps, drafter.n_read) for drafter in drafters]
        room = min(n_max, len(trace.tokens) - done - 1)
        choice = policy.choose(drafters, context, room, None) if room > 0 else None
        drafted: list[int] = []
        if choice:
            drafted = choice.drafter.propose(context, _GREEDY, lambda distribution, i: 0, choice.rule).tokens
        n_accepted = shared_prefix(drafted, trace.tokens[done:])
        draft_seconds = sum(
            (drafter.n_steps - steps) * costs.step(drafter.name) + costs.read(drafter.name, drafter.n_read - read)
            for drafter, (steps, read) in zip(drafters, before, strict=True)
        )
        verify_seconds = costs.target.seconds(len(drafted) + 1)
        rollback_seconds = costs.save_seconds if drafted else 0.0
        if n_accepted < len(drafted):
            rollback_seconds += costs.rollback(n_accepted)
        tokens = tuple(trace.tokens[done : done + n_accepted + 1])
        round_ = Round(
            drafter=choice.drafter.name if choice else None,
            drafted=tuple(drafted),
            n_accepted=n_accepted,
            n_rejected=len(drafted) - n_accepted,
            n_discarded=0,
            tokens=tokens,
            texts=("",) * len(tokens),
            stop_reason=None,
            draft_prefill_seconds=0.0,
            draft_seconds=draft_seconds,
            verify_seconds=verify_seconds,
            rollback_seconds=rollback_seconds,
            seconds=draft_seconds + verify_seconds + rollback_seconds,
        )
        if room > 0:
            policy.learn(round_, lambda i, done=done: trace.confidences[done + i])  # type: ignore[misc]
        for drafter in drafters:
            drafter.accept(n_accepted, tokens[-1])
        context += tokens
        rounds.append(round_)
    return Replayed(rounds, sum(round_.seconds for round_ in rounds))
