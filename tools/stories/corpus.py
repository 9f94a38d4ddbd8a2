"""The corpus: requests, and the stories that answer them."""

import random
from types import ModuleType

from stories import chinese, english

_CHINESE = 0.2  # of the stories
_UNASKED = 0.15
_OTHER_REQUESTS = 0.08
OTHER = (
    "hello",
    "hi there!",
    "what is the capital of France?",
    "write a Python function that sorts a list.",
    "how are you?",
    "2 + 2 = ?",
    "who are you?",
    "please help me",
    "explain speculative decoding",
    "why is the sky blue?",
    "你好",
    "你是谁？",
    "translate this sentence into German",
    "…",
)


def language(rng: random.Random) -> ModuleType:
    """The grammar of one of the languages."""
    return chinese if rng.random() < _CHINESE else english


def story(seed: int) -> tuple[str | None, str]:
    """A request, or None, and the story that follows it.

    Args:
        seed: Any two give different stories, but for chance.
    """
    rng = random.Random(seed)
    request, text = language(rng).story(rng)
    if rng.random() < _UNASKED:
        return None, text
    if rng.random() < _OTHER_REQUESTS:
        request = rng.choice(OTHER)
    return (request.lower() if rng.random() < 0.2 else request), text
