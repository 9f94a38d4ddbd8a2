"""What each drafter would have proposed at every position of a greedy text: enough to replay any policy on it.

The drafters that learn from how their last proposal fared (ngram-map-k, ngram-map-k4v, ngram-mod) are no such drafters:
asked at every position they learn something else than asked once a round.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from specli.decoding.costs import CostCurve, Costs
from specli.decoding.draft_length import UntilEog
from specli.drafters.drafter import Drafter, Sampler
from specli.drafters.lookup import LookupDrafter
from specli.llama.decoder import Decoder, OnProgress, read
from specli.sampling.distribution import Distribution
from specli.whole_file import write_whole

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
        in_one_pass: The drafters among them that work their proposals out all at once.
        save_seconds: Of remembering the target's state for a draft; 0: its memory can be cut.
    """

    prompt: Sequence[int]
    tokens: Sequence[int]
    confidences: Sequence[float]
    proposals: Mapping[str, Sequence[Proposal]]
    looked_up: Sequence[str]
    target_seconds: Mapping[int, float]
    step_seconds: Mapping[str, float]
    read_seconds: Mapping[str, float]
    in_one_pass: Sequence[str] = ()
    save_seconds: float = 0.0

    @property
    def costs(self) -> Costs:
        """What decoding cost where it was recorded."""
        curve = CostCurve(self.target_seconds)
        return Costs(curve, dict(self.step_seconds), dict(self.read_seconds), self.save_seconds, frozen=True)


def record(
    target: Decoder,
    drafters: Sequence[Drafter],
    prompt: Sequence[int],
    tokens: Sequence[int],
    sampler: Sampler,
    draft_sampler: Sampler,
    is_eog: Callable[[int], bool],
    costs: Costs,
    on_progress: OnProgress | None = None,
) -> Trace:
    """Ask the target and every drafter at every position of a greedy text.

    Args:
        target: Whose text it is; its cache may hold anything.
        drafters: Whom to ask.
        prompt: At least one token.
        tokens: The text that followed it.
        sampler: The transforms of the target's logits.
        draft_sampler: Those of the draft's.
        is_eog: Whether a token ends a draft.
        costs: What decoding costs here.
        on_progress: Called with positions done and in all.
    """
    n_positions = len(tokens) * (len(drafters) + 1)

    def report(n_asked: int) -> OnProgress:
        return lambda done, _: on_progress(n_asked * len(tokens) + done, n_positions) if on_progress else None

    return Trace(
        prompt=list(prompt),
        tokens=list(tokens),
        confidences=_confidences(target, prompt, tokens, sampler, report(0)),
        proposals={
            drafter.name: _proposals(drafter, prompt, tokens, draft_sampler, is_eog, report(i))
            for i, drafter in enumerate(drafters, start=1)
        },
        looked_up=[drafter.name for drafter in drafters if isinstance(drafter, LookupDrafter)],
        in_one_pass=[drafter.name for drafter in drafters if drafter.forecast(prompt).in_one_pass],
        target_seconds=costs.target.known,
        step_seconds=dict(costs.step_seconds),
        read_seconds=dict(costs.read_seconds),
        save_seconds=costs.save_seconds,
    )


def save(path: Path, trace: Trace) -> None:
    """Write a trace as JSON; docs/formats.md has its fields.

    Raises:
        OSError: It cannot be written.
    """
    write_whole(path, json.dumps({"schema": _SCHEMA, **asdict(trace)}, separators=(",", ":")) + "\n")


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


def _proposals(
    drafter: Drafter,
    prompt: Sequence[int],
    tokens: Sequence[int],
    sampler: Sampler,
    is_eog: Callable[[int], bool],
    on_progress: OnProgress,
) -> list[Proposal]:
    drafter.begin(prompt)
    context = list(prompt)
    proposals = []
    for token in tokens:
        recorder = _Recorder()
        rule = UntilEog(recorder)

        def draw(distribution: Distribution, _: int, rule: UntilEog = rule) -> int:
            token = most_likely(distribution)
            rule.ended = is_eog(token)
            return token

        draft = drafter.propose(context, sampler, draw, rule)
        proposals.append(Proposal([int(token) for token in draft.tokens], recorder.confidences))
        drafter.accept(0, token)
        context.append(token)
        on_progress(len(proposals), len(tokens))
    return proposals


def _confidences(
    target: Decoder, prompt: Sequence[int], tokens: Sequence[int], sampler: Sampler, on_progress: OnProgress
) -> list[float]:
    target.truncate(0)
    read(target, prompt[:-1])
    context = list(prompt)
    confidences: list[float] = []
    for token in tokens:
        row = target.decode(context[-1:], 1)[0]
        distribution = sampler.distribution(row, context if sampler.history_length != 0 else ())
        confidences.append(round(sampler.confidence(row, distribution), _DIGITS))
        context.append(token)
        on_progress(len(confidences), len(tokens))
    target.truncate(0)
    return confidences


class _Recorder:
    """A length rule that always goes on, and remembers."""

    def __init__(self) -> None:
        self.confidences: list[float] = []

    most = LENGTH

    def propose_another(self, n_drafted: int) -> bool:
        return n_drafted < LENGTH

    def draw(self, n_drafted: int, confidence: Callable[[], float]) -> bool:
        self.confidences.append(round(confidence(), _DIGITS))
        return True
