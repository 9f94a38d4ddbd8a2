"""The settings a proof goes through, so that no fault hides behind the defaults."""

from dataclasses import dataclass, replace

from specli.decoding.options import GenerationOptions
from specli.sampling.transforms import SamplingOptions

_DEFAULT = SamplingOptions()
_WHOLE = SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
_HOT = replace(_WHOLE, temperature=1.5)


def _penalised(sampling: SamplingOptions) -> SamplingOptions:
    """The same with all penalties, over the whole text."""
    return replace(sampling, repeat_last_n=-1, repeat_penalty=1.3, presence_penalty=0.3, frequency_penalty=0.2)


@dataclass(frozen=True)
class Setting:
    """How a text is sampled, drafted and verified.

    Attributes:
        name: What to call it.
        sampling: The target's transforms.
        verification: 'block', 'token' or 'match'; without effect at temperature 0.
        draft_temperature: The draft's own; None: the target's.
        p_min: End a draft where it is less sure.
        looks_up: Whether drafts come from a lookup, one-hot, and not from a draft's distributions.
        eog_in_drafts: Whether one of the few tokens ends the text.
    """

    name: str
    sampling: SamplingOptions
    verification: str
    draft_temperature: float | None = None
    p_min: float = 0.0
    looks_up: bool = False
    eog_in_drafts: bool = False

    @property
    def effective_verification(self) -> str:
        """The verification that really decides: 'greedy' at temperature 0."""
        return "greedy" if self.sampling.greedy else self.verification


MATRIX = (
    Setting("token verification, temperature 1.5, top-k 0", _HOT, "token"),
    Setting("block verification, temperature 1.5, top-k 0", _HOT, "block"),
    Setting("block verification, default sampling", _DEFAULT, "block"),
    Setting("match verification, temperature 1.5", _HOT, "match"),
    Setting("block verification, penalties", _penalised(_WHOLE), "block"),
    Setting("token verification, penalties, default sampling", _penalised(_DEFAULT), "token"),
    Setting("token verification, top-k 2, min-p 0.2", SamplingOptions(1.0, top_k=2, top_p=1.0, min_p=0.2), "token"),
    Setting("block verification, one-hot drafts", _WHOLE, "block", draft_temperature=0.0),
    Setting("block verification, hotter drafts", _WHOLE, "block", draft_temperature=2.0),
    Setting("token verification, lookup drafts", _HOT, "token", looks_up=True),
    Setting("block verification, lookup drafts, penalties", _penalised(_WHOLE), "block", looks_up=True),
    Setting("match verification, lookup drafts, default sampling", _DEFAULT, "match", looks_up=True),
    Setting("block verification, drafts stopped early", _HOT, "block", p_min=0.45),
    Setting("token verification, drafts stopped early", _HOT, "token", p_min=0.45),
    Setting("block verification, text ending inside drafts", _HOT, "block", eog_in_drafts=True),
    Setting("greedy, penalties", _penalised(SamplingOptions(temperature=0.0)), "match"),
)
"""Every kind of verification, draft and transform, at least two together."""


def in_use(options: GenerationOptions) -> Setting:
    """The settings of a command line, less the biases, which name tokens of the whole vocabulary."""
    sampling = replace(options.sampling, logit_bias=())
    return Setting("the settings in use", sampling, options.verification, options.draft_temperature, options.p_min)
