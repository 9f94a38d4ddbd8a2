"""A sweep in words: the table, why it came out so, and lines to paste."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from specli.bench.analysis import Standing, Verdict
from specli.bench.grid import Point
from specli.bench.intervals import Estimate
from specli.bench.speedup import best_predicted, needed_acceptance, needed_cheapness, shortcut
from specli.drafters.names import SPEC_TYPES, SUFFIX, TRAINED
from specli.drafters.ngram import NGRAM_DRAFTERS
from specli.report.plain import plain

_COLUMNS: dict[str, Callable[[Standing], str]] = {
    "decode tok/s": lambda standing: f"{standing.speed:.2f}",
    "× plain": lambda standing: estimate(standing.request),
    "decode ×": lambda standing: estimate(standing.decode),
    "all texts ×": lambda standing: f"{standing.overall:.2f}",
    "predicted": lambda standing: _or_dash(standing.predicted, "{:.2f}"),
    "accepted": lambda standing: _or_dash(standing.acceptance_rate, "{:.0%}"),
    "τ": lambda standing: f"{standing.mean_accepted_length:.2f}",
    "drafting": lambda standing: f"{standing.draft_share:.0%}",
    "verifying": lambda standing: f"{standing.verify_share:.0%}",
}

Options = Mapping[str, Sequence[str]]
"""What a line to paste repeats of the sweep's own: options of the target, of the draft, and of lookups."""

_NARROW = ("× plain", "decode ×", "τ")  # what of them fits 80 columns beside a name
_WIDE, _LEAST = 130, 76


def name(point: Point) -> str:
    """A point in few words."""
    if not point.drafters:
        words = ["plain"]
    else:
        words = [f"{drafters(point)}, n-max {'auto' if point.n_max is None else point.n_max}"]
    if point.verification != "block":
        words.append(point.verification)
    if placed := _placement(point):
        words.append(" ".join(placed))
    return ", ".join(words)


def drafters(point: Point) -> str:
    """Who drafts: the draft by its file's name."""
    computing = [name for name in point.drafters if name in TRAINED]
    by_file = computing[-1] if point.draft and computing else None
    return " + ".join(point.draft.stem if point.draft and name == by_file else name for name in point.drafters)


def table(standings: Sequence[Standing], title: str, columns: int, best: Point | None = None) -> Table:
    """The standings as a table for a terminal of so many columns, the best in bold."""
    fit = _COLUMNS if columns >= _WIDE else _NARROW if columns >= _LEAST else _NARROW[:1]
    chosen = {column: _COLUMNS[column] for column in fit}
    shown = Table(title=plain(title), title_justify="left", box=None, pad_edge=False)
    shown.add_column("", overflow="fold", min_width=20)
    for column in chosen:
        shown.add_column(column, justify="right", no_wrap=True)
    for standing in standings:
        cells = [name(standing.point), *(cell(standing) for cell in chosen.values())]
        shown.add_row(*map(plain, cells), style="bold green" if standing.point == best else "")
    return shown


def markdown(standings: Sequence[Standing], title: str) -> str:
    """The standings as a markdown table."""
    rows = [["", *_COLUMNS], [":--", *["--:"] * len(_COLUMNS)]]
    rows += [[name(standing.point), *(cell(standing) for cell in _COLUMNS.values())] for standing in standings]
    return "\n".join([f"### {title}", "", *(f"| {' | '.join(cells)} |" for cells in rows)])


def rows(standings: Sequence[Standing]) -> list[dict[str, Any]]:
    """The standings for programs: flat, numbers as they are."""
    return [
        {
            "setting": name(standing.point),
            "temperature": standing.point.temperature,
            "verification": standing.point.verification,
            "threads": standing.point.placement.threads,
            "cache_type": standing.point.placement.cache_type,
            "texts": standing.n_texts,
            "n_max": "auto" if standing.point.n_max is None else standing.point.n_max,
            "draft": None if standing.point.draft is None else str(standing.point.draft),
            "drafters": ",".join(standing.point.drafters),
            "tokens_per_second": standing.speed,
            **_flat("speedup", standing.request),
            **_flat("decode_speedup", standing.decode),
            "overall_decode_speedup": standing.overall,
            "predicted_overall_decode_speedup": standing.predicted,
            "acceptance_rate": standing.acceptance_rate,
            "mean_accepted_length": standing.mean_accepted_length,
            "draft_share": standing.draft_share,
            "verify_share": standing.verify_share,
        }
        for standing in standings
    ]


