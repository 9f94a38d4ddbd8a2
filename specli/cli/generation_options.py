"""The options that decide the text: drafting, verification, sampling, and where it ends."""

import re
import secrets
from dataclasses import dataclass
from typing import Annotated

import typer

from specli.decoding.pair import GenerationOptions
from specli.errors import UsageError
from specli.sampling.transforms import SamplingOptions

_SPECULATION = "Speculative decoding"
_SAMPLING = "Sampling"
_LENGTH = "Length"
_OURS = "[dim](specli’s own)[/]"
_SUPPORTED_TYPES = ("none", "draft-simple")


@dataclass(frozen=True)
class SpeculationFlags:
    """How drafts are made and verified."""

    n_max: Annotated[
        int,
        typer.Option(
            "--n-max", "--spec-draft-n-max", "--draft-max", "--draft-n", envvar="LLAMA_ARG_SPEC_DRAFT_N_MAX",
            rich_help_panel=_SPECULATION, metavar="N", help="Most tokens drafted a round; 0: plain decoding.",
        ),
    ] = 4  # fmt: skip
    n_min: Annotated[
        int,
        typer.Option(
            "--n-min", "--spec-draft-n-min", "--draft-min", "--draft-n-min", envvar="LLAMA_ARG_SPEC_DRAFT_N_MIN",
            rich_help_panel=_SPECULATION, metavar="N",
            help="No draft where there is no room for N tokens; --p-min does not end one before.",
        ),
    ] = 0  # fmt: skip
    p_min: Annotated[
        float,
        typer.Option(
            "--p-min", "--spec-draft-p-min", "--draft-p-min", envvar="LLAMA_ARG_SPEC_DRAFT_P_MIN",
            rich_help_panel=_SPECULATION, metavar="P",
            help="End a draft where the draft model's largest probability is below P, before it draws.",
        ),
    ] = 0.0  # fmt: skip
    verification: Annotated[
        str,
        typer.Option(
            "--verification", rich_help_panel=_SPECULATION, metavar="block|token|match",
            help="How drafts are verified above temperature 0. block accepts most; match gives the very text of plain "
            f"decoding with the same seed. {_OURS}",
        ),
    ] = "block"  # fmt: skip
    draft_temperature: Annotated[
        float | None,
        typer.Option(
            "--draft-temp", rich_help_panel=_SPECULATION, metavar="T",
            help=f"Temperature of the draft alone, lossless at any value; 0: greedy. Default: as --temp. {_OURS}",
        ),
    ] = None  # fmt: skip
    spec_type: Annotated[
        str | None,
        typer.Option(
            "--spec-type", envvar="LLAMA_ARG_SPEC_TYPE", rich_help_panel=_SPECULATION, metavar="none|draft-simple",
            help="llama.cpp's name for the kind of drafter.",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True)
class SamplingFlags:
    """llama.cpp's sampling, in its order and with its defaults."""

    temperature: Annotated[
        float,
        typer.Option(
            "--temp", "--temperature", envvar="LLAMA_ARG_TEMPERATURE", rich_help_panel=_SAMPLING, metavar="T",
            help="0: always the most likely token.",
        ),
    ] = 0.8  # fmt: skip
    top_k: Annotated[
        int,
        typer.Option(
            "--top-k", envvar="LLAMA_ARG_TOP_K", rich_help_panel=_SAMPLING, metavar="N", help="0: off.",
        ),
    ] = 40  # fmt: skip
    top_p: Annotated[
        float,
        typer.Option(
            "--top-p", envvar="LLAMA_ARG_TOP_P", rich_help_panel=_SAMPLING, metavar="P", help="1.0: off.",
        ),
    ] = 0.95  # fmt: skip
    min_p: Annotated[
        float,
        typer.Option(
            "--min-p", envvar="LLAMA_ARG_MIN_P", rich_help_panel=_SAMPLING, metavar="P", help="0.0: off.",
        ),
    ] = 0.05  # fmt: skip
    repeat_last_n: Annotated[
        int,
        typer.Option(
            "--repeat-last-n", rich_help_panel=_SAMPLING, metavar="N",
            help="Tokens the penalties look back on; 0: off, -1: all.",
        ),
    ] = 64  # fmt: skip
    repeat_penalty: Annotated[
        float,
        typer.Option(
            "--repeat-penalty", envvar="LLAMA_ARG_REPEAT_PENALTY", rich_help_panel=_SAMPLING, metavar="X",
            help="1.0: off.",
        ),
    ] = 1.0  # fmt: skip
    presence_penalty: Annotated[
        float,
        typer.Option(
            "--presence-penalty", envvar="LLAMA_ARG_PRESENCE_PENALTY", rich_help_panel=_SAMPLING, metavar="X",
            help="0.0: off.",
        ),
    ] = 0.0  # fmt: skip
    frequency_penalty: Annotated[
        float,
        typer.Option(
            "--frequency-penalty", envvar="LLAMA_ARG_FREQUENCY_PENALTY", rich_help_panel=_SAMPLING, metavar="X",
            help="0.0: off.",
        ),
    ] = 0.0  # fmt: skip
    logit_bias: Annotated[
        list[str] | None,
        typer.Option(
            "-l", "--logit-bias", rich_help_panel=_SAMPLING, metavar="TOKEN_ID(+/-)BIAS",
            help="Make a token likelier or less likely: 15043+1, 15043-1.5, 15043-inf.",
        ),
    ] = None  # fmt: skip
    seed: Annotated[
        int,
        typer.Option("-s", "--seed", rich_help_panel=_SAMPLING, metavar="SEED", help="-1: a random one."),
    ] = -1


@dataclass(frozen=True)
class LengthFlags:
    """Where the text ends."""

    n_predict: Annotated[
        int,
        typer.Option(
            "-n", "--predict", "--n-predict", envvar="LLAMA_ARG_N_PREDICT", rich_help_panel=_LENGTH, metavar="N",
            help="Most tokens to generate; -1: to the end or the full context.",
        ),
    ] = -1  # fmt: skip
    stop: Annotated[
        list[str] | None,
        typer.Option(
            "--stop", rich_help_panel=_LENGTH, metavar="STRING", help=f"End before this string (repeatable). {_OURS}"
        ),
    ] = None
    ignore_eos: Annotated[
        bool,
        typer.Option("--ignore-eos", rich_help_panel=_LENGTH, help="Never end at an end-of-generation token."),
    ] = False


def generation_options(
    speculation: SpeculationFlags, sampling: SamplingFlags, length: LengthFlags, *, has_draft: bool
) -> GenerationOptions:
    """Turn flags into options.

    Raises:
        UsageError: Naming the flag that cannot be used as given.
    """
    return GenerationOptions(
        sampling=SamplingOptions(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            repeat_last_n=sampling.repeat_last_n,
            repeat_penalty=sampling.repeat_penalty,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            logit_bias=tuple(_logit_bias(text) for text in sampling.logit_bias or ()),
        ),
        verification=speculation.verification,
        n_max=speculation.n_max if has_draft and _drafts(speculation.spec_type) else min(speculation.n_max, 0),
        n_min=speculation.n_min if has_draft else 0,
        p_min=speculation.p_min,
        draft_temperature=speculation.draft_temperature,
        n_predict=length.n_predict,
        stop=tuple(length.stop or ()),
        ignore_eos=length.ignore_eos,
        seed=secrets.randbits(32) if sampling.seed < 0 else sampling.seed,
    )


def _drafts(spec_type: str | None) -> bool:
    if spec_type is not None and spec_type not in _SUPPORTED_TYPES:
        raise UsageError(f"--spec-type {spec_type}: not supported; specli has {' and '.join(_SUPPORTED_TYPES)}")
    return spec_type != "none"


def _logit_bias(text: str) -> tuple[int, float]:
    match = re.fullmatch(r"(\d+)([+-](?:\d+\.?\d*|\.\d+|inf))", text)
    if not match:
        raise UsageError(f"-l: {text!r} is not TOKEN_ID(+/-)BIAS, such as 15043-1.5")
    return int(match[1]), float(match[2])
