"""How predictable a text is for a drafter that only tells by drafting."""

from dataclasses import dataclass

_RATE = 0.1  # of what a token's confidence differs
_SURPRISE_RATE = 0.1  # of what a draft's gain differs


@dataclass
class Outlook:
    """What is to be expected of the next draft, told by the text itself.

    Where the target is sure of its tokens, a draft model mostly proposes them: a text's mean confidence tells how much
    of a draft will be accepted, and plain decoding gives it away for nothing. Qwen2.5-Coder 0.5B drafting for 1.5B,
    greedily: over texts with a mean of 0.65, 0.84 and 0.96, 0.71, 0.91 and 0.99 of the first drafted tokens were right.

    Attributes:
        acceptance: The probability to expect of the next drafted token.
        surprise: By how many tokens recent drafts gained more than was expected of them.
    """

    acceptance: float
    surprise: float = 0.0

    def see_token(self, confidence: float) -> None:
        """Learn from how sure a model was of one more token of the text."""
        self.acceptance += _RATE * (confidence - self.acceptance)

    def see_draft(self, surprise: float) -> None:
        """Learn from a draft that gained more, or less, than was expected."""
        self.surprise += _SURPRISE_RATE * (surprise - self.surprise)
