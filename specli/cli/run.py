"""``specli run``: generate a text, show it and what it took."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from specli.cli.common_options import Verbose
from specli.cli.compare import compare_with_plain
from specli.cli.draft_options import DraftFile, DraftFlags
from specli.cli.exact import ExactSetup
from specli.cli.failures import hold_interrupts, interruptible, raise_held, worded
from specli.cli.generating import generate_shown
from specli.cli.generation_options import LengthFlags, SamplingFlags, SpeculationFlags, check_draft, generation_options
from specli.cli.groups import OURS, takes_options
from specli.cli.llama_flags import Unsupported
from specli.cli.loading import Loader, ready_pair, start_llama
from specli.cli.lookup_options import LookupFlags
from specli.cli.memory import recall, remember
from specli.cli.model_names import NameFlags
from specli.cli.prompt import PromptFlags, prompt_tokens, read_prompt
from specli.cli.target_options import TargetFlags
from specli.decoding import trace
from specli.decoding.ending import INTERRUPTED
from specli.decoding.options import GenerationOptions, longest_draft
from specli.decoding.pair import Generation, Pair
from specli.decoding.round import Round
from specli.decoding.stats import Stats
from specli.errors import UsageError
from specli.llama import devices
from specli.llama.context import Context
from specli.llama.errors import DecodeError
from specli.models import stories
from specli.report.documents import round_event, run_document
from specli.report.facts import ModelFacts, RunFacts
from specli.report.live import LiveView
from specli.report.summary import print_summary

_FORMATS = ("text", "json", "jsonl")


@takes_options
@worded
def command(
    prompt: PromptFlags,
    target: TargetFlags,
    draft_file: DraftFile,
    names: NameFlags,
    draft: DraftFlags,
    speculation: SpeculationFlags,
    lookups: LookupFlags,
    sampling: SamplingFlags,
    length: LengthFlags,
    compare: Annotated[
        bool, typer.Option("--compare", help=f"Also decode plainly: speed-up, and whether the text is the same. {OURS}")
    ] = False,
    save_trace: Annotated[
        Path | None,
        typer.Option(
            "--save-trace",
            metavar="FILE",
            help="Afterwards record what each drafter would have proposed at every position of the greedy text, for "
            f"replaying draft lengths; takes {trace.LENGTH} draft steps a token. {OURS}",
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="text|json|jsonl", help=f"What stdout gets (docs/formats.md). {OURS}")
    ] = "text",
    list_devices: Annotated[
        bool, typer.Option("--list-devices", help="Print the devices that layers can be offloaded to.")
    ] = False,
    verbose: Verbose = False,
    debug: Annotated[bool, typer.Option("--debug", help=f"Show tracebacks of errors. {OURS}")] = False,
    unsupported: Unsupported = False,
) -> None:
    """Generate a text with speculative decoding: watch it, its accepted drafts, and its speed.

    Without --draft it drafts what the text has said before; without --target, the pair of models inside specli tells a
    story. Options, their defaults and LLAMA_ARG_… variables are llama.cpp's where it has them.
    """
    start_llama(target, verbose=verbose)
    if list_devices:
        _print_devices()
        return
    if format not in _FORMATS:
        raise UsageError(f"--format {format}: not one of {', '.join(_FORMATS)}")
    usual_seed, usual_prompt = (stories.SEED, stories.PROMPT) if stories.is_target(target.target) else (-1, None)
    options = generation_options(speculation, sampling, length, usual_seed)
    options.check()
    n_max = longest_draft(options.n_max, target.batch_size)
    lookups.ngram_options()
    if save_trace:
        _check_trace(save_trace, options)
    text = read_prompt(prompt, usual_prompt)
    target, draft_file = names.located(target, draft_file, speculation.draft_kinds)
    check_draft(options.drafters, has_draft=draft_file.path() is not None)
    if save_trace:
        _check_no_input(save_trace, [target.path(), draft_file.path(), prompt.file, *(lookups.corpus or ())])
    hold_interrupts()
    with LiveView(n_max=options.n_max, text=format == "text") as view:
        started = time.perf_counter()
        loader = Loader(target, draft_file.path(), draft, options, n_max, view, exact=speculation.exact)
        target_model = loader.load_target()
        tokens = prompt_tokens(target_model, prompt, text)
        pair, options = ready_pair(loader, target_model, len(tokens), options, lookups, verbose=verbose)
        if automatic := options.n_max is None and n_max > 0:
            recall(pair, options, keep=not speculation.no_memory)
        load_seconds = time.perf_counter() - started
        show = partial(_print_event, pair) if format == "jsonl" else view.show
        generation, failure = generate_shown(pair, tokens, options, view, show)
    facts = RunFacts(
        target=_facts(pair.target),
        draft=_facts(pair.draft) if pair.draft else None,
        settings=_settings(prompt, target, lookups.corpus, pair, options, loader.exact),
        load_seconds=load_seconds,
    )
    if automatic and not speculation.no_memory:
        remember(pair, options)
    interrupted = generation.stop_reason == INTERRUPTED
    try:
        if compare and not interrupted and not failure:
            facts = replace(facts, comparison=compare_with_plain(pair, tokens, options, generation))
    except KeyboardInterrupt:
        interrupted = True
    except DecodeError as error:
        failure = error
    if format == "text":
        print_summary(Console(stderr=True), generation, facts)
    else:
        _print_json(run_document(generation, facts))
    if failure:
        raise failure
    if interrupted:
        raise KeyboardInterrupt
    raise_held()
    if save_trace:
        _save_trace(pair, tokens, options, generation, save_trace)


def _check_trace(path: Path, options: GenerationOptions) -> None:
    """Refuse, before anything is loaded, a trace that could not be recorded or written."""
    if options.n_max == 0:
        raise UsageError("--save-trace records what drafters propose, and plain decoding has none")
    if not options.sampling.greedy:
        raise UsageError("--save-trace replays greedy texts only", "Add --temp 0.")
    if learning := {"ngram-map-k", "ngram-map-k4v", "ngram-mod"} & set(options.drafters or ()):
        raise UsageError(f"--save-trace: what {learning.pop()} proposes depends on when it was asked before")
    if path.is_dir() or not path.parent.is_dir():
        reason = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(f"--save-trace {path}: {reason}")


def _check_no_input(path: Path, inputs: Sequence[Path | None]) -> None:
    """Refuse a trace that would be written over what the run reads."""
    if path.exists() and any(other and other.exists() and path.samefile(other) for other in inputs):
        raise UsageError(f"--save-trace {path}: this run reads that file")


def _save_trace(pair: Pair, tokens: list[int], options: GenerationOptions, generation: Generation, path: Path) -> None:
    with LiveView(text=False) as view, view.recording() as show:
        recorded = pair.trace(tokens, generation.token_ids, options, interruptible(show))
    trace.save(path, recorded)


def _facts(context: Context) -> ModelFacts:
    model = context.model
    return ModelFacts(
        path=str(model.path),
        architecture=model.architecture,
        parameters=model.n_parameters,
        bytes=model.n_bytes,
        layers_offloaded=model.layers_offloaded,
        n_layers=model.n_layer + 1,
        weights_by_buffer=model.weights,
        kv_bytes=context.kv_bytes,
    )


def _settings(
    prompt: PromptFlags,
    target: TargetFlags,
    corpus: Sequence[Path] | None,
    pair: Pair,
    options: GenerationOptions,
    exact: ExactSetup | None,
) -> dict[str, Any]:
    """Every value used, flat where it decides the text, grouped where it places the models."""
    values = asdict(options)
    sampling = values.pop("sampling")
    return {
        **values,
        **sampling,
        "n_max": "auto" if options.n_max is None else options.n_max,
        "drafters": list(pair.names(options)),
        "corpus": [str(path) for path in corpus or ()],
        "verification": options.effective_verification,
        "exact_width": exact.width if exact else None,
        "target": {"model": asdict(pair.target.model.options), "context": asdict(pair.target.options)},
        "draft": {"model": asdict(pair.draft.model.options), "context": asdict(pair.draft.options)}
        if pair.draft
        else None,
        "system": prompt.system_message(),
        "raw": prompt.raw,
        "chat_template": prompt.chat_template(),
        "reasoning": prompt.reasoning,
        "rpc": target.rpc,
    }


def _print_event(pair: Pair, round_: Round, stats: Stats) -> None:
    _print_json(round_event(stats.rounds, round_, pair.target.model.vocab.text))


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, ensure_ascii=False), flush=True)


def _print_devices() -> None:
    found = devices.list_devices()
    if not found:
        print("No devices to offload to: this build of llama.cpp runs on the CPU only.")
    for device in found:
        mib = 1 << 20
        print(f"{device.name}: {device.description} ({device.memory // mib} MiB, {device.memory_free // mib} MiB free)")
