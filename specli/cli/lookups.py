"""The indexes that drafters without a model of their own ask."""

from collections.abc import Iterable
from functools import partial

from specli.cli.failures import note
from specli.cli.lookup_options import LookupFlags
from specli.cli.memory import cache_folder
from specli.decoding.pair import Pair
from specli.drafters.corpus import open_corpus
from specli.drafters.names import CORPUS
from specli.drafters.ngram import NGRAM_DRAFTERS
from specli.llama import memory


def add_lookups(pair: Pair, flags: LookupFlags, names: Iterable[str]) -> None:
    """Give a pair the indexes of the n-gram drafters among these names, and of the corpus if there is one.

    Raises:
        SpecliError: A corpus that cannot be used.
    """
    options = flags.ngram_options()
    for name in names:
        if name in NGRAM_DRAFTERS:
            pair.add_lookup(name, NGRAM_DRAFTERS[name](options))
    if flags.corpus:
        vocab = pair.target.model.vocab
        tokenize = partial(vocab.tokenize, add_special=False, parse_special=False)
        index = open_corpus(flags.corpus, tokenize, vocab.fingerprint(), cache_folder(), memory.free_bytes(), note)
        pair.add_lookup(CORPUS, index)
