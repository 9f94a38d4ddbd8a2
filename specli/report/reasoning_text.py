"""Tells a model's reasoning from its answer while the text streams, wherever its pieces begin and end."""

import re
from itertools import groupby
from typing import NamedTuple

from specli.llama.reasoning import REASONING, opened

_LONGEST = 200  # characters of what ends reasoning


class Part(NamedTuple):
    """Part of a piece of text.

    Attributes:
        text: Never empty.
        colour: Of its piece.
        is_reasoning: Whether the model thinks there; the marks around reasoning belong to it.
    """

    text: str
    colour: str
    is_reasoning: bool


class ReasoningText:
    """Follows an answer; reasoning can only be what it begins with.

    Args:
        prompt: What was before it, or the end of that: it may have begun the reasoning.
    """

    def __init__(self, prompt: str = "") -> None:
        self._end: re.Pattern[str] | None = None  # what ends the reasoning, while there is any
        self._at_start = True
        self._held: list[tuple[str, str]] = []  # characters that may be the beginning of a mark, and their colours
        self._recent = ""
        self.push(opened(prompt))

    def push(self, text: str, colour: str = "") -> list[Part]:
        """Follow a piece of the text; return what is certain now, in order."""
        return _joined([part for char in text for part in self._follow(char, colour)])

    def flush(self) -> list[Part]:
        """Return what was held back, at the end of the text."""
        self._at_start = False
        return _joined(self._let_go(is_reasoning=False))

    def _follow(self, char: str, colour: str) -> list[Part]:
        if not self._at_start:
            return [Part(char, colour, self._thinks(char))]
        self._held.append((char, colour))
        start = "".join(held for held, _ in self._held).lstrip()
        if start in REASONING:
            self._end, self._recent = REASONING[start], start
        elif any(mark.startswith(start) for mark in REASONING):
            return []
        self._at_start = False
        return self._let_go(is_reasoning=self._end is not None)

    def _thinks(self, char: str) -> bool:
        """Whether a character belongs to the reasoning, which the end of its mark ends."""
        if self._end is None:
            return False
        self._recent = (self._recent + char)[-_LONGEST:]
        if self._end.search(self._recent):
            self._end = None
        return True

    def _let_go(self, *, is_reasoning: bool) -> list[Part]:
        held, self._held = self._held, []
        return [Part(char, colour, is_reasoning) for char, colour in held]


def _joined(parts: list[Part]) -> list[Part]:
    """Neighbours that are alike as one."""
    return [
        Part("".join(part.text for part in alike), *kind)
        for kind, alike in groupby(parts, key=lambda part: (part.colour, part.is_reasoning))
    ]
