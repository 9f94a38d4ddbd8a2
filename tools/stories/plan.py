"""What is trained: the sizes of both models, and for how long."""

from collections.abc import Iterable
from dataclasses import dataclass

N_VOCAB = 2560
CONTEXT = 1024
TOKENS_A_STEP = 2048
N_TOKENIZED = 3000  # stories
_TOKENS_A_STORY = 200  # with its request and what windows cut, and rather too few


@dataclass(frozen=True)
class Shape:
    """The sizes of a network: keys and values have one head, which all query heads share (Shazeer, 2019)."""

    width: int
    layers: int
    feed_forward: int
    heads: int
    head_width: int = 64


@dataclass(frozen=True)
class Stage:
    """Some steps.

    Attributes:
        layers: How deep the network is then.
        steps: How many.
        window: How many tokens of the corpus are read as one text.
        drilled: Whether it begins with drills, and has some all through.
    """

    layers: int
    steps: int
    window: int
    drilled: bool = False


# Deep and narrow: a forward pass over a few tokens then takes little more time than one over a single token, as with
# large models anywhere; a wide model of this size would compute from the processor's cache, token after token.
TARGET = Shape(width=128, layers=7, feed_forward=384, heads=1)
TARGET_STAGES = (Stage(7, 4500, 512, drilled=True), Stage(7, 2000, CONTEXT), Stage(84, 150, CONTEXT))
DRAFT = Shape(width=128, layers=3, feed_forward=192, heads=2)
DRAFT_STAGES = (Stage(3, 3000, 512, drilled=True), Stage(3, 1000, CONTEXT))


def n_stories(stages: Iterable[Stage]) -> int:
    """How many stories are read in these stages, at most."""
    return sum(stage.steps for stage in stages) * TOKENS_A_STEP // _TOKENS_A_STORY
