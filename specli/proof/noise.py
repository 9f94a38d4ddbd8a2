"""How much plain computation alone moves a model's logits: the same text in batches of other widths."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specli.llama.context import Context
from specli.llama.decoder import Logits

QUANTILE = 0.99
"""Of the spreads at all positions: what is taken for the noise."""

_LIKELIEST = 20
_LEAST_SHARE = 0.02  # of a row's own spread: another text changes it by more
_MARGIN = 5.0  # on the largest distance seen, for rows at other places


@dataclass
class Noise:
    """Spreads at many positions, of which only plain computations are part.

    Attributes:
        gaps: By how much the gap between the two likeliest tokens changes.
        rows: How far the likeliest tokens' logits lie apart (``row_distance``).
        scale: The largest standard deviation of a row's logits.
    """

    gaps: list[float]
    rows: list[float]
    scale: float = 0.0

    @property
    def gap(self) -> float:
        """The quantile of the gaps' changes; 0 without any."""
        return float(np.quantile(self.gaps, QUANTILE)) if self.gaps else 0.0

    @property
    def row_tolerance(self) -> float:
        """What a row may be from another computation of it before something must be wrong."""
        return _MARGIN * max(self.rows, default=0.0) + _LEAST_SHARE * self.scale

    def add(self, plain: Logits, other: Logits) -> None:
        """Compare two plain computations of one row."""
        second, first = np.argpartition(plain, -2)[-2:]
        gap = (float(plain[first]) - float(plain[second])) - (float(other[first]) - float(other[second]))
        self.gaps.append(abs(gap))
        self.rows.append(row_distance(plain, other))
        self.scale = max(self.scale, float(plain.std()))


def row_distance(a: Logits, b: Logits) -> float:
    """The largest difference between two rows at the likeliest tokens of either, a common shift left out."""
    n = min(_LIKELIEST, len(a) - 1)
    likeliest = np.union1d(np.argpartition(a, -n)[-n:], np.argpartition(b, -n)[-n:])
    differences = a[likeliest].astype(np.float64) - b[likeliest]
    return float(np.abs(differences - np.median(differences)).max())


def rows_in_batches(context: Context, prompt: Sequence[int], text: Sequence[int], width: int) -> list[Logits]:
    """Rows of a text computed from its first token on in batches of a width; of each token of ``text`` the row before.

    Args:
        context: Of the model.
        prompt: At least one token.
        text: At least one token.
        width: No more than the context's rows.
    """
    context.truncate(0)
    silent, loud = prompt[:-1], [prompt[-1], *text[:-1]]
    for start in range(0, len(silent), width):
        context.decode(silent[start : start + width], 0)
    rows: list[Logits] = []
    for start in range(0, len(loud), width):
        batch = loud[start : start + width]
        rows += [row.copy() for row in context.decode(batch, len(batch))]
    return rows


def rows_at_once(context: Context, tokens: Sequence[int], n: int) -> list[Logits]:
    """The last ``n`` rows of tokens that are prefilled into an empty cache, or as many as the context gives."""
    context.truncate(0)
    rows = context.decode(tokens, min(n, context.n_outputs, len(tokens)))
    return [row.copy() for row in rows]


def measure_noise(
    context: Context,
    prompt: Sequence[int],
    text: Sequence[int],
    plain: Sequence[Logits],
    widths: Sequence[int],
    noise: Noise,
) -> None:
    """Compare a text's rows by plain decoding with those in batches, and with those of a prefill.

    Args:
        context: Of the model; its cache is used.
        prompt: What plain decoding began with.
        text: What it wrote.
        plain: The row before each token of the text.
        widths: Of the batches.
        noise: Where it is added.
    """
    for width in widths:
        for row, other in zip(plain, rows_in_batches(context, prompt, text, width), strict=True):
            noise.add(row, other)
    at_once = rows_at_once(context, [*prompt, *text[:-1]], len(text))
    for row, other in zip(plain[len(plain) - len(at_once) :], at_once, strict=True):
        noise.add(row, other)
