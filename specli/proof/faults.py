"""What can be wrong with speculative decoding, by what shows it."""

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """A kind of fault, and what it means for the text."""

    TEXT = "the text differs from plain decoding's by more than batch width explains"
    DISTRIBUTION = "texts are not distributed as the target's"
    TRANSFORMS = "the target's distribution is not what the sampling options make of its logits"
    PENALTIES = "the target's penalties see other tokens than the text has"
    ACCEPTANCE = "drafted tokens are kept with another probability than the verification's"
    RESIDUAL = "the token after a rejection is not drawn from the residual distribution"
    BONUS = "the token after an accepted draft is not drawn from the target's distribution there"
    DROPPED = "a drawn token is left out of its draft after a look at it"
    OVERWRITTEN = "a draft's distribution has changed since its token was drawn (logits read after another decode)"
    RANDOMNESS = "random draws are not independent"
    CACHE = "the target's cache does not hold the text: its logits are those of another one"
    DRAFT_INPUT = "the draft reads another text than the one it continues: lossless, but fewer drafts are accepted"

    @property
    def is_lossless(self) -> bool:
        """Whether the text is right all the same."""
        return self is Kind.DRAFT_INPUT


@dataclass(frozen=True)
class Fault:
    """Something wrong.

    Attributes:
        kind: What kind of thing.
        where: In which part of the proof, at which setting.
        detail: What was found, with the figures.
    """

    kind: Kind
    where: str
    detail: str


class Faults:
    """The faults found so far: of each kind the first, and how often it was seen."""

    def __init__(self) -> None:
        self.first: dict[Kind, Fault] = {}
        self.counts: dict[Kind, int] = {}

    def add(self, kind: Kind, where: str, detail: str) -> None:
        """Note a fault."""
        self.first.setdefault(kind, Fault(kind, where, detail))
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def __bool__(self) -> bool:
        return bool(self.first)
