"""The stories that the grammar writes: whole, coherent, and different from each other."""

import random
import re
import sys
from itertools import islice
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from stories import drills, english
from stories.corpus import story

NAMES = {name for names in english.NAMES.values() for name in names}
N_STORIES = 500


def test_every_story_has_an_end_and_leaves_nothing_unexpanded():
    for seed in range(N_STORIES):
        text = story(seed)[1]
        assert text.endswith(("\nThe end.", "\n完。")) and len(text.split("\n")) == 5, text
        assert not re.search(r"[<>{}\[\]|¶]", text), text


def test_sentences_begin_with_capitals_and_articles_suit_their_nouns():
    for seed in range(N_STORIES):
        text = story(seed)[1]
        if text.isascii():
            assert not re.search(r"[.!?] [a-z]|(?:^|\s)\"[a-z]|\n[a-z]", text), text
            assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n (?!hour)[^aeiou]|\bi\b|  ", text), text


def test_a_story_is_about_two_who_are_named_again():
    for seed in range(N_STORIES):
        text = story(seed)[1]
        named = [word for word in re.findall(r"[A-Z][a-z]+", text) if word in NAMES]
        assert not text.isascii() or (len(set(named)) <= 2 and named.count(named[0]) >= 2), text


def test_drills_are_about_those_who_were_asked_for():
    for request, text in islice(drills.characters(random.Random(1)), 100):
        if text.isascii():
            named = set(re.findall(r"[A-Z][a-z]+|[Tt]he [a-z]+", text))
            characters = {name.lower() for name in named if name in NAMES or name.lower().startswith("the ")}
            assert len(characters) == 2 and all(name in request.lower() for name in characters), (request, text)


def test_brief_stories_are_about_two():
    for request, text in islice(drills.brief_stories(random.Random(1)), 200):
        assert not re.search(r"[<>{}\[\]|¶]", request + text), text
        assert not text.isascii() or len(NAMES & set(re.findall(r"[A-Z][a-z]+", text))) == 2, text


def test_no_two_are_alike():
    assert len({story(seed)[1] for seed in range(N_STORIES)}) == N_STORIES
    assert story(7) == story(7)
