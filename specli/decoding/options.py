"""Everything that decides a text, beside the models and the prompt."""

from dataclasses import dataclass, field
from math import inf

from specli.drafters.names import check_names
from specli.errors import UsageError
from specli.sampling.transforms import SamplingOptions
from specli.sampling.verification import VERIFICATIONS

AUTO_N_MAX = 32
"""The most tokens an automatic length drafts."""


@dataclass(frozen=True)
class GenerationOptions:
    """Everything that decides a text, beside the models and the prompt.

    Attributes:
        sampling: The transforms of the target's logits.
        verification: 'block', 'token' or 'match'; at temperature 0 all three are greedy.
        n_max: The most tokens a round drafts; 0: plain decoding; None: whatever is expected to be fastest.
        drafters: Names of those that propose, the preferred first; None: the draft, or else the target's own heads, and
            with automatic lengths, or where there is neither, 'suffix'.
        repeatable: Automatic lengths go by what was known before the text, not by the clock: a seed gives it again.
        n_min: A round without room for as many drafts nothing; p_min does not end a draft before.
        p_min: End a draft where the drafter is less sure of the next token, before the draw: by its largest
            probability, or by a confidence head.
        draft_temperature: The draft's own temperature; None: the target's.
        n_predict: The most tokens; −1: to the end or the full context.
        stop: Strings at which the text ends.
        ignore_eos: Never generate an end-of-generation token.
        seed: Of the random draws.
    """

    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    verification: str = "block"
    n_max: int | None = None
    drafters: tuple[str, ...] | None = None
    repeatable: bool = False
    n_min: int = 0
    p_min: float = 0.0
    draft_temperature: float | None = None
    n_predict: int = -1
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    seed: int = 0

    def check(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            UsageError: Naming the flag.
        """
        self.sampling.check()
        if self.verification not in VERIFICATIONS:
            raise UsageError(f"--verification {self.verification}: not one of {', '.join(VERIFICATIONS)}")
        if self.n_max is not None and self.n_max < 0:
            raise UsageError(f"--n-max {self.n_max}: must be auto, 0 (plain decoding) or more")
        most = AUTO_N_MAX if self.n_max is None else self.n_max
        if not 0 <= self.n_min <= most:
            raise UsageError(f"--n-min {self.n_min}: must be between 0 and --n-max ({most})")
        check_names(self.drafters or ())
        if not 0.0 <= self.p_min <= 1.0:
            raise UsageError(f"--p-min {self.p_min}: must be a probability, 0 to 1")
        if self.draft_temperature is not None and not abs(self.draft_temperature) < inf:
            raise UsageError(f"--draft-temp {self.draft_temperature}: not a finite number")
        if "" in self.stop:
            raise UsageError("--stop: an empty string would end the text before it begins")
        if self.n_predict == 0 or self.n_predict < -1:
            raise UsageError(f"-n {self.n_predict}: must be at least 1, or −1 for no limit")

    @property
    def effective_verification(self) -> str:
        """The verification that really decides: 'greedy' at temperature 0."""
        return "greedy" if self.sampling.greedy else self.verification


def check_n_max(n_max: int, batch_size: int) -> None:
    """Refuse drafts that do not fit the batch in which the target verifies them.

    Raises:
        UsageError: Naming both sizes.
    """
    if n_max >= batch_size:
        raise UsageError(
            f"--n-max {n_max}: the target verifies a draft and one token more in a batch, which -b {batch_size} limits",
            f"Use --n-max {batch_size - 1} or less, or -b {n_max + 1} or more.",
        )


def longest_draft(n_max: int | None, batch_size: int) -> int:
    """The most tokens that a round drafts.

    Args:
        n_max: What was asked for; None: as many as pays, never more than a batch holds, nor than ``AUTO_N_MAX``.
        batch_size: Tokens.

    Raises:
        UsageError: They do not fit the batch.
    """
    if n_max is None:
        return min(AUTO_N_MAX, batch_size - 1)
    check_n_max(n_max, batch_size)
    return n_max
