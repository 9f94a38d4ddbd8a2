"""A conversation: who said what, and how much of it the context holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specli.errors import SpecliError
from specli.llama.chat import Message


class Encoded(NamedTuple):
    """A conversation as a model reads it: rendered, and as tokens."""

    text: str
    tokens: list[int]


Encode = Callable[[Sequence[Message]], Encoded]
"""Renders messages, ready for the assistant to answer."""


@dataclass
class Turn:
    """What the user said, and the answer; None: there is none yet."""

    question: str
    answer: str | None = None


class Conversation:
    """Turns after a system message.

    Args:
        system: The system message; None: there is none.

    Attributes:
        system: As given.
        turns: All of them; only the last may lack its answer.
        n_dropped: How many of the oldest the model does not see any more.
    """

    def __init__(self, system: str | None = None) -> None:
        self.system = system
        self.turns: list[Turn] = []
        self.n_dropped = 0

    @property
    def messages(self) -> list[Message]:
        """All messages, in order."""
        return self._messages(0)

    @property
    def is_unanswered(self) -> bool:
        """Whether the last turn lacks its answer."""
        return bool(self.turns) and self.turns[-1].answer is None

    def ask(self, question: str) -> None:
        """Begin a turn, in place of one that was never answered: templates want roles to alternate."""
        if self.is_unanswered:
            self.turns.pop()
        self.turns.append(Turn(question))

    def answer(self, text: str) -> None:
        """Set the answer of the last turn."""
        self.turns[-1].answer = text

    def encoded(self, encode: Encode, n_ctx: int) -> Encoded:
        """What the model reads to answer the last turn, without the oldest turns where not all fit.

        At least a quarter of the context is left for the answer. Where turns have to go, so many go that half of it is
        free: the model has to read anew what follows them, and should not have to after every message.

        Args:
            encode: Renders messages; their last is the user's.
            n_ctx: How many tokens the context holds.

        Raises:
            SpecliError: The last message does not fit by itself; nothing is dropped then.
        """
        last = len(self.turns) - 1
        unanswered = [*self.turns[:last], Turn(self.turns[last].question)]
        tight: tuple[int, Encoded] | None = None
        for n_dropped in range(min(self.n_dropped, last), last + 1):
            prompt = encode(self._messages(n_dropped, unanswered))
            n_tokens = len(prompt.tokens)
            fits = n_tokens <= n_ctx - n_ctx // 4
            if fits and (n_dropped == self.n_dropped or n_tokens <= n_ctx // 2):
                break
            if fits and tight is None:
                tight = n_dropped, prompt
        else:
            if tight is not None:
                n_dropped, prompt = tight
            elif n_tokens > n_ctx:
                raise SpecliError(
                    f"the message takes {n_tokens} tokens and the context holds {n_ctx}",
                    "Shorten it, or start specli chat with a larger context (-c).",
                )
        self.n_dropped = n_dropped
        return prompt

    def _messages(self, n_dropped: int, turns: Sequence[Turn] | None = None) -> list[Message]:
        messages = [] if self.system is None else [{"role": "system", "content": self.system}]
        for turn in (self.turns if turns is None else turns)[n_dropped:]:
            messages.append({"role": "user", "content": turn.question})
            if turn.answer is not None:
                messages.append({"role": "assistant", "content": turn.answer})
        return messages


def conversation_of(messages: Sequence[Message]) -> Conversation:
    """A conversation out of its messages.

    Raises:
        ValueError: Roles in an order that no conversation has.
    """
    rest = list(messages)
    system = rest.pop(0)["content"] if rest and rest[0]["role"] == "system" else None
    conversation = Conversation(system)
    for i, message in enumerate(rest):
        wanted = "assistant" if i % 2 else "user"
        if message["role"] != wanted:
            raise ValueError(f"a message of {message['role']!r} where one of {wanted!r} belongs")
        if wanted == "user":
            conversation.ask(message["content"])
        else:
            conversation.answer(message["content"])
    return conversation
