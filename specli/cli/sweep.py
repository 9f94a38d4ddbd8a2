"""``specli sweep``: measure settings beside each other, and recommend one."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live

from specli.bench.analysis import Standing, Verdict, standings, target_seconds, verdict
from specli.bench.grid import Grid, Placement, Point, parse_n_max, parse_numbers
from specli.bench.measurement import Measurement, point_document
from specli.bench.prompts import Prompt, choose, default_prompts, read_prompts
from specli.bench.results import ResultsFile, create, resume
from specli.bench.runner import Place, Sweep
from specli.cli.draft_options import DraftFlags, draft_path
from specli.cli.failures import note, warn, worded
from specli.cli.groups import OURS, option, takes_options
from specli.cli.llama_flags import Unsupported
from specli.cli.option_values import duration
from specli.cli.target_options import TargetFlags
from specli.decoding.options import AUTO_N_MAX, GenerationOptions, check_n_max
from specli.decoding.pair import Pair
from specli.drafters.names import CORPUS, MODEL, check_names
from specli.drafters.ngram import NGRAM_DRAFTERS, NgramOptions
from specli.errors import UsageError
from specli.llama import log
from specli.llama.chat import Message, apply_chat_template, chat_template
from specli.llama.model import Model
from specli.report import sweep as report
from specli.sampling.verification import VERIFICATIONS

_PANEL = "Sweep"
_FORMATS = ("text", "json", "csv", "markdown")
_MOST_BLOCKS = 25
_LEAST_BLOCKS = 3


@dataclass(frozen=True)
class SweepFlags:
    """The grid, the prompts, and when to stop."""

    draft: Annotated[
        list[str] | None,
        option(_PANEL, "--draft -md --spec-draft-model", "A draft model (repeatable).", metavar="FILE"),
    ] = None
    n_max: Annotated[
        str,
        option(
            _PANEL,
            "--n-max --spec-draft-n-max",
            f"Draft lengths: 1,2,4 or 1-16 or 2-16:2, and auto. {OURS}",
            metavar="LIST",
        ),
    ] = "1,2,4,8,16,auto"
    drafter: Annotated[
        list[str] | None,
        option(
            _PANEL,
            "--drafter",
            f"Who drafts, as in specli run (repeatable). Default: what specli run would take. {OURS}",
            metavar="NAME,…",
        ),
    ] = None
    temperature: Annotated[str, option(_PANEL, "--temp --temperature", "Temperatures.", metavar="LIST")] = "0"
    verification: Annotated[
        str, option(_PANEL, "--verification", f"Of block, token, match. {OURS}", metavar="LIST")
    ] = "block"
    sweep_threads: Annotated[
        str | None, option(_PANEL, "--sweep-threads", f"CPU threads to compare. {OURS}", metavar="LIST")
    ] = None
    sweep_cache_types: Annotated[
        str | None,
        option(_PANEL, "--sweep-cache-types", f"KV cache types to compare, of K and V. {OURS}", metavar="LIST"),
    ] = None
    prompts: Annotated[
        list[Path] | None,
        option(
            _PANEL,
            "--prompts",
            "JSONL with turns, messages or prompt; a text; or a folder (repeatable). Default: twelve of specli's own. "
            f"{OURS}",
            metavar="FILE",
        ),
    ] = None
    categories: Annotated[str | None, option(_PANEL, "--categories", f"Only these. {OURS}", metavar="NAME,…")] = None
    limit: Annotated[
        int | None, option(_PANEL, "--limit", f"Most prompts of each category. {OURS}", metavar="N", min=1)
    ] = None
    seed: Annotated[
        int | None, option(_PANEL, "-s --seed", "Of the choice of prompts, their order, and the texts.", metavar="N")
    ] = None
    n_predict: Annotated[
        int, option(_PANEL, "-n --predict --n-predict", "Most tokens of an answer.", metavar="N", min=2)
    ] = 64
    ignore_eos: Annotated[bool, option(_PANEL, "--ignore-eos", "Never end an answer before.")] = False
    budget: Annotated[
        str | None, option(_PANEL, "--budget", f"Stop after this time, such as 20m. {OURS}", metavar="TIME")
    ] = None
    out: Annotated[
        Path | None, option(_PANEL, "--out", f"Keep every measurement in this file. {OURS}", metavar="FILE")
    ] = None
    resume: Annotated[bool, option(_PANEL, "--resume", f"Continue the file of --out. {OURS}")] = False
    dry_run: Annotated[bool, option(_PANEL, "--dry-run", f"Show the plan, and stop. {OURS}")] = False
    by_category: Annotated[bool, option(_PANEL, "--by-category", f"A table for each category too. {OURS}")] = False

    def grid(self) -> Grid:
        """The grid.

        Raises:
            UsageError: Naming the flag that cannot be used as given.
        """
        lengths = parse_n_max(self.n_max)
        if 0 in lengths:
            note("--n-max 0 is plain decoding, which every sweep measures")
        drafters = [tuple(names.split(",")) for names in self.drafter or ()]
        for names in drafters:
            check_names(names)
            if CORPUS in names:
                raise UsageError(f"--drafter {CORPUS}: a sweep has no --corpus yet")
            if MODEL in names and not self.draft:
                raise UsageError("--drafter model needs a draft model", "Name its file with --draft.")
        verifications = self.verification.split(",")
        for name in verifications:
            if name not in VERIFICATIONS:
                raise UsageError(f"--verification {name}: not one of {', '.join(VERIFICATIONS)}")
        return Grid(
            n_max=[length for length in lengths if length != 0],
            drafts=[draft_path(name) for name in self.draft or ()],
            drafters=drafters or [None],
            temperatures=parse_numbers("--temp", self.temperature),
            verifications=verifications,
            placements=self._placements(),
        )

    def _placements(self) -> list[Placement]:
        threads = parse_numbers("--sweep-threads", self.sweep_threads) if self.sweep_threads else [None]
        types = self.sweep_cache_types.split(",") if self.sweep_cache_types else [None]
        return [Placement(None if n is None else int(n), kind) for n in threads for kind in types]

    def chosen_prompts(self) -> list[Prompt]:
        """The prompts.

        Raises:
            SpecliError: Naming the file, or the category.
        """
        there = read_prompts(self.prompts) if self.prompts else default_prompts()
        return choose(there, self.categories.split(",") if self.categories else (), self.limit, self.seed)


@takes_options
@worded
def command(
    target: TargetFlags,
    flags: SweepFlags,
    draft: DraftFlags,
    format: Annotated[
        str, typer.Option("--format", metavar="text|json|csv|markdown", help=f"What stdout gets. {OURS}")
    ] = "text",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show llama.cpp's log.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help=f"Show tracebacks of errors. {OURS}")] = False,
    unsupported: Unsupported = False,
) -> None:
    """Measure draft lengths, drafters and draft models beside plain decoding, and recommend the best.

    Every point answers every question in turn, in shuffled blocks, so that whatever else the machine does falls on all
    alike; speed-ups are taken within a block. It goes on until the leading points' intervals are within ± 3 %.
    """
    log.install(verbose=verbose)
    if format not in _FORMATS:
        raise UsageError(f"--format {format}: not one of {', '.join(_FORMATS)}")
    if flags.resume and flags.out is None:
        raise UsageError("--resume continues the file of --out", "Name it with --out FILE.")
    budget = duration("--budget", flags.budget) if flags.budget else None
    grid, prompts = flags.grid(), flags.chosen_prompts()
    points = grid.points()
    GenerationOptions(n_predict=flags.n_predict).check()
    settings = {
        "target": str(target.path()),
        "points": [point_document(point) for point in points],
        "questions": [[prompt.category, prompt.id, *prompt.turns] for prompt in prompts],
        "n_predict": flags.n_predict,
        "ignore_eos": flags.ignore_eos,
        "seed": flags.seed or 0,
    }
    file = _open(flags, settings)
    sweep = _load(target, draft, flags, points, prompts)
    measured = list(file.measurements) if file else []
    _print_plan(sweep, budget)
    if flags.dry_run:
        return
    interrupted = False
    try:
        _measure(sweep, measured, file, budget)
    except KeyboardInterrupt:
        interrupted = True
    _print(measured, points, target.path(), sweep, format, flags.by_category)
    if interrupted:
        raise KeyboardInterrupt


def _open(flags: SweepFlags, settings: Mapping[str, Any]) -> ResultsFile | None:
    if flags.out is None or flags.dry_run:
        return None
    return resume(flags.out, settings) if flags.resume else create(flags.out, settings)


def _load(
    target: TargetFlags, draft: DraftFlags, flags: SweepFlags, points: Sequence[Point], prompts: Sequence[Prompt]
) -> Sweep:
    """Load every model once, and make contexts for every place."""
    target_options = target.model_options()
    model = Model(target.path(), target_options)
    drafts = {
        path: Model(path, draft.model_options(target_options))
        for path in dict.fromkeys(point.draft for point in points if point.draft is not None)
    }

    def tokenize(messages: Sequence[Message]) -> list[int]:
        template = chat_template(model)
        if template is None:
            text = "\n".join(message["content"] for message in messages)
            return model.vocab.tokenize(text, add_special=True, parse_special=False)
        return model.vocab.tokenize_chat(apply_chat_template(model, template, list(messages)))

    n_ctx = target.ctx_size or _needed_context(model, prompts, tokenize, flags.n_predict)
    n_max = max(AUTO_N_MAX if point.n_max is None else point.n_max for point in points)
    check_n_max(n_max, target.batch_size)
    pairs = {}
    for place in dict.fromkeys(Place(point.placement, point.draft) for point in points):
        if place.draft is None and any(other.placement == place.placement and other.draft for other in points):
            continue  # what needs no draft model runs beside those that do
        context = replace(target.context_options(n_ctx), **_placed(place.placement))
        draft_model = drafts[place.draft] if place.draft else None
        draft_context = draft.context_options(context, draft_model.n_ctx_train) if draft_model else context
        pair = pairs[place] = Pair(model, draft_model, context, draft_context, n_max)
        for name in {name for point in points for name in point.drafters if name in NGRAM_DRAFTERS}:
            pair.add_lookup(name, NGRAM_DRAFTERS[name](NgramOptions()))
    options = GenerationOptions(n_predict=flags.n_predict, ignore_eos=flags.ignore_eos)
    sweep = Sweep(pairs, points, prompts, tokenize, options, flags.seed or 0)
    if long := sweep.too_long():
        warn(f"{len(long)} prompts are too long for a context of {n_ctx}: {', '.join(prompt.id for prompt in long)}")
        sweep = replace(sweep, prompts=[prompt for prompt in prompts if prompt not in long])
    if not sweep.prompts:
        raise UsageError("no prompt fits the context", "Use a larger one, with -c.")
    sweep.warm_up()
    return sweep


def _placed(placement: Placement) -> dict[str, Any]:
    """What of the target's context options a placement changes."""
    changes = {"threads": placement.threads, "cache_type_k": placement.cache_type, "cache_type_v": placement.cache_type}
    return {name: value for name, value in changes.items() if value is not None}


