"""Reasoning is told from the answer, whatever tokens its marks are made of."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specli.llama.reasoning import as_said, opened
from specli.report.reasoning_text import ReasoningText

ANALYSIS = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
TEXTS = [
    ("", "plain <think> text</think>"),
    ("<think>why</think>", "answer"),
    ("  \n<think>\nwhy < 3 </thin\n</think>", "\n\nanswer <think>no more</think>"),
    ("<mm:think>why</mm:think>", "so"),
    ("<seed:think>why</seed:think>", "so"),
    ("[THINK]why[/THINK]", "so"),
    ("<|START_THINKING|>why<|END_THINKING|>", "so"),
    ("<|channel>thought\nwhy<channel|>", "so"),
    ("<think>never done", ""),
    (f"{ANALYSIS}<|channel|>final<|message|>", "yes"),
    (f"{ANALYSIS}<|channel|>final <|constrain|>json<|message|>", "{}"),
    (f"{ANALYSIS}<|channel|>commentary<|message|>", "first <|end|>"),
    ("<|channel|>final<|message|>", "at once"),
    (ANALYSIS, ""),
    ("", "<"),
    ("", "<thin air"),
    ("", " \n "),
    ("", ""),
]
PLACES = st.lists(st.integers(0, 200), max_size=12)


def told(pieces, prompt=""):
    """The reasoning and the rest."""
    follower = ReasoningText(prompt)
    parts = [part for piece in pieces for part in follower.push(piece)] + follower.flush()
    whole = "".join(part.text for part in parts)
    assert whole == "".join(pieces), "nothing is lost, nothing moves"
    return tuple("".join(part.text for part in parts if part.is_reasoning is thinks) for thinks in (True, False))


def cut(text, places):
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize("reasoning, answer", TEXTS)
@given(places=PLACES)
def test_marks_may_be_cut_anywhere(reasoning, answer, places):
    assert told(cut(reasoning + answer, places)) == (reasoning, answer)


@pytest.mark.parametrize(
    "prompt, mark",
    [
        ("<|im_start|>assistant\n<think>\n", "<think>\n"),
        ("<think>", "<think>"),
        ("assistant [THINK]", "[THINK]"),
        ("<think>\n\n</think>\n\n", ""),
        ("<|start|>assistant", ""),
        ("", ""),
    ],
)
@given(places=PLACES)
def test_a_prompt_may_begin_it(prompt, mark, places):
    assert opened(prompt) == mark
    end = "[/THINK]" if "[" in mark else "</think>"
    told_apart = (f"why{end}", "so") if mark else ("", f"why{end}so")
    assert told(cut(f"why{end}so", places), prompt) == told_apart


def test_colours_stay_with_their_characters():
    follower = ReasoningText()
    parts = follower.push("<th", "green") + follower.push("ink>x", "") + follower.push("</think>y", "green")
    assert [(part.text, part.colour, part.is_reasoning) for part in parts] == [
        ("<th", "green", True),
        ("ink>x", "", True),
        ("</think>", "green", True),
        ("y", "green", False),
    ]


@pytest.mark.parametrize(
    "text, said",
    [
        ("<think>why</think>so", "<think>why</think>so"),  # templates know what to do with it
        (f"{ANALYSIS}<|channel|>final<|message|>so", "so"),
        (f"{ANALYSIS}<|channel|>final <|constrain|>json<|message|>{{}}", "{}"),
        (
            f"{ANALYSIS}<|channel|>commentary<|message|>first<|end|><|start|>assistant<|channel|>final<|message|>so",
            "so",
        ),
        (f"{ANALYSIS}<|channel|>commentary<|message|>first<|end|><|start|>assistant<|channel|>analysis", "first"),
        ("<|channel|>final<|message|>so", "so"),
        ("<|channel|>analysis<|message|>wh", ""),
    ],
)
def test_what_templates_are_given(text, said):
    assert as_said(text) == said
