"""Pictures of a sweep: in the terminal, as one HTML file, and with matplotlib as PNG or SVG."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from specli.bench.analysis import Standing
from specli.bench.summary import Results
from specli.errors import SpecliError, UsageError
from specli.report.sweep_words import drafters
from specli.whole_file import whole_file

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")  # Okabe and Ito's
_BAR = 32  # characters
_AUTO = "auto"


@dataclass(frozen=True)
class Curve:
    """The points that differ in their draft length only.

    Attributes:
        name: Who drafts.
        colour: Of its own.
        fixed: With fixed lengths, by them.
        auto: With automatic lengths, if they were measured.
    """

    name: str
    colour: str
    fixed: tuple[tuple[int, Standing], ...]
    auto: Standing | None


def curves(standings: Sequence[Standing]) -> list[Curve]:
    """The standings of one temperature, a curve for each choice of who drafts."""
    groups: dict[str, list[Standing]] = {}
    for standing in standings:
        if standing.point.drafters:
            groups.setdefault(_name(standing), []).append(standing)
    return [
        Curve(
            name,
            _COLOURS[i % len(_COLOURS)],
            tuple(sorted(((one.point.n_max, one) for one in group if one.point.n_max), key=lambda pair: pair[0])),
            next((one for one in group if one.point.n_max is None), None),
        )
        for i, (name, group) in enumerate(groups.items())
    ]


def terminal_chart(standings: Sequence[Standing]) -> Iterator[str]:
    """Bars of the speed-ups, and where plain decoding is."""
    shown = [(f"{curve.name}, {label}", one) for curve in curves(standings) for label, one in _labelled(curve)]
    if not shown:
        return
    width = max(len(name) for name, _ in shown)
    largest = max(1.0, *(one.request.value for _, one in shown))
    plain = round(_BAR / largest)
    for name, one in shown:
        n_full = round(one.request.value / largest * _BAR)
        cells = ["█" if i < n_full else " " for i in range(_BAR)]
        cells[plain - 1 : plain] = ["▓" if n_full >= plain else "|"]
        yield f"{name:<{width}}  {''.join(cells)} {one.request.value:.2f}×"


def write_plot(path: Path, results: Results) -> None:
    """Write a picture of what its name says: .html, .png or .svg.

    Raises:
        UsageError: Another name.
        SpecliError: It cannot be written, or matplotlib is not there.
    """
    check_plot(path)
    try:
        with whole_file(path) as place:
            if path.suffix == ".html":
                place.write_text(html_page(results), encoding="utf-8")
            else:
                _draw(place, results)
    except OSError as error:
        raise SpecliError(f"--plot {path}: cannot be written: {error.strerror}") from error


def check_plot(path: Path) -> None:
    """Refuse, before anything is measured, a picture that could not be made.

    Raises:
        UsageError: Its name or its folder.
        SpecliError: matplotlib is not there.
    """
    if path.suffix not in (".html", ".png", ".svg"):
        raise UsageError(f"--plot {path}: neither .png, .svg nor .html")
    if not path.parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.parent}")
    if path.suffix != ".html":
        try:
            import matplotlib  # noqa: F401 (asked for by name only where it is needed)
        except ImportError:
            raise SpecliError(
                f"--plot {path}: {path.suffix} takes matplotlib", "pip install 'specli[plot]', or name an .html file."
            ) from None


def _name(standing: Standing) -> str:
    point = standing.point
    more = [] if point.verification == "block" else [point.verification]
    more += [] if point.placement.threads is None else [f"-t {point.placement.threads}"]
    more += [] if point.placement.cache_type is None else [point.placement.cache_type]
    return ", ".join([drafters(point), *more])


def _labelled(curve: Curve) -> list[tuple[str, Standing]]:
    labelled = [(f"n-max {n_max}", one) for n_max, one in curve.fixed]
    return labelled if curve.auto is None else [*labelled, (f"n-max {_AUTO}", curve.auto)]


# HTML

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 640, 300, 48, 36, 12


def html_page(results: Results) -> str:
    """One file that needs nothing else: charts whose points show their values under the pointer."""
    sections = []
    for temperature in results.temperatures:
        found = curves(results.standings(temperature))
        if found:
            sections.append(f"<h2>temp {temperature:g}</h2>{_legend(found)}")
            sections.append(f"<h3>Speed-up, end to end, against n-max</h3>{_speedup_chart(found)}")
            sections.append(f"<h3>Acceptance by position</h3>{_acceptance_chart(found)}")
            sections.append("<h3>Decoding speed-up over all texts: measured (up), predicted (across)</h3>")
            sections.append(_prediction_chart(found))
    target = html.escape(results.target.name)
    return _PAGE.format(title=f"specli sweep: {target}", body="\n".join(sections))


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
body {{ font: 15px/1.4 system-ui, sans-serif; max-width: 680px; margin: 2em auto; padding: 0 1em; }}
h3 {{ font-weight: 500; margin-bottom: 0; }} svg {{ width: 100%; height: auto; }} text {{ font-size: 12px; }}
.axis {{ stroke: #888; }} .grid {{ stroke: #ddd; }} .key {{ margin-right: 1.5em; white-space: nowrap; }}
circle:hover, rect:hover {{ stroke: #000; stroke-width: 2; }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""


def _legend(found: Sequence[Curve]) -> str:
    keys = (f'<span class="key"><b style="color:{c.colour}">●</b> {html.escape(c.name)}</span>' for c in found)
    return f"<p>{''.join(keys)}</p>"


class _Axes:
    """A chart being drawn: places values, and collects what is drawn."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], x_ticks: Sequence[tuple[float, str]]) -> None:
        self._x, self._y = x, y
        self._parts: list[str] = []
        for value in _ticks(*y):
            self._parts.append(
                f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" {self._at("y1", "y2", self.py(value))}/>'
            )
            self._parts.append(f'<text x="{_LEFT - 6}" y="{self.py(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
        for value, label in x_ticks:
            where = f'x="{self.px(value):.1f}" y="{_HEIGHT - _BOTTOM + 18}"'
            self._parts.append(f'<text {where} text-anchor="middle">{html.escape(label)}</text>')

    def px(self, value: float) -> float:
        """Where a value is from the left."""
        low, high = self._x
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - 12)

    def py(self, value: float) -> float:
        """Where a value is from the top."""
        low, high = self._y
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _BOTTOM - _TOP)

    def level(self, value: float, colour: str = "#888", title: str = "") -> None:
        """A horizontal line."""
        ends = self._at("y1", "y2", self.py(value))
        line = f'x1="{_LEFT}" x2="{_WIDTH}" {ends} stroke="{colour}" stroke-dasharray="5 4"'
        self._parts.append(f"<line {line}><title>{html.escape(title)}</title></line>")

    def path(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """A line through points."""
        places = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')

    def whisker(self, x: float, low: float, high: float, colour: str) -> None:
        """An interval."""
        where = self._at("x1", "x2", self.px(x))
        self._parts.append(f'<line {where} y1="{self.py(low):.1f}" y2="{self.py(high):.1f}" stroke="{colour}"/>')

    def dot(self, x: float, y: float, colour: str, title: str) -> None:
        """A point that tells its value."""
        circle = f'cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" r="5" fill="{colour}"'
        self._parts.append(f"<circle {circle}><title>{html.escape(title)}</title></circle>")

    def svg(self) -> str:
        """The chart."""
        return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(self._parts)}</svg>'

    @staticmethod
    def _at(a: str, b: str, value: float) -> str:
        return f'{a}="{value:.1f}" {b}="{value:.1f}"'


