"""The options that decide the text: drafting, verification, sampling, and where it ends."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from specli.cli.groups import OURS, option
from specli.cli.option_values import logit_bias
from specli.decoding.options import GenerationOptions
from specli.drafters.names import MODEL, MTP, NAMES, SPEC_TYPES, TRAINED, check_names
from specli.errors import UsageError
from specli.sampling.transforms import SamplingOptions

_SPECULATION = "Speculative decoding"
_SAMPLING = "Sampling"
_LENGTH = "Length"
_RANDOM_SEED = 0xFFFFFFFF  # llama.cpp's −1
_SPEC_TYPES = {"none": None, **{theirs: name for name, theirs in SPEC_TYPES.items()}}


@dataclass(frozen=True)
class SpeculationFlags:
    """How drafts are made and verified."""

    n_max: Annotated[
        str,
        option(
            _SPECULATION,
            "--n-max --spec-draft-n-max --draft-max --draft-n",
            "Most tokens drafted a round; 0: plain decoding; auto: as many as is fastest, none where that is. "
            f"(auto is {OURS[1:]}",
            metavar="auto|N",
            env="LLAMA_ARG_SPEC_DRAFT_N_MAX",
        ),
    ] = "auto"
    drafter: Annotated[
        str | None,
        option(
            _SPECULATION,
            "--drafter",
            f"What proposes drafts, the preferred first: {', '.join(NAMES)}; none: plain decoding. suffix repeats what "
            f"the text has said before. Default: what --draft or the target's own heads offer, and suffix where there "
            f"is neither or --n-max is auto. {OURS}",
            metavar="NAME,…",
        ),
    ] = None
    no_memory: Annotated[
        bool, option(_SPECULATION, "--no-memory", f"Neither use nor keep what runs have learnt about this pair. {OURS}")
    ] = False
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
            "End a draft where the draft's largest probability (or its confidence head) is below P, before it draws.",
            metavar="P",
            env="LLAMA_ARG_SPEC_DRAFT_P_MIN",
        ),
    ] = 0.0
    verification: Annotated[
        str | None,
        option(
            _SPECULATION,
            "--verification",
            "How drafts are verified above temperature 0. block, the default, accepts most; match gives the very text "
            f"of plain decoding with the same seed. {OURS}",
            metavar="block|token|match",
        ),
    ] = None
    exact: Annotated[
        bool,
        option(
            _SPECULATION,
            "--exact",
            "Bit by bit plain decoding's text: verify in batches whose logits are identical to single tokens', with "
            f"match verification above temperature 0. {OURS}",
        ),
    ] = False
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
            f"llama.cpp's names for --drafter: {', '.join(_SPEC_TYPES)}.",
            metavar="NAME,…",
            env="LLAMA_ARG_SPEC_TYPE",
        ),
    ] = None

    @property
    def draft_kinds(self) -> set[str]:
        """As what a draft's file may draft to be of use."""
        if self.n_max == "0":
            return set()
        names = self.drafter or self.spec_type
        return set(TRAINED) & {_SPEC_TYPES.get(name, name) for name in names.split(",")} if names else set(TRAINED)


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
    seed: Annotated[
        int | None,
        option(
            _SAMPLING,
            "-s --seed",
            "Below 0: a random one, which is shown. Default: -1; of specli run with the pair inside it, 1.",
            metavar="SEED",
        ),
    ] = None


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
    speculation: SpeculationFlags, sampling: SamplingFlags, length: LengthFlags, usual_seed: int = -1
) -> GenerationOptions:
    """Turn flags into options.

    Args:
        speculation: Flags.
        sampling: Flags.
        length: Flags.
        usual_seed: The seed where none was given; below 0: a random one.

    Raises:
        UsageError: Naming the flag that cannot be used as given.
    """
    drafters = _drafters(speculation)
    n_max = 0 if drafters == () else _n_max(speculation.n_max)
    seed = usual_seed if sampling.seed is None else sampling.seed
    any_seed = seed < 0 or seed == _RANDOM_SEED
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
        verification=_verification(speculation),
        n_max=n_max,
        drafters=drafters,
        repeatable=not any_seed,
        n_min=0 if n_max == 0 else speculation.n_min,
        p_min=speculation.p_min,
        draft_temperature=speculation.draft_temperature,
        n_predict=length.n_predict,
        stop=tuple(length.stop or ()),
        ignore_eos=length.ignore_eos,
        seed=secrets.randbits(32) if any_seed else seed,
    )


def _verification(speculation: SpeculationFlags) -> str:
    if not speculation.exact:
        return speculation.verification or "block"
    if speculation.verification not in (None, "match"):
        raise UsageError(
            f"--verification {speculation.verification}: with --exact the text is plain decoding's, which only match "
            "promises above temperature 0",
            "Leave out one of them.",
        )
    return "match"


def _n_max(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--n-max {text}: neither a number nor auto") from None


def _drafters(speculation: SpeculationFlags) -> tuple[str, ...] | None:
    """The drafters named, (): none, None: whatever suits."""
    if speculation.drafter is not None and speculation.spec_type is not None:
        raise UsageError("--drafter and --spec-type name the same thing", "Use one of them.")
    if speculation.spec_type is not None:
        types = speculation.spec_type.split(",")
        if unknown := [name for name in types if name not in _SPEC_TYPES]:
            raise UsageError(f"--spec-type {unknown[0]}: not supported; specli has {', '.join(_SPEC_TYPES)}")
        names = tuple(name for kind in types if (name := _SPEC_TYPES[kind]))
    elif speculation.drafter is not None:
        names = () if speculation.drafter == "none" else tuple(speculation.drafter.split(","))
    else:
        return None
    check_names(names)
    return names


def check_draft(drafters: Sequence[str] | None, *, has_draft: bool) -> None:
    """Refuse to draft with what there is not.

    Raises:
        UsageError: What only a draft's file can do is among the drafters, and none was named or found.
    """
    if not has_draft and (missing := [name for name in drafters or () if name in TRAINED and name != MTP]):
        what = "a draft model" if missing[0] == MODEL else "a draft trained for this target"
        raise UsageError(f"--drafter {missing[0]} needs {what}", "Name its file with --draft.")
