"""What each drafter would have proposed at every position of a text: enough to replay any policy on it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from specli.decoding.costs import Costs
from specli.drafters.drafter import Drafter, Sampler
from specli.drafters.lookup import LookupDrafter
from specli.llama.decoder import Decoder, OnProgress
from specli.sampling.distribution import Distribution

LENGTH = 16  # tokens proposed at every position
_SCHEMA = "specli.trace/1"
_DIGITS = 4  # of a confidence


class Proposal(NamedTuple):
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
        confidences: How sure the target was of each of them, before the draw.
        proposals: By drafter, one a position of ``tokens``.
        looked_up: The drafters among them whose proposals cost nothing.
        target_seconds: By width, of the target's forward pass.
        step_seconds: By drafter, of one drafted token.
        read_seconds: By drafter, of one token read in a batch.
    """

    prompt: Sequence[int]
    tokens: Sequence[int]
    confidences: Sequence[float]
    proposals: Mapping[str, Sequence[Proposal]]
    looked_up: Sequence[str]
    target_seconds: Mapping[int, float]
    step_seconds: Mapping[str, float]
    read_seconds: Mapping[str, float]


def record(
    target: Decoder,
    drafters: Sequence[Drafter],
    prompt: Sequence[int],
    tokens: Sequence[int],
    samplers: tuple[Sampler, Sampler],
    costs: Costs,
    on_progress: OnProgress | None = None,
) -> Trace:
    """Ask the target and every drafter at every position of a text.

    Args:
        target: Whose text it is; its cache may hold anything.
        drafters: Whom to ask.
        prompt: At least one token.
        tokens: The text that followed it.
        samplers: The transforms of the target's logits, and of the draft's.
        costs: What decoding costs here.
        on_progress: Called with positions done and in all.
    """
    n_positions = len(tokens) * len(drafters)
    proposals: dict[str, list[Proposal]] = {}
    for i, drafter in enumerate(drafters):
        drafter.begin(prompt)
        context = list(prompt)
        proposals[drafter.name] = []
        for token in tokens:
            proposals[drafter.name].append(_proposal(drafter, context, samplers[1]))
            drafter.accept(0, token)
            context.append(token)
            if on_progress:
                on_progress(i * len(tokens) + len(proposals[drafter.name]), n_positions)
    return Trace(
        prompt=list(prompt),
        tokens=list(tokens),
        confidences=_confidences(target, prompt, tokens, samplers[0]),
        proposals=proposals,
        looked_up=[drafter.name for drafter in drafters if isinstance(drafter, LookupDrafter)],
        target_seconds=costs.target.known,
        step_seconds=dict(costs.step_seconds),
        read_seconds=dict(costs.read_seconds),
    )


def save(path: Path, trace: Trace) -> None:
    """Write a trace as JSON; README has its fields.

    Raises:
        OSError: It cannot be written.
    """
    path.write_text(json.dumps({"schema": _SCHEMA, **asdict(trace)}, separators=(",", ":")) + "\n", encoding="utf-8")


def load(path: Path) -> Trace:
    """Read a trace.

    Raises:
        OSError: It cannot be read.
        ValueError: It is none.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    try:
        if document.pop("schema") != _SCHEMA:
            raise ValueError(f"{path}: a trace of another version")
        proposals = {name: [Proposal(*pair) for pair in pairs] for name, pairs in document.pop("proposals").items()}
        target_seconds = {int(width): float(value) for width, value in document.pop("target_seconds").items()}
        trace = Trace(proposals=proposals, target_seconds=target_seconds, **document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a trace: {error!r}") from error
    if any(len(pairs) != len(trace.tokens) for pairs in (*proposals.values(), trace.confidences)):
        raise ValueError(f"{path}: not a trace: some positions are missing")
    return trace


def most_likely(distribution: Distribution) -> int:
    """The token of the largest probability."""
    return distribution.token_at(int(distribution.weights.argmax()))


def _proposal(drafter: Drafter, context: Sequence[int], sampler: Sampler) -> Proposal:
    rule = _Recorder()
    draft = drafter.propose(context, sampler, lambda distribution, _: most_likely(distribution), rule)
    return Proposal([int(token) for token in draft.tokens], rule.confidences)


def _confidences(target: Decoder, prompt: Sequence[int], tokens: Sequence[int], sampler: Sampler) -> list[float]:
    target.truncate(0)
    context = [*prompt, *tokens[:-1]]
    row = target.decode(prompt, 1)[0]
    confidences = []
    for i in range(len(tokens)):
        history = context[: len(prompt) + i] if sampler.history_length != 0 else ()
        confidences.append(round(sampler.confidence(row, sampler.distribution(row, history)), _DIGITS))
        if i < len(tokens) - 1:
            row = target.decode([tokens[i]], 1)[0]
    target.truncate(0)
    return confidences


class _Recorder:
    """A length rule that always goes on, and remembers."""

    def __init__(self) -> None:
        self.confidences: list[float] = []

    def propose_another(self, n_drafted: int) -> bool:
        return n_drafted < LENGTH

    def draw(self, n_drafted: int, confidence: Callable[[], float]) -> bool:
        self.confidences.append(round(confidence(), _DIGITS))
        return True
