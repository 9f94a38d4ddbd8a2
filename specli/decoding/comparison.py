"""Two texts of the same prompt: where they part, and whether batch width alone explains it."""

from collections.abc import Sequence
from dataclasses import dataclass

from specli.decoding.stats import Stats
from specli.drafters.drafter import shared_prefix
from specli.llama.decoder import Decoder, Logits

_WIDTHS = (1, 2, 3, 5, 9)
_MOST_ANEW = 128  # of a long text only the end is decoded anew, so that it takes seconds


@dataclass(frozen=True)
class GapReport:
    """How near two tokens are to a tie at one position.

    Attributes:
        gap: The target's logit of the first token minus that of the second, decoded one token at a time.
        spread: How much the gap changes, at most, when the same tokens are decoded in batches of other widths.
    """

    gap: float
    spread: float

    @property
    def numerics(self) -> bool:
        """Whether the batch width alone can turn one token into the other."""
        return abs(self.gap) <= self.spread


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first index at which two sequences differ, one ending included; None where they are equal."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def logit_gap(
    target: Decoder, context: Sequence[int], token_a: int, token_b: int, n_alone: int, more_widths: Sequence[int] = ()
) -> GapReport:
    """Measure how near two tokens are to a tie after a context, whose end is decoded anew in batches of each width.

    All of the end and not its last batch only: what earlier batches left in the cache moves the logits as much. In
    batches of 1 this is plain decoding itself.

    Args:
        target: The target; its cache holds ``context`` afterwards.
        context: At least one token.
        token_a: A token that might follow.
        token_b: Another.
        n_alone: How many tokens, at least one, plain decoding decoded alone: the prompt's last and the text up to here.
        more_widths: Widths to try beside the usual ones, such as that of the batches in question.
    """
    tail = min(n_alone, _MOST_ANEW)
    gaps = []
    for width in (width for width in (*_WIDTHS, *more_widths) if width <= tail):
        row = _decode_tail(target, context, tail, width)
        gaps.append(float(row[token_a]) - float(row[token_b]))
    return GapReport(gaps[0], max(abs(gap - gaps[0]) for gap in gaps))


def _decode_tail(target: Decoder, context: Sequence[int], tail: int, width: int) -> Logits:
    """Decode a context's last tokens in batches, the first of them short; return the last row, shape (n_vocab,)."""
    start = len(context) - tail
    target.truncate(shared_prefix(target.tokens, context[:start]))
    if missing := context[len(target.tokens) : start]:
        target.decode(missing, 0)
    target.checkpoint()
    if first := tail % width:
        target.decode(context[start : start + first], 0)
    for place in range(start + first, len(context) - width, width):
        target.decode(context[place : place + width], 0)
    row: Logits = target.decode(context[-width:], 1)[0]
    return row


def speedup(stats: Stats, plain: Stats) -> float | None:
    """End to end, from the prompt to the last token: tokens per second as a multiple of plain decoding's."""
    if not (stats.tokens and plain.tokens):
        return None
    return (stats.tokens / stats.total_seconds) / (plain.tokens / plain.total_seconds)


def decode_speedup(stats: Stats, plain: Stats) -> float | None:
    """Decode speed as a multiple of plain decoding's."""
    mine, other = stats.tokens_per_second, plain.tokens_per_second
    return mine / other if mine and other else None
