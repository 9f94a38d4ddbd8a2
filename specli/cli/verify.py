"""``specli verify``: prove on the user's own models that drafted texts are the target's."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from specli.bench.prompts import Prompt, default_prompts, read_prompts, story_prompts
from specli.bench.runner import beginning
from specli.cli.common_options import Debug, Format, Verbose, check_format
from specli.cli.draft_options import DraftFile, DraftFlags
from specli.cli.failures import hold_interrupts, note, raise_held, warn, worded
from specli.cli.generation_options import LengthFlags, SamplingFlags, SpeculationFlags, check_draft, generation_options
from specli.cli.groups import OURS, takes_options
from specli.cli.llama_flags import Unsupported
from specli.cli.loading import Loader, start_llama
from specli.cli.lookup_options import LookupFlags
from specli.cli.lookups import add_lookups
from specli.cli.model_names import NameFlags
from specli.cli.target_options import TargetFlags
from specli.decoding.options import GenerationOptions, check_n_max
from specli.decoding.pair import Pair
from specli.errors import UsageError
from specli.llama.chat import chat_tokens
from specli.llama.model import Model
from specli.models import stories
from specli.proof.greedy import Replay
from specli.proof.prove import N_MAX, THOROUGH, Effort, Proof, prove
from specli.proof.widths import LEAST_CTX, WIDEST
from specli.report.live import LiveView
from specli.report.proof_report import print_proof, proof_document, read_replay, replay_document, settings_document
from specli.whole_file import write_whole

_PROMPTS = (  # short, so that the time goes into texts; the first has something to look up
    "Write this line three times, unchanged:\n\ndef add_numbers(first, second): return first + second",
    "Write a Python function that merges two sorted lists.",
    "Why is the sky blue? Answer in three sentences.",
    "用三句话解释什么是递归。",
)
_REPLAY_FILE = Path("specli-verify.json")


@takes_options
@worded
def command(
    target: TargetFlags,
    draft_file: DraftFile,
    names: NameFlags,
    draft: DraftFlags,
    speculation: SpeculationFlags,
    lookups: LookupFlags,
    sampling: SamplingFlags,
    prompts: Annotated[
        list[Path] | None,
        typer.Option("--prompts", metavar="FILE", help=f"Other prompts: JSONL, texts, folders (repeatable). {OURS}"),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help=f"More texts, so that smaller faults show; takes ten times as long. {OURS}"),
    ] = False,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="FILE", help=f"Look again at a failure, in the file that was written then. {OURS}"
        ),
    ] = None,
    format: Format = "text",
    verbose: Verbose = False,
    debug: Debug = False,
    unsupported: Unsupported = False,
) -> None:
    """Prove that drafted texts are what the target alone would have written, on this machine.

    Greedy texts are compared with plain decoding's, and differences with what batch width alone does to logits. The
    distribution of sampled texts is computed exactly, from every random path on real probabilities, at the settings in
    use and sixteen others; real sampled texts are checked decision by decision, and their logits beside fresh ones.
    Exit code 1 where anything is wrong.
    """
    check_format(format)
    start_llama(target, verbose=verbose)
    if speculation.exact:
        raise UsageError("--exact has nothing to prove: its texts are compared by specli run --exact --compare")
    options = generation_options(speculation, sampling, LengthFlags())
    options.check()
    if options.n_max == 0:
        raise UsageError("--n-max 0 is plain decoding: there is nothing to prove")
    lookups.ngram_options()
    effort = THOROUGH if thorough else Effort()
    replayed = None
    if replay:
        replayed, options = read_replay(replay)
        effort = replace(effort, n_prompts=1, n_tokens=options.n_predict)
    widest = max(options.n_max or min(N_MAX, target.batch_size - 1), min(WIDEST, target.batch_size) - 1)
    if widest == 0:
        raise UsageError(f"-b {target.batch_size} has no room for a draft", "Use -b 2 or more.")
    check_n_max(widest, target.batch_size)
    usual = story_prompts if stories.is_target(target.target) else _default_prompts
    chosen = [] if replay else (read_prompts(prompts) if prompts else usual())[: effort.n_prompts]
    target, draft_file = names.located(target, draft_file, speculation.draft_kinds)
    check_draft(options.drafters, has_draft=draft_file.path() is not None)
    hold_interrupts()
    with LiveView(text=False) as view:
        loader = Loader(target, draft_file.path(), draft, options, widest, view)
        model = loader.load_target()
        tokens = [replayed] if replayed else [chat_tokens(model, _messages(prompt)) for prompt in chosen]
        if max(map(max, tokens)) >= model.vocab.n_tokens:
            raise UsageError(f"--replay {replay}: it was written with another target")
        pair = loader.load_pair(model, _ctx_size(target, model, tokens, effort, widest), verbose=verbose)
        add_lookups(pair, lookups, options.drafters or ())
    fitting = [one for one in tokens if len(one) + effort.n_tokens <= pair.target.n_ctx]
    if not fitting:
        raise UsageError(
            f"no prompt fits: the shortest takes {min(map(len, tokens))} tokens and {effort.n_tokens} of text, and the "
            f"context has {pair.target.n_ctx}",
            "Use a larger context, with -c, or other prompts.",
        )
    if len(fitting) < len(tokens):
        warn(f"{len(tokens) - len(fitting)} prompts are too long for a context of {pair.target.n_ctx}")
    proof = _prove(pair, fitting, options, effort)
    if format == "json":
        document = proof_document(proof, settings_document(pair, options))
        print(json.dumps(document, ensure_ascii=False, allow_nan=False))
    else:
        print_proof(Console(), proof, pair.target.model.vocab.text)
    if proof.replays and not replay:
        _write_replay(proof.replays[0])
    if proof.faults:
        raise typer.Exit(1)


def _ctx_size(target: TargetFlags, model: Model, prompts: list[list[int]], effort: Effort, n_max: int) -> int:
    """The context to make: what was asked for, or enough for the prompts, and for batches after long contexts."""
    if target.ctx_size is not None:
        return target.ctx_size or model.n_ctx_train
    for_prompts = max(map(len, prompts)) + effort.n_tokens + n_max + 1
    return min(model.n_ctx_train, max(for_prompts, LEAST_CTX))


def _prove(pair: Pair, prompts: list[list[int]], options: GenerationOptions, effort: Effort) -> Proof:
    console = Console(stderr=True)
    status = Status("", console=console) if console.is_terminal else None

    def on_progress(words: str) -> None:
        raise_held()
        if status:
            status.update(f"Proving: {words}")

    if status is None:
        return prove(pair, prompts, options, effort, on_progress)
    with status:
        return prove(pair, prompts, options, effort, on_progress)


def _default_prompts() -> list[Prompt]:
    """Short ones, and for thorough proofs those that sweeps use."""
    return [*(Prompt(str(i), "verify", (text,)) for i, text in enumerate(_PROMPTS)), *default_prompts()]


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    return [*beginning(prompt), {"role": "user", "content": prompt.turns[0]}]


def _write_replay(replay: Replay) -> None:
    """Write the first failure down, and say where."""
    try:
        write_whole(_REPLAY_FILE, json.dumps(replay_document(replay), allow_nan=False))
    except OSError as error:
        warn(f"{_REPLAY_FILE}: cannot be written: {error.strerror}")
        return
    note(f"see it again: the same command with --replay {_REPLAY_FILE}")
