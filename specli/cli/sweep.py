"""``specli sweep``: measure settings beside each other, and recommend one."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live

from specli.bench.grid import Placement, Point
from specli.bench.measurement import Question, point_document
from specli.bench.prompts import Prompt
from specli.bench.results import ResultsFile, check_new, check_resumable, create, resume
from specli.bench.runner import Place, Sweep, beginning
from specli.bench.summary import LEAST_BLOCKS, Results
from specli.cli.common_options import Verbose
from specli.cli.draft_options import DraftFile, DraftFlags
from specli.cli.exact import ExactSetup, exact_setup
from specli.cli.failures import hold_interrupts, note, raise_held, warn, worded
from specli.cli.groups import OURS, given, takes_options
from specli.cli.llama_flags import Unsupported
from specli.cli.loading import check_memory, start_llama
from specli.cli.lookup_options import LookupFlags
from specli.cli.lookups import add_lookups
from specli.cli.model_names import NameFlags
from specli.cli.option_values import duration
from specli.cli.sweep_options import SweepFlags
from specli.cli.target_options import TargetFlags
from specli.decoding.heads import with_heads
from specli.decoding.options import GenerationOptions, longest_draft
from specli.decoding.pair import Pair
from specli.errors import SpecliError, UsageError
from specli.llama.chat import Message, chat_tokens
from specli.llama.model import Model
from specli.llama.options import ModelOptions
from specli.report import sweep_words
from specli.report.charts import check_plot, write_plot
from specli.report.sweep_report import FORMATS, print_sweep, tables
from specli.sampling.transforms import SamplingOptions

_MOST_BLOCKS = 25
_TEMPLATE_TOKENS = 64  # of a chat template around a turn, at most


@takes_options
@worded
def command(
    target: TargetFlags,
    flags: SweepFlags,
    names: NameFlags,
    draft: DraftFlags,
    lookups: LookupFlags,
    format: Annotated[
        str, typer.Option("--format", metavar="text|json|csv|markdown", help=f"What stdout gets. {OURS}")
    ] = "text",
    verbose: Verbose = False,
    debug: Annotated[bool, typer.Option("--debug", help=f"Show tracebacks of errors. {OURS}")] = False,
    unsupported: Unsupported = False,
) -> None:
    """Measure draft lengths, drafters and draft models beside plain decoding, and recommend the best.

    Every point answers every question in turn, in shuffled blocks, so that whatever else the machine does falls on all
    alike; speed-ups are taken within a block. It goes on until the leading points are known within ± 3 %.
    """
    started = time.monotonic()
    start_llama(target, verbose=verbose)
    if format not in FORMATS:
        raise UsageError(f"--format {format}: not one of {', '.join(FORMATS)}")
    if flags.resume and flags.out is None:
        raise UsageError("--resume continues the file of --out", "Name it with --out FILE.")
    if flags.plot:
        check_plot(flags.plot)
        if flags.out and flags.plot.absolute() == flags.out.absolute():
            raise UsageError(f"--plot {flags.plot}: --out keeps the measurements there")
    budget = None if flags.budget is None else duration("--budget", flags.budget)
    lookups.ngram_options()
    grid, prompts = flags.grid(has_corpus=bool(lookups.corpus)), flags.chosen_prompts(target.target)
    target, flags = _located(names, target, flags)
    points = flags.with_models(grid, target.path()).points()
    for point in points:
        sampling = SamplingOptions(temperature=point.temperature)
        GenerationOptions(sampling, n_max=point.n_max, n_predict=flags.n_predict).check()
        replace(target.context_options(0), **_placed(point.placement)).check()
    settings = _settings(target, draft, lookups, flags, points, prompts)
    if flags.out and flags.resume:
        check_resumable(flags.out, settings)
    elif flags.out:
        check_new(flags.out)
    hold_interrupts()
    sweep = _load(target, draft, lookups, flags, points, prompts)
    _print_plan(sweep, budget)
    if flags.dry_run:
        return
    file = _open(flags, settings)
    results = Results(settings, list(file.measurements) if file else [])
    interrupted, failure = False, None
    try:
        _measure(sweep, results, file, math.inf if budget is None else started + budget)
    except KeyboardInterrupt:
        interrupted = True
    except SpecliError as error:  # a full disk, a failing computation: what there is is shown all the same
        failure = error
    for prompt in sweep.cut_short:
        warn(f"{prompt.category} {prompt.id}: its later turns do not fit the context")
    if results.is_empty and not (failure or interrupted):
        raise SpecliError("nothing was measured beside plain decoding within --budget", "Give it more time.")
    measured = {measurement.point for measurement in results.measurements}
    if missing := [sweep_words.name(point) for point in sweep.points if point not in measured]:
        warn(f"not measured within the time: {'; '.join(missing)}")
    if not results.is_empty:
        print_sweep(results, format, by_category=flags.by_category)
        if flags.plot:
            write_plot(flags.plot, results)
    if failure:
        raise failure
    if interrupted:
        raise KeyboardInterrupt


def _located(names: NameFlags, target: TargetFlags, flags: SweepFlags) -> tuple[TargetFlags, SweepFlags]:
    """The same models by their files; a known target's own draft where none was named."""
    drafts = [DraftFile(name) for name in flags.draft or ()] or [DraftFile()]
    found = [names.located(target, draft, flags.draft_kinds) for draft in drafts]
    paths = [draft.draft for _, draft in found if draft.draft is not None]
    return found[0][0], replace(flags, draft=paths or None)


