"""How many tokens a round drafts."""

from collections.abc import Callable
from dataclasses import dataclass

from specli.drafters.drafter import LengthRule


@dataclass(frozen=True)
class FixedLength:
    """llama.cpp's n-max, n-min and p-min.

    Attributes:
        n_max: The most tokens a round drafts; 0: plain decoding.
        n_min: A round that has no room for as many drafts nothing, and p-min does not end a draft before.
        p_min: End the draft where the drafter's largest probability is below this, looked at before the draw.
    """

    n_max: int
    n_min: int = 0
    p_min: float = 0.0

    def within(self, room: int) -> "FixedLength":
        """The rule for a round in which at most ``room`` tokens may be drafted."""
        if self.n_min <= self.n_max <= room:
            return self
        n_max = min(self.n_max, room)
        return FixedLength(n_max if n_max >= self.n_min else 0, self.n_min, self.p_min)

    @property
    def most(self) -> int:
        """The most tokens of a draft."""
        return self.n_max

    def propose_another(self, n_drafted: int) -> bool:
        """Whether to work out the distribution of one more token."""
        return n_drafted < self.n_max

    def draw(self, n_drafted: int, confidence: Callable[[], float]) -> bool:
        """Whether to draw from it, given how sure of it the drafter is."""
        return n_drafted < self.n_min or self.p_min <= 0.0 or confidence() >= self.p_min


@dataclass
class UntilEog:
    """A length rule that also ends the draft after an end-of-generation token.

    Attributes:
        rule: Any other rule.
        ended: Whether the last token drawn ended the text.
    """

    rule: LengthRule
    ended: bool = False

    @property
    def most(self) -> int:
        """The most tokens of a draft."""
        return self.rule.most

    def propose_another(self, n_drafted: int) -> bool:
        """Whether to work out the distribution of one more token."""
        return not self.ended and self.rule.propose_another(n_drafted)

    def draw(self, n_drafted: int, confidence: Callable[[], float]) -> bool:
        """Whether to draw from it, given how sure of it the drafter is."""
        return self.rule.draw(n_drafted, confidence)
