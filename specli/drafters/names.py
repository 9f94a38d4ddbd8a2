"""The drafters by name."""

from collections.abc import Sequence

from specli.drafters.ngram import NGRAM_DRAFTERS
from specli.errors import UsageError

MODEL, SUFFIX, CORPUS = "model", "suffix", "corpus"

NAMES = (MODEL, SUFFIX, CORPUS, *NGRAM_DRAFTERS)


def check_names(names: Sequence[str]) -> None:
    """Refuse drafters that there are not, and one twice.

    Raises:
        UsageError: Naming it.
    """
    for name in names:
        if name not in NAMES:
            raise UsageError(f"--drafter {name}: not one of {', '.join(NAMES)}, or none")
        if names.count(name) > 1:
            raise UsageError(f"--drafter {name}: named twice")