def _settings(
    target: TargetFlags,
    draft: DraftFlags,
    lookups: LookupFlags,
    flags: SweepFlags,
    points: Sequence[Point],
    prompts: Sequence[Prompt],
) -> dict[str, Any]:
    """All that decides what is measured, and what of it a line to paste has to repeat."""
    groups = {"target": replace(target, target=None), "draft": draft, "lookups": lookups}
    settings: dict[str, Any] = {
        "target": str(target.path()),
        "points": [point_document(point) for point in points],
        "questions": [[prompt.category, prompt.id, prompt.system, *prompt.turns] for prompt in prompts],
        "n_predict": flags.n_predict,
        "ignore_eos": flags.ignore_eos,
        "exact": flags.exact,
        "seed": flags.seed or 0,
        "target_bytes": _size(target.path()),
        "draft_bytes": {name: _size(Path(name)) for name in flags.draft or ()},
        "target_options": asdict(target),
        "draft_options": asdict(draft),
        "lookup_options": asdict(lookups),
        "words": {
            "run": {name: given(group) for name, group in groups.items()},
            "server": {name: given(group, ours=False) for name, group in groups.items()},
        },
        "build": version("llama-cpp-python"),
    }
    if flags.exact:
        settings["words"]["run"]["target"].append("--exact")
    return settings


def _open(flags: SweepFlags, settings: Mapping[str, Any]) -> ResultsFile | None:
    if flags.out is None:
        return None
    return resume(flags.out, settings) if flags.resume else create(flags.out, settings)


