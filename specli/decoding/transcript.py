"""Conversations as tokens: what the model has read and said keeps the very tokens that are in its cache."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from specli.decoding.conversation import Encoded
from specli.drafters.drafter import shared_prefix
from specli.llama.chat import Message


class _Cut(NamedTuple):
    """A place in a text and in its tokens."""

    n_chars: int
    n_tokens: int


class Transcript:
    """Turns messages into tokens.

    A text that was generated may be made of other tokens than the same text when it is tokenised. Where a rendered
    conversation begins as one known already, that one's tokens are kept, and only what follows is tokenised.

    Args:
        render: Messages to text, by a chat template.
        tokenize: A rendered text to tokens.
        tokenize_after: The same of what follows other tokens; None where the two cannot be told apart for sure.
    """

    def __init__(
        self,
        render: Callable[[Sequence[Message]], str],
        tokenize: Callable[[str], list[int]],
        tokenize_after: Callable[[str], list[int] | None],
    ) -> None:
        self._render = render
        self._tokenize = tokenize
        self._tokenize_after = tokenize_after
        self._known = Encoded("", [])
        self._cuts: list[_Cut] = []  # where it can be parted, in order

    def encode(self, messages: Sequence[Message]) -> Encoded:
        """Render messages and turn them into tokens."""
        text = self._render(messages)
        for n_chars, n_tokens in reversed(self._cuts):
            if text.startswith(self._known.text[:n_chars]):
                rest = self._tokenize_after(text[n_chars:])
                if rest is not None:
                    return Encoded(text, self._known.tokens[:n_tokens] + rest)
        return Encoded(text, self._tokenize(text))

    def add(self, prompt: Encoded, answer: str, tokens: Sequence[int]) -> None:
        """Remember what was read and what was said after it.

        Args:
            prompt: As it was read.
            answer: The text of the answer.
            tokens: Those that stand for just this text.
        """
        n_shared = shared_prefix(self._known.tokens, prompt.tokens)
        kept = [
            cut
            for cut in self._cuts
            if cut.n_chars < len(prompt.text)
            and cut.n_tokens <= n_shared
            and prompt.text.startswith(self._known.text[: cut.n_chars])
        ]
        self._known = Encoded(prompt.text + answer, [*prompt.tokens, *tokens])
        self._cuts = [*kept, _end_of(prompt), _end_of(self._known)]


def _end_of(known: Encoded) -> _Cut:
    return _Cut(len(known.text), len(known.tokens))
