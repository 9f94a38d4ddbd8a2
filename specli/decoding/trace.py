"""What each drafter would have proposed at every position of a text: enough to replay any policy on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from specli.drafters.drafter import Draft, Drafter, DrawToken, Forecast, LengthRule, Sampler
from specli.llama.decoder import OnProgress
from specli.sampling.distribution import Distribution

LENGTH = 16  # tokens proposed at every position


@dataclass(frozen=True)
class Proposal:
    """What a drafter proposed at one position.

    Attributes:
        tokens: Token ids.
        confidences: How sure it was of each, before the draw.
    """

    tokens: Sequence[int]
    confidences: Sequence[float]


@dataclass(frozen=True)
class Trace:
    """A text and what was proposed for it.

    Attributes:
        prompt: Tokens of the prompt.
        tokens: Tokens of the text.
        proposals: By drafter, one a position of ``tokens``.
        looked_up: The drafters among them whose proposals cost nothing.
        target_seconds: By width, of the target's forward pass.
        step_seconds: By drafter, of one drafted token.
        read_seconds: By drafter, of one token read in a batch.
    """

    prompt: Sequence[int]
    tokens: Sequence[int]
    proposals: dict[str, list[Proposal]]
    looked_up: Sequence[str]
    target_seconds: dict[int, float]
    step_seconds: dict[str, float]
    read_seconds: dict[str, float]


def record(drafter: Drafter, prompt: Sequence[int], tokens: Sequence[int], sampler: Sampler) -> list[Proposal]:
    """Ask a drafter at every position of a text.

    Args:
        drafter: Whom to ask.
        prompt: At least one token.
        tokens: The text that followed it.
        sampler: The transforms of its logits.
    """
    drafter.begin(prompt)
    context = list(prompt)
    proposals = []
    for token in tokens:
        rule = _Recorder()
        draft = drafter.propose(context, sampler, lambda distribution, i: most_likely(distribution), rule)
        proposals.append(Proposal(draft.tokens, [round(confidence, 4) for confidence in rule.confidences]))
        drafter.accept(0, token)
        context.append(token)
    return proposals


def most_likely(distribution: Distribution) -> int:
    """The token of the largest probability."""
    return distribution.token_at(int(distribution.weights.argmax()))


class _Recorder:
    """A length rule that always goes on, and remembers."""

    def __init__(self) -> None:
        self.confidences: list[float] = []

    def propose_another(self, n_drafted: int) -> bool:
        return n_drafted < LENGTH

    def draw(self, n_drafted: int, confidence: Callable[[], float]) -> bool:
        self.confidences.append(confidence())
        return True


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
        self._n_cached = 0

    def begin(self, prompt: Sequence[int], on_prefill: OnProgress | None = None) -> None:
        """Start the text again."""
        self._n_cached = 0

    def forecast(self, context: Sequence[int]) -> Forecast:
        """What it would have told."""
        if self._costs_nothing:
            return Forecast(self._proposals[len(context) - self._n_prompt].confidences)
        return Forecast(None, max(0, len(context) - self._n_cached - 2))

    def propose(self, context: Sequence[int], sampler: Sampler, draw: DrawToken, rule: LengthRule) -> Draft:
        """Propose what it did, as far as the rule goes."""
        draft = Draft()
        if not rule.propose_another(0):
            return draft
        self.n_read += self.forecast(context).n_unread
        self._n_cached = len(context)
        proposal = self._proposals[len(context) - self._n_prompt]
        for i, (token, confidence) in enumerate(zip(proposal.tokens, proposal.confidences, strict=True)):
            self.n_steps += 1
            if not rule.draw(i, partial(float, confidence)):
                break
            draft.tokens.append(token)
            draft.distributions.append(Distribution.one_hot(token))
            if not rule.propose_another(i + 1):
                break
        return draft

    def accept(self, n_accepted: int, token: int) -> None:
        """Learn how much of the text is in the cache now."""
        self._n_cached += n_accepted
