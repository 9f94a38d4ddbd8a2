"""Tokens to text as it can be shown, and where a text ends: end-of-generation, stop strings, length."""

import codecs
from collections.abc import Callable, Sequence
from typing import NamedTuple

EOG, LENGTH, STOP, CONTEXT = "eog", "length", "stop", "context"
INTERRUPTED, FAILED = "interrupted", "error"


class Shown(NamedTuple):
    """What one more token lets be shown.

    Attributes:
        text: Text that is certain now: whole characters, no part of a stop string.
        stop_reason: Why the text ends with this token, or None.
    """

    text: str
    stop_reason: str | None


class Ending:
    """Follows a text token by token, so that rounds and their lengths cannot be seen in it.

    Args:
        piece: The bytes a token stands for.
        is_eog: Whether a token ends generation.
        n_predict: The most tokens; below 0: no limit.
        stop: Strings, none empty, at which the text ends; they are not part of it.
        ignore_eos: Never end at an end-of-generation token.
    """

    def __init__(
        self,
        piece: Callable[[int], bytes],
        is_eog: Callable[[int], bool],
        n_predict: int = -1,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
    ) -> None:
        self._piece = piece
        self.is_eog = (lambda token: False) if ignore_eos else is_eog
        self._n_predict = n_predict
        self._stop = stop
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._n_tokens = 0

    @property
    def remaining(self) -> int | None:
        """How many more tokens there may be; None: any number."""
        return None if self._n_predict < 0 else self._n_predict - self._n_tokens

    def push(self, token: int) -> Shown:
        """Add the next token."""
        self._n_tokens += 1
        if self.is_eog(token):
            return Shown(self.flush(), EOG)
        self._held += self._utf8.decode(self._piece(token))
        found = [place for string in self._stop if (place := self._held.find(string)) >= 0]
        if found:
            text, self._held = self._held[: min(found)], ""
            return Shown(text, STOP)
        if self.remaining == 0:
            return Shown(self.flush(), LENGTH)
        certain = len(self._held) - self._possible_stop()
        text, self._held = self._held[:certain], self._held[certain:]
        return Shown(text, None)

    def flush(self) -> str:
        """Return what was held back, at the end of the text; a character still incomplete is dropped."""
        text, self._held = self._held, ""
        return text

    def _possible_stop(self) -> int:
        """Length of the longest tail of the held text that may be the beginning of a stop string."""
        longest = max((len(string) - 1 for string in self._stop), default=0)
        for n in range(min(longest, len(self._held)), 0, -1):
            if any(string.startswith(self._held[-n:]) for string in self._stop):
                return n
        return 0