def _needed_context(
    model: Model, prompts: Sequence[Prompt], tokenize: Callable[[Sequence[Message]], list[int]], n_predict: int
) -> int:
    longest = max(
        len(tokenize([{"role": "user", "content": "\n".join(prompt.turns)}])) + (n_predict + 64) * len(prompt.turns)
        for prompt in prompts
    )
    return min(model.n_ctx_train, longest)


def _print_plan(sweep: Sweep, budget: float | None) -> None:
    texts = len(sweep.points) * sum(len(prompt.turns) for prompt in sweep.prompts)
    pair = next(iter(sweep.pairs.values()))
    assert pair.learnt
    seconds = texts * sweep.options.n_predict * pair.learnt.costs.target.seconds(1)
    time_left = "" if budget is None else f", at most {budget / 60:.0f} min"
    note(
        f"{len(sweep.points)} points × {len(sweep.prompts)} prompts: about {seconds / 60:.0f} min a block, "
        f"{_LEAST_BLOCKS} blocks or more{time_left}"
    )
    for point in sweep.points:
        note(f"  temp {point.temperature:g}: {report.name(point)}")


def _measure(sweep: Sweep, measured: list[Measurement], file: ResultsFile | None, budget: float | None) -> None:
    """Measure block by block until the leading points are known well enough, or time is up."""
    started = time.monotonic()
    with _live(sweep) as show:
        for block in range(_MOST_BLOCKS):
            for measurement in sweep.measure(block, measured):
                measured.append(measurement)
                if file:
                    file.append(measurement)
                show(measured)
                if budget is not None and time.monotonic() - started > budget:
                    return
            if block + 1 >= _LEAST_BLOCKS and all(found.decided for found in _verdicts(sweep, measured).values()):
                return


