"""Drills: short texts of names, animals or wishes and little else, from which a network learns to look back for them.

In a story these are rare and far apart: a small network reads millions of tokens before it finds out that they are
worth looking up, and until then it makes up new ones. The heads that copy (Olsson et al., 2022) form at once where
copying is all there is to learn, and stay when stories follow slowly.
"""

import random
from collections.abc import Iterator

from stories import chinese, english
from stories.corpus import language
from stories.grammar import tidy

_ENGLISH = [
    "{a} saw {b}.",
    "{b} said hello to {a}.",
    "{a} and {b} went home.",
    '"Thank you," said {a}.',
    "{b} laughed softly.",
    "{a} hugged {b}.",
    "{b} was happy.",
    "Then {a} sang a song.",
    '"I know," said {b}.',
    "{a} looked at {b}.",
]
_CHINESE = [
    "{a}看见了{b}。",
    "{b}笑着说：“你好！”",
    "{a}和{b}一起回家。",
    "“谢谢你！”{a}说。",
    "{b}想了想。",
    "{a}高兴地唱歌。",
    "从那以后，{b}常常去找{a}。",
    "{a}看着{b}。",
]
_TEXTS = {
    english: (
        " ",
        ["A story about {a} and {b}.", "{a} and {b}", "Tell me about {a} and {b}."],
        _ENGLISH,
        [name for names in english.NAMES.values() for name in names] + [f"the {kind}" for kind in english.KINDS],
    ),
    chinese: (
        "",
        ["讲一个{a}和{b}的故事。", "{a}和{b}", "我想听{a}和{b}的故事"],
        _CHINESE,
        chinese.NAMES + chinese.KINDS,
    ),
}
_SENTENCES = 20


def characters(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Requests and answers without end, each sentence about one or both of two names or animals."""
    while True:
        between, requests, sentences, named = _TEXTS[rng.choice(list(_TEXTS))]
        a, b = rng.sample(named, 2)
        told = between.join(rng.choice(sentences).format(a=a, b=b) for _ in range(_SENTENCES))
        yield tidy(rng.choice(requests).format(a=a, b=b)), tidy(told)


def wishes(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Requests and answers without end, each about a wish and how it comes true."""
    while True:
        grammar = rng.choice(list(_TEXTS))
        yield grammar.story(rng, grammar.WISH)


def brief_stories(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Requests and stories without end, of little but what they say again: names, animals, wishes."""
    while True:
        grammar = language(rng)
        yield grammar.story(rng, grammar.BRIEF)
