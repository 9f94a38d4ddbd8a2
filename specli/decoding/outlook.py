"""How predictable a text is for a drafter that only tells by drafting."""

from specli.decoding.calibration import Calibration

_RATE = 0.1  # of what a token's probability differs
_SURPRISE_RATE = 0.1  # of what a draft's gain differs


class Outlook:
    """What is to be expected of the next draft, told by the text itself.

    Where the target is sure of its tokens, a draft model mostly proposes them: a text's mean confidence tells how much
    of a draft will be accepted, and plain decoding gives it away for nothing. Qwen2.5-Coder 0.5B drafting for 1.5B,
    greedily: over texts with a mean of 0.65, 0.84 and 0.96, 0.71, 0.91 and 0.99 of the first drafted tokens were right.

    Args:
        acceptance: The probability to expect of a drafted token at the beginning.

    Attributes:
        acceptance: The probability to expect of the next drafted token.
        surprise: By how many tokens recent drafts, going by their own confidences, were worth more than that.
    """

    def __init__(self, acceptance: float) -> None:
        self.acceptance = acceptance
        self.surprise = 0.0
        self._by_target = Calibration("lookup")

    def see_plain_token(self, target_confidence: float) -> None:
        """Learn from a token of which the target was so sure."""
        self.see_drafted_token(self._by_target.probability(target_confidence))

    def see_drafted_token(self, acceptance: float) -> None:
        """Learn from a token that was accepted, or not, with this probability."""
        self.acceptance += _RATE * (acceptance - self.acceptance)

    def see_draft(self, surprise: float) -> None:
        """Learn from a draft that was worth more, or less, than was expected."""
        self.surprise += _SURPRISE_RATE * (surprise - self.surprise)

    def judge(self, target_confidence: float, accepted: bool) -> None:
        """Learn what became of a drafted token where the target was so sure of its own."""
        self._by_target.judge(target_confidence, accepted)
