"""What the measurements of a sweep say: speed-ups with intervals, who leads, and what acceptance and costs predict."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from specli.bench.grid import Placement, Point
from specli.bench.intervals import Estimate, median_estimate, noise_estimate
from specli.bench.measurement import Measurement
from specli.bench.speedup import predicted
from specli.decoding.costs import CostCurve
from specli.drafters.names import EAGLE3, MODEL, MTP

_PRECISE = 0.03  # of a speed-up: half of an interval that is narrow, and a difference that hardly matters
_ONE_BY_ONE = (MODEL, MTP, EAGLE3)  # drafters whose draft of n tokens takes n steps
_LEAST_TEXTS = 6  # of a point; fewer tell nothing of how they scatter


@dataclass(frozen=True)
class Standing:
    """How a point did.

    Attributes:
        point: The setting.
        speed: Tokens per second while decoding, the median.
        decode: Decoding speed over the reference's, of the same question and block.
        request: The same of the whole request.
        noise: That again, as far off as another measurement of the same prompts may be.
        overall: Decoding speed over the reference's, the tokens and seconds of all texts taken together.
        acceptance: By position, of the tokens drafted there after accepted ones; as many as were drafted.
        acceptance_rate: Of all drafted tokens that were judged; None: none was.
        mean_accepted_length: Tokens a round.
        draft_share: Of the decoding time.
        verify_share: Of the decoding time.
        step_seconds: Of one drafted token; None: none was drafted.
        n_texts: How many texts were measured.
        predicted: What acceptance and costs predict ``overall`` to be, for a fixed length of a draft.
    """

    point: Point
    speed: float
    decode: Estimate
    request: Estimate
    noise: Estimate
    overall: float
    acceptance: tuple[float, ...]
    acceptance_rate: float | None
    mean_accepted_length: float
    draft_share: float
    verify_share: float
    step_seconds: float | None
    n_texts: int
    predicted: float | None


@dataclass(frozen=True)
class Verdict:
    """What to take.

    Attributes:
        best: The point with the largest speed-up.
        recommended: The cheapest of those that are about as fast.
        tied: All that may be the fastest, by other prompts too, the fastest here first.
        settled: Whether enough was measured: more of the same prompts would tell nothing new.
        decided: Whether, besides, all that may be the fastest are about as fast here.
    """

    best: Standing
    recommended: Standing
    tied: tuple[Standing, ...]
    settled: bool
    decided: bool


def standings(
    measurements: Sequence[Measurement], points: Sequence[Point], category: str | None = None
) -> list[Standing]:
    """How every measured point did beside the reference: plain decoding in the first placement, per temperature.

    Args:
        measurements: All.
        points: In the order wanted; the first is plain.
        category: Only of its questions; None: of all.
    """
    chosen = [m for m in measurements if category in (None, m.question.category)]
    references = {
        (m.point.temperature, m.question, m.block): m
        for m in chosen
        if m.point == Point(points[0].placement, m.point.temperature)
    }
    by_point: defaultdict[Point, list[Measurement]] = defaultdict(list)
    for m in chosen:
        if (m.point.temperature, m.question, m.block) in references:
            by_point[m.point].append(m)
    return [
        _standing(point, by_point[point], chosen, lambda m: references[m.point.temperature, m.question, m.block])
        for point in points
        if by_point[point]
    ]


def verdict(standings: Sequence[Standing], cost: Callable[[Point], tuple[float, ...]]) -> Verdict:
    """Who leads among the points of one temperature.

    Args:
        standings: Of those points.
        cost: What a point takes beside time, to be kept low: memory, complication.
    """
    ranked = sorted(standings, key=lambda standing: -standing.request.value)
    best = ranked[0]
    tied = tuple(standing for standing in ranked if standing.request.high >= best.request.low)
    alike = [standing for standing in tied if standing.request.value >= (1.0 - _PRECISE) * best.request.value]
    recommended = min(alike, key=lambda standing: cost(standing.point))
    settled = all(standing.n_texts >= _LEAST_TEXTS and _is_precise(standing.noise) for standing in tied)
    return Verdict(best, recommended, tied, settled, decided=settled and len(alike) == len(tied))


def target_seconds(
    measurements: Sequence[Measurement], placement: Placement, temperature: float
) -> Callable[[int], float]:
    """Seconds of a forward pass by its width: means, lines between them, and in proportion beyond the widest."""
    passes: defaultdict[int, int] = defaultdict(int)
    seconds: defaultdict[int, float] = defaultdict(float)
    for m in measurements:
        if m.point.placement == placement and m.point.temperature == temperature:
            for width, (n, total) in m.widths.items():
                passes[width] += n
                seconds[width] += total
    means = {width: seconds[width] / n for width, n in passes.items()}
    narrowest = min(means)
    return CostCurve({1: means[narrowest] / narrowest, **means}).seconds


def _standing(
    point: Point,
    measured: Sequence[Measurement],
    everything: Sequence[Measurement],
    reference: Callable[[Measurement], Measurement],
) -> Standing:
    reached, accepted = (_by_position(measured, name) for name in ("judged_by_position", "accepted_by_position"))
    acceptance = tuple(n / of for n, of in zip([*accepted, *[0] * len(reached)], reached, strict=False))
    judged = sum(m.accepted + m.rejected for m in measured)
    drafted = sum(m.drafted for m in measured)
    decode_seconds = sum(m.decode_seconds for m in measured)
    draft_seconds = sum(m.draft_seconds for m in measured)
    step_seconds = draft_seconds / drafted if drafted else None
    plain_seconds = sum(reference(m).decode_seconds for m in measured) / sum(reference(m).tokens for m in measured)
    request = _ratios(measured, lambda m: m.request_speed / reference(m).request_speed)
    prediction = None
    if point.n_max and len(point.drafters) == 1 and point.drafters[0] in _ONE_BY_ONE and step_seconds is not None:
        seconds = target_seconds(everything, point.placement, point.temperature)
        prediction = predicted(acceptance, seconds, step_seconds) * plain_seconds / seconds(1)
    return Standing(
        point=point,
        speed=median(m.decode_speed for m in measured),
        decode=median_estimate(_ratios(measured, lambda m: m.decode_speed / reference(m).decode_speed)),
        request=median_estimate(request),
        noise=noise_estimate(request),
        overall=sum(m.tokens for m in measured) / decode_seconds * plain_seconds,
        acceptance=acceptance,
        acceptance_rate=sum(m.accepted for m in measured) / judged if judged else None,
        mean_accepted_length=sum(m.tokens for m in measured) / sum(m.rounds for m in measured),
        draft_share=draft_seconds / decode_seconds,
        verify_share=sum(m.verify_seconds for m in measured) / decode_seconds,
        step_seconds=step_seconds,
        n_texts=len(measured),
        predicted=prediction,
    )


def _ratios(measured: Sequence[Measurement], ratio: Callable[[Measurement], float]) -> list[list[float]]:
    """By prompt: the turns of one resemble each other as its rounds do."""
    by_prompt: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for m in measured:
        by_prompt[m.question.category, m.question.id].append(ratio(m))
    return list(by_prompt.values())


def _by_position(measured: Sequence[Measurement], name: str) -> list[int]:
    columns = [getattr(m, name) for m in measured]
    return [sum(column[i] for column in columns if i < len(column)) for i in range(max(map(len, columns)))]


def _is_precise(estimate: Estimate) -> bool:
    return estimate.high - estimate.low <= 2 * _PRECISE * estimate.value
