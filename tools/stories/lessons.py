"""What a network reads: batches of stories, and of drills."""

import random
from collections.abc import Iterator

import torch
from stories import drills
from stories.plan import TOKENS_A_STEP
from stories.tokens import END, encoded, stories
from tokenizers import Tokenizer
from torch import Tensor


class Lessons:
    """Batches of tokens, shape (windows, tokens a window + 1), int64.

    Args:
        tokenizer: Makes the tokens.
        first_seed: Of the stories, which go on from there.
    """

    def __init__(self, tokenizer: Tokenizer, first_seed: int) -> None:
        self._end = tokenizer.token_to_id(END)
        self._stories = stories(tokenizer, first_seed)
        rng = random.Random(first_seed)
        self._characters, self._wishes, self._brief = (
            (encoded(tokenizer, *asked_and_told) for asked_and_told in drill(rng))
            for drill in (drills.characters, drills.wishes, drills.brief_stories)
        )

    def characters(self) -> Tensor:
        """The next drills in names and animals."""
        return self._batch(self._characters, 64)

    def wishes(self) -> Tensor:
        """The next drills in wishes."""
        return self._batch(self._wishes, 128)

    def brief_stories(self) -> Tensor:
        """The next brief stories."""
        return self._batch(self._brief, 128)

    def stories(self, window: int) -> Tensor:
        """The next stories in windows of so many tokens."""
        return self._batch(self._stories, window)

    def _batch(self, texts: Iterator[list[int]], window: int) -> Tensor:
        return torch.tensor([self._window(texts, window + 1) for _ in range(TOKENS_A_STEP // window)])

    def _window(self, texts: Iterator[list[int]], length: int) -> list[int]:
        """As many texts as fit, the last one cut: all that was said before in a text is in its window."""
        tokens = [self._end]
        while len(tokens) < length:
            tokens += next(texts)
        return tokens[:length]