def _load(
    target: TargetFlags,
    draft: DraftFlags,
    lookups: LookupFlags,
    flags: SweepFlags,
    points: Sequence[Point],
    prompts: Sequence[Prompt],
) -> Sweep:
    """Load every model once, and make contexts for every place."""
    target_options = target.model_options()
    names = {name for point in points for name in point.drafters}
    target_options = with_heads(target.path(), target_options, names)
    placements = list(dict.fromkeys(point.placement for point in points))
    setups = _exact_setups(target, target_options, placements) if flags.exact else {}
    if setups:
        target_options = setups[placements[0]].model
    n_max = max(longest_draft(point.n_max, target.batch_size) for point in points)
    check_memory(target, target_options, [Path(name) for name in flags.draft or ()], draft, n_max, len(placements))
    model = Model(target.path(), target_options)
    drafts = {
        path: Model(path, draft.model_options(target.model_options()))
        for path in dict.fromkeys(point.draft for point in points if point.draft is not None)
    }

    tokenize = partial(chat_tokens, model)
    needed = min(model.n_ctx_train, max(_needed_context(prompt, tokenize, flags.n_predict) for prompt in prompts))
    n_ctx = needed if target.ctx_size is None else target.ctx_size or model.n_ctx_train
    pairs = {}
    for place in dict.fromkeys(Place(point.placement, point.draft) for point in points):
        if place.draft is None and any(other.placement == place.placement and other.draft for other in points):
            continue  # what needs no draft model runs beside those that do
        context = replace(target.context_options(n_ctx), **_placed(place.placement))
        draft_model = drafts[place.draft] if place.draft else None
        draft_context = draft.context_options(context, (draft_model or model).n_ctx_train)
        exact = setups.get(place.placement)
        if exact:
            context = exact.of_context(context)
        width = exact.width if exact else None
        pair = pairs[place] = Pair(model, draft_model, context, draft_context, n_max, width)
        add_lookups(pair, lookups, names)
    options = GenerationOptions(n_predict=flags.n_predict, ignore_eos=flags.ignore_eos)
    sweep = Sweep(pairs, points, prompts, tokenize, options, flags.seed or 0, raise_held)
    if long := sweep.too_long():
        warn(f"{len(long)} prompts are too long for a context of {n_ctx}: {', '.join(prompt.id for prompt in long)}")
        sweep = replace(sweep, prompts=[prompt for prompt in prompts if prompt not in long])
    if not sweep.prompts:
        raise UsageError("no prompt fits the context", "Use a larger one, with -c.")
    sweep.warm_up()
    return sweep


def _exact_setups(
    target: TargetFlags, options: ModelOptions, placements: Sequence[Placement]
) -> dict[Placement, ExactSetup]:
    """How to compute exactly at every placement; the first settles how the one model of all is loaded."""
    setups: dict[Placement, ExactSetup] = {}
    for placement in placements:
        context = replace(target.context_options(0), **_placed(placement))
        setup = exact_setup(target.path(), options, context, Model, as_loaded=bool(setups))
        if setup.width == 1:
            raise SpecliError(
                "--exact: only single tokens are exact here, which is plain decoding: there is nothing to compare",
                "Without --exact texts have the target's distribution all the same.",
            )
        setups[placement], options = setup, setup.model
    return setups


def _placed(placement: Placement) -> dict[str, Any]:
    """What of the target's context options a placement changes."""
    changes = {"threads": placement.threads, "cache_type_k": placement.cache_type, "cache_type_v": placement.cache_type}
    return {name: value for name, value in changes.items() if value is not None}


def _needed_context(prompt: Prompt, tokenize: Callable[[Sequence[Message]], list[int]], n_predict: int) -> int:
    """Tokens that a prompt's turns and their answers take at most, and some for the template's own."""
    turns = [*beginning(prompt), {"role": "user", "content": "\n".join(prompt.turns)}]
    return len(tokenize(turns)) + (n_predict + _TEMPLATE_TOKENS) * len(prompt.turns)


def _print_plan(sweep: Sweep, budget: float | None) -> None:
    time_left = "" if budget is None else f", {_in_words(budget)} at most"
    note(
        f"{len(sweep.points)} points × {len(sweep.prompts)} prompts: about {_in_words(sweep.block_seconds())} a block, "
        f"{LEAST_BLOCKS} blocks or more{time_left}"
    )
    for point in sweep.points:
        note(f"  temp {point.temperature:g}: {sweep_words.name(point)}")


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _measure(sweep: Sweep, results: Results, file: ResultsFile | None, deadline: float) -> None:
    """Measure block by block until the leading points are known well enough, or time is up."""
    asked: Question | None = None
    with _live(results) as show:
        for block in range(_MOST_BLOCKS):
            points = results.contenders(block)
            if not points:
                return
            for measurement in sweep.measure(block, points, results.measurements):
                if measurement.question != asked:  # the one before has been answered at every point
                    asked = measurement.question
                    show()
                results.measurements.append(measurement)
                if file:
                    file.append(measurement)
                if time.monotonic() > deadline:
                    return


@contextmanager
def _live(results: Results) -> Iterator[Callable[[], None]]:
    """The table as it fills in, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda: None
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda: live.update(Group(*tables(results, console.width)), refresh=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
