"""The options that decide the text: drafting, verification, sampling, and where it ends."""

import secrets
from dataclasses import dataclass
from typing import Annotated

from specli.cli.groups import OURS, option
from specli.cli.option_values import logit_bias
from specli.decoding.pair import GenerationOptions
from specli.errors import UsageError
from specli.sampling.transforms import SamplingOptions

_SPECULATION = "Speculative decoding"
_SAMPLING = "Sampling"
_LENGTH = "Length"
_RANDOM_SEED = 0xFFFFFFFF  # llama.cpp's −1
_SUPPORTED_TYPES = ("none", "draft-simple")


@dataclass(frozen=True)
class SpeculationFlags:
    """How drafts are made and verified."""

    n_max: Annotated[
        int,
        option(
            _SPECULATION,
            "--n-max --spec-draft-n-max --draft-max --draft-n",
            "Most tokens drafted a round; 0: plain decoding.",
            metavar="N",
            env="LLAMA_ARG_SPEC_DRAFT_N_MAX",
        ),
    ] = 4
    n_min: Annotated[
        int,
        option(
            _SPECULATION,
            "--n-min --spec-draft-n-min --draft-min --draft-n-min",
            "No draft where there is no room for N tokens; --p-min does not end one before.",
            metavar="N",
            env="LLAMA_ARG_SPEC_DRAFT_N_MIN",
        ),
    ] = 0
    p_min: Annotated[
        float,
        option(
            _SPECULATION,
            "--p-min --spec-draft-p-min --draft-p-min",
            "End a draft where the draft model's largest probability is below P, before it draws.",
            metavar="P",
            env="LLAMA_ARG_SPEC_DRAFT_P_MIN",
        ),
    ] = 0.0
    verification: Annotated[
        str,
        option(
            _SPECULATION,
            "--verification",
            "How drafts are verified above temperature 0. block accepts most; match gives the very text of plain "
            f"decoding with the same seed. {OURS}",
            metavar="block|token|match",
        ),
    ] = "block"
    draft_temperature: Annotated[
        float | None,
        option(
            _SPECULATION,
            "--draft-temp",
            f"Temperature of the draft alone, lossless at any value; 0: greedy. Default: as --temp. {OURS}",
            metavar="T",
        ),
    ] = None
    spec_type: Annotated[
        str | None,
        option(
            _SPECULATION,
            "--spec-type",
            "llama.cpp's name for the kind of drafter.",
            metavar="none|draft-simple",
            env="LLAMA_ARG_SPEC_TYPE",
        ),
    ] = None


@dataclass(frozen=True)
class SamplingFlags:
    """llama.cpp's sampling, in its order and with its defaults."""

    temperature: Annotated[
        float,
        option(
            _SAMPLING,
            "--temp --temperature",
            "0 or less: always the most likely token.",
            metavar="T",
            env="LLAMA_ARG_TEMPERATURE",
        ),
    ] = 0.8
    top_k: Annotated[int, option(_SAMPLING, "--top-k", "0 or less: off.", metavar="N", env="LLAMA_ARG_TOP_K")] = 40
    top_p: Annotated[float, option(_SAMPLING, "--top-p", "1.0 or more: off.", metavar="P", env="LLAMA_ARG_TOP_P")] = (
        0.95
    )
    min_p: Annotated[float, option(_SAMPLING, "--min-p", "0.0 or less: off.", metavar="P", env="LLAMA_ARG_MIN_P")] = (
        0.05
    )
    repeat_last_n: Annotated[
        int, option(_SAMPLING, "--repeat-last-n", "Tokens the penalties look back on; 0: off, -1: all.", metavar="N")
    ] = 64
    repeat_penalty: Annotated[
        float, option(_SAMPLING, "--repeat-penalty", "1.0: off.", metavar="X", env="LLAMA_ARG_REPEAT_PENALTY")
    ] = 1.0
    presence_penalty: Annotated[
        float, option(_SAMPLING, "--presence-penalty", "0.0: off.", metavar="X", env="LLAMA_ARG_PRESENCE_PENALTY")
    ] = 0.0
    frequency_penalty: Annotated[
        float, option(_SAMPLING, "--frequency-penalty", "0.0: off.", metavar="X", env="LLAMA_ARG_FREQUENCY_PENALTY")
    ] = 0.0
    logit_bias: Annotated[
        list[str] | None,
        option(
            _SAMPLING,
            "-l --logit-bias",
            "Make a token likelier or less likely: 15043+1, 15043-1.5, 15043-inf.",
            metavar="TOKEN_ID(+/-)BIAS",
        ),
    ] = None
    seed: Annotated[int, option(_SAMPLING, "-s --seed", "Below 0: a random one, which is shown.", metavar="SEED")] = -1


@dataclass(frozen=True)
class LengthFlags:
    """Where the text ends."""

    n_predict: Annotated[
        int,
        option(
            _LENGTH,
            "-n --predict --n-predict",
            "Most tokens to generate; -1: to the end or the full context.",
            metavar="N",
            env="LLAMA_ARG_N_PREDICT",
        ),
    ] = -1
    stop: Annotated[
        list[str] | None, option(_LENGTH, "--stop", f"End before this string (repeatable). {OURS}", metavar="STRING")
    ] = None
    ignore_eos: Annotated[bool, option(_LENGTH, "--ignore-eos", "Never end at an end-of-generation token.")] = False


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
            logit_bias=tuple(logit_bias(text) for text in sampling.logit_bias or ()),
        ),
        verification=speculation.verification,
        n_max=speculation.n_max if has_draft and _drafts(speculation.spec_type) else min(speculation.n_max, 0),
        n_min=speculation.n_min if has_draft and speculation.n_max and _drafts(speculation.spec_type) else 0,
        p_min=speculation.p_min,
        draft_temperature=speculation.draft_temperature,
        n_predict=length.n_predict,
        stop=tuple(length.stop or ()),
        ignore_eos=length.ignore_eos,
        seed=secrets.randbits(32) if sampling.seed < 0 or sampling.seed == _RANDOM_SEED else sampling.seed,
    )


def _drafts(spec_type: str | None) -> bool:
    if spec_type is not None and spec_type not in _SUPPORTED_TYPES:
        raise UsageError(f"--spec-type {spec_type}: not supported; specli has {' and '.join(_SUPPORTED_TYPES)}")
    return spec_type != "none"