def _ticks(low: float, high: float) -> list[float]:
    step = next(step for step in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0) if (high - low) / step <= 7)
    return [round(i * step, 3) for i in range(round(low / step), round(high / step) + 1) if low <= i * step <= high]


def _speedup_chart(found: Sequence[Curve]) -> str:
    every = [one for curve in found for _, one in _labelled(curve)]
    lengths = sorted({n_max for curve in found for n_max, _ in curve.fixed})
    places = {n_max: i for i, n_max in enumerate(lengths)}
    labels = [(float(i), str(n_max)) for n_max, i in places.items()]
    if any(curve.auto for curve in found):
        labels.append((float(len(lengths)), _AUTO))
    top = max(1.0, *(one.request.high for one in every)) * 1.05
    axes = _Axes((-0.5, len(labels) - 0.5), (0.0, top), labels)
    axes.level(1.0, title="plain decoding")
    for curve in found:
        marks = [(float(places[n_max]), one) for n_max, one in curve.fixed]
        axes.path([(x, one.request.value) for x, one in marks], curve.colour)
        if curve.auto:
            marks.append((float(len(lengths)), curve.auto))
        for x, one in marks:
            axes.whisker(x, one.request.low, one.request.high, curve.colour)
            length = _AUTO if one.point.n_max is None else one.point.n_max
            axes.dot(x, one.request.value, curve.colour, f"{curve.name}, n-max {length}: {one.request}")
    return axes.svg()


