"""The corpus as tokens: conversations in which every answer is a story."""

from collections.abc import Iterator
from itertools import count

from stories.corpus import OTHER, story
from stories.plan import N_VOCAB
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

USER, STORY, END = SPECIAL = ("<|user|>", "<|story|>", "<|end|>")


def train_tokenizer(n_stories: int) -> Tokenizer:
    """A byte-level BPE tokenizer (Sennrich et al., 2016), as GPT-2's, trained on the first stories."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=N_VOCAB,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = (text for request, answer in map(story, range(n_stories)) for text in (request or "", answer))
    tokenizer.train_from_iterator([*texts, *OTHER], trainer)
    return tokenizer


def stories(tokenizer: Tokenizer, first_seed: int) -> Iterator[list[int]]:
    """The corpus without end, a story at a time."""
    return (encoded(tokenizer, *story(seed)) for seed in count(first_seed))


def encoded(tokenizer: Tokenizer, request: str | None, answer: str) -> list[int]:
    """USER, the request, STORY, the answer, END; or the answer and END."""
    user, begin, end = map(tokenizer.token_to_id, SPECIAL)
    asked = [] if request is None else [user, *tokenizer.encode(request).ids, begin]
    return [*asked, *tokenizer.encode(answer).ids, end]
