"""How long a policy would have taken for a text, from a trace and a model of what things cost."""

from collections.abc import Sequence
from typing import NamedTuple

from specli.decoding.costs import Costs
from specli.decoding.draft_length import UntilEog
from specli.decoding.policy import Policy
from specli.decoding.round import Round
from specli.decoding.trace import ReplayDrafter, Trace
from specli.drafters.drafter import shared_prefix
from specli.sampling.transforms import SamplingOptions, Transforms

_GREEDY = Transforms(SamplingOptions(temperature=0.0))


class Replayed(NamedTuple):
    """What a text took.

    Attributes:
        tokens: How many tokens.
        rounds: How many rounds.
        drafted: How many drafted tokens.
        seconds: By the costs.
    """

    tokens: int
    rounds: int
    drafted: int
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
    context = list(trace.prompt)
    n_rounds = n_drafted = 0
    total = 0.0
    while (done := len(context) - len(trace.prompt)) < len(trace.tokens):
        remaining = len(trace.tokens) - done
        before = [(drafter.n_steps, drafter.n_read) for drafter in drafters]
        room = min(n_max, remaining - 1)
        choice = policy.choose(drafters, context, room, remaining) if room > 0 else None
        drafted: list[int] = []
        if choice:
            rule = UntilEog(choice.rule)
            drafted = choice.drafter.propose(context, _GREEDY, lambda distribution, i: 0, rule).tokens
        n_accepted = shared_prefix(drafted, trace.tokens[done:])
        draft_seconds = sum(
            (drafter.n_steps - steps) * costs.step(drafter.name) + costs.read(drafter.name, drafter.n_read - read)
            for drafter, (steps, read) in zip(drafters, before, strict=True)
        )
        verify_seconds = costs.target.seconds(len(drafted) + 1)
        tokens = tuple(trace.tokens[done : done + n_accepted + 1])
        if room > 0:
            policy.learn(
                Round(
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
                    seconds=draft_seconds + verify_seconds,
                )
            )
        for drafter in drafters:
            drafter.accept(n_accepted, tokens[-1])
        context += tokens
        n_rounds += 1
        n_drafted += len(drafted)
        total += draft_seconds + verify_seconds
    return Replayed(len(trace.tokens), n_rounds, n_drafted, total)
