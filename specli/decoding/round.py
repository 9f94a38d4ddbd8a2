"""What one round of the loop did."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One draft → verify → accept → roll back.

    Attributes:
        drafter: Who was asked to draft; None: nobody.
        drafted: The proposed tokens.
        n_accepted: How many of them stayed in the text.
        n_rejected: How many the target refused, with all that followed them.
        n_discarded: How many the end of the text cut off.
        tokens: What the round added to the text: the accepted tokens, then the target's own.
        texts: The text each of ``tokens`` lets be shown.
        stop_reason: Why the text ends here, or None.
        draft_prefill_seconds: Time the drafter spent reading the prompt.
        draft_seconds: Time spent drafting, prefill not counted.
        verify_seconds: Time spent on the target's forward pass, and on the verdict by its logits.
        rollback_seconds: Time spent on a target's memory that cannot be cut: computing again what the round before
            accepted, and remembering the state before the forward pass.
        seconds: The whole round.
    """

    drafter: str | None
    drafted: tuple[int, ...]
    n_accepted: int
    n_rejected: int
    n_discarded: int
    tokens: tuple[int, ...]
    texts: tuple[str, ...]
    stop_reason: str | None
    draft_prefill_seconds: float
    draft_seconds: float
    verify_seconds: float
    rollback_seconds: float
    seconds: float

    @property
    def text(self) -> str:
        """What the round lets be shown."""
        return "".join(self.texts)
