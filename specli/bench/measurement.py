"""One text of a sweep: what was measured, and how it is kept."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from specli.bench.grid import Placement, Point


class Question(NamedTuple):
    """One turn of a prompt."""

    category: str
    id: str
    turn: int


class Widths(NamedTuple):
    """Forward passes of the target over so many tokens: how many, and their seconds in all."""

    passes: int
    seconds: float


@dataclass(frozen=True)
class Measurement:
    """One text.

    Attributes:
        point: The setting.
        question: What was asked.
        block: In which pass over the questions.
        prompt_tokens: Tokens of the prompt.
        tokens: Tokens of the answer.
        rounds: Target forward passes after the prompt's.
        drafted: Drafted tokens.
        accepted: Those that stayed.
        rejected: Those that did not; others the end of the text cut off.
        judged_by_position: How often a token at each position of a draft was judged, those before it being accepted.
        accepted_by_position: How often it was accepted.
        prefill_seconds: The target reading the prompt.
        draft_prefill_seconds: The draft model doing so.
        draft_seconds: Drafting.
        verify_seconds: The target's forward passes, and the verdicts on them.
        decode_seconds: All rounds.
        widths: The target's forward passes by their width.
        text: The answer.
    """

    point: Point
    question: Question
    block: int
    prompt_tokens: int
    tokens: int
    rounds: int
    drafted: int
    accepted: int
    rejected: int
    judged_by_position: tuple[int, ...]
    accepted_by_position: tuple[int, ...]
    prefill_seconds: float
    draft_prefill_seconds: float
    draft_seconds: float
    verify_seconds: float
    decode_seconds: float
    widths: Mapping[int, Widths]
    text: str

    @property
    def key(self) -> tuple[Point, Question, int]:
        """What a sweep measures once."""
        return self.point, self.question, self.block

    @property
    def decode_speed(self) -> float:
        """Tokens per second from the end of reading the prompt."""
        return self.tokens / self.decode_seconds

    @property
    def request_speed(self) -> float:
        """Tokens per second, both models' reading of the prompt included."""
        return self.tokens / (self.prefill_seconds + self.draft_prefill_seconds + self.decode_seconds)


def to_document(measurement: Measurement) -> dict[str, Any]:
    """The measurement as JSON has it."""
    document = asdict(measurement)
    document["point"] = point_document(measurement.point)
    document["question"] = measurement.question._asdict()
    return document


def of_document(document: Mapping[str, Any]) -> Measurement:
    """The measurement of such a document.

    Raises:
        ValueError: It is none.
    """
    try:
        values = dict(document)
        values["point"] = point_of(values["point"])
        values["question"] = Question(**values["question"])
        values["widths"] = {int(width): Widths(*passes) for width, passes in values["widths"].items()}
        for name in ("judged_by_position", "accepted_by_position"):
            values[name] = tuple(values[name])
        measurement = Measurement(**values)
        _check(measurement)
        return measurement
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a measurement: {error!r}") from error


def _check(measurement: Measurement) -> None:
    """Refuse figures that no text has.

    Raises:
        ValueError, TypeError: Some are no figures, or nothing was measured.
    """
    positive = [measurement.tokens, measurement.rounds, measurement.decode_seconds]
    others = [getattr(measurement, name) for name in ("prefill_seconds", "draft_prefill_seconds", "draft_seconds")]
    others += [measurement.verify_seconds, measurement.drafted, measurement.accepted, measurement.rejected]
    others += [*measurement.judged_by_position, *measurement.accepted_by_position, measurement.block]
    others += [figure for passes in measurement.widths.values() for figure in passes]
    if not all(0 < figure < math.inf for figure in positive) or not all(0 <= figure < math.inf for figure in others):
        raise ValueError("not a measurement: nothing, or no time, measured")
    if not measurement.widths or not all(passes.passes for passes in measurement.widths.values()):
        raise ValueError("not a measurement: without forward passes")
    if not isinstance(measurement.text, str) or not isinstance(measurement.question.category, str):
        raise ValueError("not a measurement: no text, or no category")


def point_document(point: Point) -> dict[str, Any]:
    """The point as JSON has it: n_max 'auto' where it is automatic."""
    document = asdict(point)
    document["draft"] = None if point.draft is None else str(point.draft)
    document["n_max"] = "auto" if point.n_max is None else point.n_max
    return document


def point_of(document: Mapping[str, Any]) -> Point:
    """The point of such a document.

    Raises:
        ValueError, TypeError, KeyError: It is none.
    """
    values = dict(document)
    values["placement"] = Placement(**values["placement"])
    values["n_max"] = None if values["n_max"] == "auto" else values["n_max"]
    values["draft"] = None if values["draft"] is None else Path(values["draft"])
    values["drafters"] = tuple(values["drafters"])
    point = Point(**values)
    if not isinstance(point.temperature, (int, float)) or not isinstance(point.n_max, (int, type(None))):
        raise ValueError(f"not a setting: temperature {point.temperature!r}, n_max {point.n_max!r}")
    hash(point)
    return point