@contextmanager
def _live(sweep: Sweep) -> Iterator[Callable[[Sequence[Measurement]], None]]:
    """The table as it fills in, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda measured: None
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda measured: live.update(Group(*_tables(measured, sweep, None)), refresh=True)


def _temperatures(points: Sequence[Point]) -> list[float]:
    return list(dict.fromkeys(point.temperature for point in points))


def _verdicts(sweep: Sweep, measured: Sequence[Measurement]) -> dict[float, Verdict]:
    """By temperature, who leads."""
    found = {}
    for temperature in _temperatures(sweep.points):
        points = [point for point in sweep.points if point.temperature == temperature]
        if standing := standings(measured, points):
            found[temperature] = verdict(standing, lambda point: _cost(sweep, point))
    return found


def _cost(sweep: Sweep, point: Point) -> tuple[float, ...]:
    """Memory first: no draft model is better than one, a small one better than a large one; then simplicity."""
    pair = sweep.pair(point)
    n_bytes = pair.draft.model.n_bytes if point.draft is not None and pair.draft else 0
    return n_bytes, len(point.drafters), 0 if point.n_max is None else point.n_max


def _tables(measured: Sequence[Measurement], sweep: Sweep, category: str | None) -> Iterator[Any]:
    for temperature in _temperatures(sweep.points):
        points = [point for point in sweep.points if point.temperature == temperature]
        if standing := standings(measured, points, category):
            best = max(standing, key=lambda one: one.request.value)
            yield report.table(standing, _title(temperature, category), best.point)


def _title(temperature: float, category: str | None) -> str:
    return f"temp {temperature:g}" + (f", {category}" if category else "")


def _print(
    measured: Sequence[Measurement], points: Sequence[Point], target: Path, sweep: Sweep, format: str, by_category: bool
) -> None:
    """Print tables, reasons and recommendations to stdout."""
    if not measured:
        return
    categories: list[str | None] = [None]
    if by_category:
        categories += dict.fromkeys(m.question.category for m in measured)
    if format in ("json", "csv"):
        rows = [
            {**row, "category": category}
            for category in categories
            for row in report.rows(standings(measured, points, category))
        ]
        _print_rows(rows, format)
        return
    console = Console()
    for category in categories:
        if format == "markdown":
            for temperature in _temperatures(points):
                chosen = [point for point in points if point.temperature == temperature]
                print(report.markdown(standings(measured, chosen, category), _title(temperature, category)) + "\n")
        else:
            for table in _tables(measured, sweep, category):
                console.print(table)
                console.print()
    for temperature, found in _verdicts(sweep, measured).items():
        seconds = target_seconds([m for m in measured if m.point.temperature == temperature], points[0])
        _print_verdict(temperature, found, seconds, measured, points, target)


def _print_rows(rows: Sequence[Mapping[str, Any]], format: str) -> None:
    if format == "json":
        print(json.dumps({"schema": "specli.standings/1", "standings": rows}, ensure_ascii=False))
        return
    import csv
    import sys

    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)


def _print_verdict(
    temperature: float,
    found: Verdict,
    seconds: Callable[[int], float],
    measured: Sequence[Measurement],
    points: Sequence[Point],
    target: Path,
) -> None:
    print(f"temp {temperature:g}: {report.conclusion(found)}")
    standing = standings(measured, [point for point in points if point.temperature == temperature])
    for reason in _reasons(standing, seconds):
        print(f"  {reason}")
    point = found.recommended.point
    print(f"  {report.run_line(point, target)}")
    server = max((one for one in standing if report.in_server(one.point)), key=lambda one: one.request.value).point
    if lacking := report.without_counterpart(point):
        print(f"  llama-server has no {lacking}; the nearest:")
    print(f"  {report.server_line(point if report.in_server(point) else server, target)}")


def _reasons(standing: Sequence[Standing], seconds: Callable[[int], float]) -> list[str]:
    """Why the best fixed length of a draft model is what it is."""
    explained = [one for one in standing if one.predicted is not None]
    if not explained:
        return []
    best = max(explained, key=lambda one: one.decode.value)
    return [f"{report.name(best.point)}: {line}" for line in report.why(best, seconds)]
