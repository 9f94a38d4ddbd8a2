"""A sweep as a whole: what was to be measured, and what has been."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specli.bench.analysis import Standing, Verdict, standings, target_seconds, verdict
from specli.bench.grid import Point
from specli.bench.measurement import Measurement, point_of

LEAST_BLOCKS = 3


@dataclass(frozen=True)
class Results:
    """What a sweep is, and what it has measured so far: the content of its file.

    Attributes:
        settings: The file's first line.
        measurements: The others.
    """

    settings: Mapping[str, Any]
    measurements: list[Measurement]
    _standings: dict[tuple[int, float, str | None], list[Standing]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def points(self) -> list[Point]:
        """The settings compared."""
        return [point_of(document) for document in self.settings["points"]]

    @property
    def target(self) -> Path:
        """The target's file."""
        return Path(self.settings["target"])

    @property
    def temperatures(self) -> list[float]:
        """The temperatures compared, in order."""
        return list(dict.fromkeys(point.temperature for point in self.points))

    @property
    def categories(self) -> list[str]:
        """Of the questions answered so far."""
        return list(dict.fromkeys(m.question.category for m in self.measurements))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured beside plain decoding yet."""
        return not any(self.standings(temperature) for temperature in self.temperatures)

    def standings(self, temperature: float, category: str | None = None) -> list[Standing]:
        """How the points of one temperature did, on one category or on all."""
        key = len(self.measurements), temperature, category
        if key not in self._standings:
            chosen = [point for point in self.points if point.temperature == temperature]
            self._standings[key] = standings(self.measurements, chosen, category)
        return self._standings[key]

    def verdicts(self) -> dict[float, Verdict]:
        """By temperature, who leads."""
        found = {temperature: self.standings(temperature) for temperature in self.temperatures}
        return {temperature: verdict(standing, self._cost) for temperature, standing in found.items() if standing}

    def contenders(self, block: int) -> list[Point]:
        """The points a block has to measure: all at first, later those that may still lead, beside plain decoding.

        Nothing, when enough is known. What later blocks measured does not count, so that a sweep which broke off goes
        on with the points it was measuring.
        """
        if block < LEAST_BLOCKS:
            return self.points
        before = Results(self.settings, [m for m in self.measurements if m.block < block])
        tied = {standing.point for found in before.verdicts().values() if not found.settled for standing in found.tied}
        plain = {Point(self.points[0].placement, point.temperature) for point in tied}
        return [point for point in self.points if point in tied | plain]

    def target_seconds(self, temperature: float) -> Callable[[int], float]:
        """Of a forward pass by its width."""
        return target_seconds(self.measurements, self.points[0].placement, temperature)

    def _cost(self, point: Point) -> tuple[float, ...]:
        """Memory first: no draft model is better than one, a small one better than a large one; then simplicity."""
        n_bytes = self.settings["draft_bytes"].get(str(point.draft), 0)
        return n_bytes, len(point.drafters), 0 if point.n_max is None else point.n_max
