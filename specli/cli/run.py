"""``specli run``: generate a text, show it and what it took."""

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from specli.cli.failures import INTERRUPTED, warn, worded
from specli.cli.generation_options import LengthFlags, SamplingFlags, SpeculationFlags, generation_options
from specli.cli.groups import takes_options
from specli.cli.llama_flags import Unsupported
from specli.cli.model_options import DraftFlags, TargetFlags
from specli.cli.prompt import PromptFlags, prompt_tokens, read_prompt
from specli.decoding.pair import Generation, GenerationOptions, Pair, check_n_max
from specli.errors import UsageError
from specli.llama import devices, log
from specli.llama.model import Model
from specli.llama.options import ALL_LAYERS, ContextOptions, ModelOptions

_FORMATS = ("text", "json", "jsonl")
_CTX_SIZE = 8192
_ROOM_FOR_ANSWER = 4096


@takes_options
@worded
def command(
    prompt: PromptFlags,
    target: TargetFlags,
    draft: DraftFlags,
    speculation: SpeculationFlags,
    sampling: SamplingFlags,
    length: LengthFlags,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also decode plainly: speed-up, and whether the text is the same.")
    ] = False,
    format: Annotated[
        str, typer.Option("--format", metavar="text|json|jsonl", help="What stdout gets: see README for the schemas.")
    ] = "text",
    list_devices: Annotated[bool, typer.Option("--list-devices", help="Print the devices to offload to.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show llama.cpp's log.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    unsupported: Unsupported = False,
) -> None:
    """Generate a text with speculative decoding: watch it, its accepted drafts, and its speed.

    Without --draft it decodes plainly. Options are llama.cpp's where it has them.
    """
    log.install(verbose=verbose)
    if target.rpc:
        devices.add_rpc_servers(target.rpc.split(","))
    if list_devices:
        _print_devices()
        return
    if format not in _FORMATS:
        raise UsageError(f"--format {format}: not one of {', '.join(_FORMATS)}")
    if target.target is None:
        raise UsageError("--target is missing", "Name the GGUF model whose text you want: specli run --target x.gguf …")
    draft_path = draft.path()
    options = generation_options(speculation, sampling, length, has_draft=draft_path is not None)
    options.check()
    check_n_max(options.n_max, target.batch_size)
    text = read_prompt(prompt)