def _acceptance_chart(found: Sequence[Curve]) -> str:
    shown = [(curve, curve.fixed[-1][1].acceptance) for curve in found if curve.fixed and curve.fixed[-1][1].acceptance]
    if not shown:
        return "<p>No fixed length was measured.</p>"
    longest = max(len(acceptance) for _, acceptance in shown)
    step = max(1, longest // 16)
    axes = _Axes((0.5, longest + 0.5), (0.0, 1.0), [(float(i), str(i)) for i in range(1, longest + 1, step)])
    for curve, acceptance in shown:
        marks = [(float(i), alpha) for i, alpha in enumerate(acceptance, start=1)]
        axes.path(marks, curve.colour)
        for x, alpha in marks:
            axes.dot(x, alpha, curve.colour, f"{curve.name}, token {x:g}: {alpha:.2f}")
    return axes.svg()


def _prediction_chart(found: Sequence[Curve]) -> str:
    marks = [
        (curve, n_max, one.predicted, one.overall)
        for curve in found
        for n_max, one in curve.fixed
        if one.predicted is not None
    ]
    if not marks:
        return "<p>Only fixed lengths of a draft model are predicted.</p>"
    top = max(max(predicted, measured) for _, _, predicted, measured in marks) * 1.1
    axes = _Axes((0.0, top), (0.0, top), [(value, f"{value:g}") for value in _ticks(0.0, top) if value])
    axes.path([(0.0, 0.0), (top, top)], "#bbb")
    for curve, n_max, predicted, measured in marks:
        title = f"{curve.name}, n-max {n_max}: predicted {predicted:.2f}, measured {measured:.2f}"
        axes.dot(predicted, measured, curve.colour, title)
    return axes.svg()


# matplotlib


def _draw(path: Path, results: Results) -> None:
    from matplotlib.figure import Figure

    temperatures = [temperature for temperature in results.temperatures if curves(results.standings(temperature))]
    figure = Figure(figsize=(12, 4 * max(1, len(temperatures))), layout="constrained")
    grid = figure.subplots(max(1, len(temperatures)), 3, squeeze=False)
    for row, temperature in zip(grid, temperatures, strict=False):
        speed, acceptance, prediction = row
        found = curves(results.standings(temperature))
        lengths = sorted({n_max for curve in found for n_max, _ in curve.fixed})
        speed.set(title=f"temp {temperature:g}: speed-up, end to end", xlabel="n-max", ylabel="× plain")
        speed.set_xticks(range(len(lengths)), [str(n_max) for n_max in lengths])
        acceptance.set(title="acceptance by position", xlabel="drafted token", ylim=(0, 1.05))
        acceptance.xaxis.get_major_locator().set_params(integer=True)
        prediction.set(title="decoding speed-up over all texts", xlabel="predicted", ylabel="measured")
        speed.axhline(1.0, color="#888", linestyle="--")
        prediction.axline((1.0, 1.0), slope=1.0, color="#bbb")
        for curve in found:
            places = [lengths.index(n_max) for n_max, _ in curve.fixed]
            points = [one.request for _, one in curve.fixed]
            errors = [[e.value - e.low for e in points], [e.high - e.value for e in points]]
            values = [e.value for e in points]
            speed.errorbar(places, values, errors, color=curve.colour, marker="o", label=curve.name)
            if curve.auto:
                speed.axhline(curve.auto.request.value, color=curve.colour, linestyle=":", label=f"{curve.name}, auto")
            if curve.fixed:
                alphas = curve.fixed[-1][1].acceptance
                acceptance.plot(range(1, len(alphas) + 1), alphas, color=curve.colour, marker="o")
            pairs = [(one.predicted, one.overall) for _, one in curve.fixed if one.predicted is not None]
            if pairs:
                prediction.scatter(*zip(*pairs, strict=True), color=curve.colour)
        speed.legend()
    figure.savefig(path)