def why(standing: Standing, target_seconds: Callable[[int], float]) -> list[str]:
    """Why a fixed length of a draft model came out as it did: acceptance, costs, what would have to change.

    Args:
        standing: Of a point with a prediction.
        target_seconds: Of a forward pass by its width.
    """
    step, unit, n_max = standing.step_seconds, target_seconds(1), len(standing.acceptance)
    if step is None or standing.predicted is None or standing.acceptance_rate is None:
        return []
    mean = _mean_acceptance(standing.acceptance)
    quick = shortcut(mean, n_max, step / unit)
    lines = [
        f"acceptance by position: {' '.join(f'{alpha:.2f}' for alpha in standing.acceptance)}",
        f"a draft step takes {step / unit:.2f} of a token of plain decoding, verifying {n_max + 1} tokens "
        f"{target_seconds(n_max + 1) / unit:.2f}",
        f"predicted from these {standing.predicted:.2f}×, measured {standing.overall:.2f}× over all texts "
        f"(the shortcut αN/(1+Nc) would say {quick:.2f}×)",
    ]
    if best_predicted(mean, target_seconds, step) < 1.02:
        needed, cheaper = needed_acceptance(target_seconds, step), needed_cheapness(mean, target_seconds, step)
        changes = [f"an acceptance of {needed:.2f} (it is {mean:.2f})"] if needed is not None else []
        changes += [f"a draft {cheaper:.1f}× cheaper"] if cheaper is not None and math.isfinite(cheaper) else []
        lines.append(f"to gain it would take {' or '.join(changes) or 'cheaper verification'}")
    return lines


def conclusion(found: Verdict) -> str:
    """Who won, and how sure that is."""
    recommended, best = found.recommended, found.best
    if not found.decided:
        contenders = "; ".join(f"{name(one.point)} {estimate(one.request)}×" for one in found.tied[:4])
        wanted = (
            "more prompts would tell: these differ more than the settings do"
            if found.settled
            else "more time would tell"
        )
        return f"undecided after {best.n_texts} texts each, {wanted}: {contenders}"
    said = f"{name(recommended.point)}: {estimate(recommended.request)}× plain"
    if recommended.point != best.point:
        said += f"; {name(best.point)} may be as fast ({estimate(best.request)}×) and takes more"
    return said


def run_line(point: Point, target: Path, options: Options) -> str:
    """The ``specli run`` line of a point."""
    words = ["specli", "run", "--target", str(target)]
    if point.draft is not None:
        words += ["--draft", str(point.draft)]
    if point.drafters:
        words += ["--drafter", ",".join(point.drafters), "--n-max", "auto" if point.n_max is None else str(point.n_max)]
    else:
        words += ["--n-max", "0"]
    if point.verification != "block":
        words += ["--verification", point.verification]
    return shlex.join([*words, "--temp", f"{point.temperature:g}", *_options(point, options), *_placement(point)])


def server_line(point: Point, target: Path, options: Options) -> str:
    """The ``llama-server`` line of a point that it has."""
    words = ["llama-server", "-m", str(target)]
    if point.drafters:
        words += ["--spec-type", ",".join(SPEC_TYPES[drafter] for drafter in point.drafters)]
    if point.draft is not None:
        words += ["--spec-draft-model", str(point.draft)]
    if set(point.drafters) & set(TRAINED):
        words += ["--spec-draft-n-max", str(point.n_max)]
    elif "ngram-mod" in point.drafters:
        words += ["--spec-ngram-mod-n-max", str(point.n_max)]
    return shlex.join([*words, "--temp", f"{point.temperature:g}", *_options(point, options), *_placement(point)])


def in_server(point: Point) -> bool:
    """Whether llama-server has such a setting: its own drafters, with a fixed length."""
    return not point.drafters or (len(point.drafters) == 1 and point.drafters[0] in SPEC_TYPES and bool(point.n_max))


def without_counterpart(point: Point) -> str | None:
    """What of a point llama-server does not have; None: nothing."""
    parts = ["automatic lengths"] if point.n_max is None else []
    parts += [f"{drafter} drafting" for drafter in point.drafters if drafter not in SPEC_TYPES]
    if point.n_max and set(point.drafters) & set(NGRAM_DRAFTERS) - {"ngram-mod"}:
        parts.append(f"limit of {point.n_max} tokens on what is looked up")
    if point.drafters and point.temperature > 0.0 and point.verification != "match":  # it verifies by matching
        parts.append(f"{point.verification} verification")
    return " or ".join(parts) or None


def _options(point: Point, options: Options) -> list[str]:
    words = _without(options["target"], {"-t"} if point.placement.threads is not None else set())
    words = _without(words, {"-ctk", "-ctv"} if point.placement.cache_type is not None else set())
    words += options["draft"] if set(point.drafters) & set(TRAINED) else []
    words += options["lookups"] if set(point.drafters) - {*TRAINED, SUFFIX} else []
    return words


def _without(words: Sequence[str], flags: set[str]) -> list[str]:
    """The words without those flags and their values: the point has its own."""
    return [word for i, word in enumerate(words) if word not in flags and (i == 0 or words[i - 1] not in flags)]


def _placement(point: Point) -> list[str]:
    threads, cache_type = point.placement.threads, point.placement.cache_type
    words = [] if threads is None else ["-t", str(threads)]
    words += [] if cache_type is None else ["-ctk", cache_type, "-ctv", cache_type]
    return words


def _mean_acceptance(acceptance: Sequence[float]) -> float:
    return sum(acceptance) / len(acceptance)


def estimate(figure: Estimate) -> str:
    """A figure and its interval."""
    return f"{figure.value:.2f} ({figure.low:.2f} … {figure.high:.2f})"


def _flat(key: str, figure: Estimate) -> dict[str, float]:
    return {key: figure.value, f"{key}_low": figure.low, f"{key}_high": figure.high}


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
