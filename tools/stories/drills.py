"""Drills: short texts of names and little else, from which a network learns to look back for them.

In a story names are rare and far apart: a small network reads millions of tokens before it finds out that they are
worth looking up, and until then it makes up new ones. The heads that copy (Olsson et al., 2022) form at once where
copying is all there is to learn, and stay when stories follow.
"""

import random
from collections.abc import Iterator

from stories import chinese, english
from stories.corpus import language

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
    english: (" ", _ENGLISH, [name for names in english.NAMES.values() for name in names]),
    chinese: ("", _CHINESE, chinese.NAMES),
}
_SENTENCES = 20


def pairs_of_names(rng: random.Random) -> Iterator[str]:
    """Texts without end, each sentence about one or both of two names."""
    while True:
        between, templates, names = _TEXTS[language(rng)]
        a, b = rng.sample(names, 2)
        yield between.join(rng.choice(templates).format(a=a, b=b) for _ in range(_SENTENCES))


def brief_stories(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Requests and stories without end, of little but what they say again: names, animals, wishes."""
    while True:
        yield language(rng).story(rng, brief=True)
