"""A grammar of texts: rules with weighted choices, and facts that hold through a text."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_RULE = re.compile(r"<([a-z_ ]+)>")
_FACT = re.compile(r"\{([a-z_]+)\}")
_AN = re.compile(r"\b([Aa]) (?=[aeiou])")
_SENTENCE = re.compile(
    r"""(^|[.!?][ ]|(?:^|[ ])"|[.!?]"[ ](?!(?:said|asked|answered|cried|shouted|whispered|sang)\b))([a-z])""",
    re.VERBOSE,
)
_I = re.compile(r"\bi\b")

T = TypeVar("T")
Rules = Mapping[str, Sequence[str]]


def zipf(rng: random.Random, options: Sequence[T]) -> T:
    """One of several, the first the likeliest: with weights 1, 1/2, 1/3 … (Zipf, 1935), as words are in real texts."""
    return rng.choices(options, [1 / (rank + 1) for rank in range(len(options))])[0]


def evenly(rng: random.Random, options: Sequence[T]) -> T:
    """One of several, any as likely."""
    return rng.choice(options)


class Pick(Protocol):
    """One of those ways to choose."""

    def __call__(self, rng: random.Random, options: Sequence[T], /) -> T:  # noqa: D102
        ...


@dataclass(frozen=True)
class Outline:
    """What a text tells.

    Attributes:
        requests: What is asked for.
        chances: How likely it has a part.
        usual: The same for other parts.
        pick: How names, animals, wishes and requests are chosen.
    """

    requests: Sequence[str]
    chances: Mapping[str, float]
    usual: float = 0.0
    pick: Pick = evenly

    def some(self, rng: random.Random, parts: Sequence[str]) -> list[str]:
        """Those of the parts that their chances let in, in order."""
        return [part for part in parts if rng.random() < self.chances.get(part, self.usual)]


class Grammar:
    """Expands rules into text.

    ``<rule>`` stands for one of a rule's alternatives, ``[a|b|c]`` for one of those, ``{fact}`` for what is known of
    this text; alternatives are ordered, the likeliest first. A rule that was used in a text does not give the same
    alternative again in it.

    Args:
        rules: Alternatives by name.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def expand(self, text: str, facts: Mapping[str, str], rng: random.Random, used: set[str]) -> str:
        """Expand all of a text.

        Args:
            text: With rules, choices and facts.
            facts: What ``{fact}`` stands for; may contain rules again.
            rng: Decides.
            used: Alternatives that this text has used; those that are chosen here are added.
        """

        def rule(match: re.Match[str]) -> str:
            options = self._rules[match[1]]
            fresh = [option for option in options if option not in used] or options
            used.add(chosen := zipf(rng, fresh))
            return chosen

        def known(match: re.Match[str]) -> str:
            return facts[match[1]]

        while True:
            for pattern, replace in ((_FACT, known), (_CHOICE, lambda match: zipf(rng, match[1].split("|")))):
                if pattern.search(text):
                    text = pattern.sub(replace, text)
                    break
            else:
                if not _RULE.search(text):
                    return text
                text = _RULE.sub(rule, text, count=1)


def tidy(text: str) -> str:
    """English after expansion: 'an' before vowels, sentences that begin with a capital, single spaces."""
    text = re.sub(r" +", " ", text).strip()
    text = _AN.sub(r"\1n ", text)
    text = _I.sub("I", text)
    return _SENTENCE.sub(lambda match: match[1] + match[2].upper(), text)
