"""How models mark what they think before they answer; a mark is one token or several, as the vocabulary has it."""

import re

_HARMONY = "<|channel|>"
_HARMONY_ANSWER = re.compile(r"<\|channel\|>(?:final|commentary)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_PAIRS = {
    "<think>": "</think>",  # Qwen3, DeepSeek and most others
    "<mm:think>": "</mm:think>",  # MiniMax M3
    "<seed:think>": "</seed:think>",  # Seed-OSS
    "[THINK]": "[/THINK]",  # Magistral
    "<|START_THINKING|>": "<|END_THINKING|>",  # Command R7B, Command A
    "<|channel>thought": "<channel|>",  # Gemma 4
}

REASONING = {begin: re.compile(re.escape(end)) for begin, end in _PAIRS.items()} | {_HARMONY: _HARMONY_ANSWER}
"""What ends a model's reasoning, by what begins it. gpt-oss's ends with the header of what it says to the user."""

CONTROL_TOKENS = {
    *_PAIRS,
    *_PAIRS.values(),
    "<|channel>",
    *("<|start|>", _HARMONY, "<|constrain|>", "<|message|>", "<|end|>"),
}
"""Control tokens that a text shows by their names: else nobody could tell where reasoning ends."""


def opened(prompt: str) -> str:
    """The mark a prompt ends with if it begins reasoning, with the blanks after it: the answer then starts inside."""
    end = prompt.rstrip()
    mark = next((mark for mark in REASONING if end.endswith(mark)), "")
    return mark and mark + prompt[len(end) :]


def as_said(text: str) -> str:
    """An answer as templates take it: with its reasoning, save gpt-oss's, which refuses that among the content."""
    if not text.lstrip().startswith(_HARMONY):
        return text
    *_, said = "", *_HARMONY_ANSWER.split(text)[1:]
    return said.partition("<|end|>")[0]
