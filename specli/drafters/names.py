"""The drafters by name."""

from collections.abc import Sequence

from specli.drafters.ngram import NGRAM_DRAFTERS
from specli.errors import UsageError
from specli.models.draft_module import DFLASH, DSPARK, EAGLE3, MODEL, MTP

__all__ = ["DFLASH", "DSPARK", "EAGLE3", "MODEL", "MTP"]  # of those that compute

SUFFIX, CORPUS = "suffix", "corpus"

SPEC_TYPES = {
    **{MODEL: "draft-simple", MTP: "draft-mtp", EAGLE3: "draft-eagle3", DFLASH: "draft-dflash", DSPARK: "draft-dspark"},
    **{name: name for name in NGRAM_DRAFTERS},
}
"""llama.cpp's names of those it has too."""

TRAINED = (MODEL, MTP, EAGLE3, DFLASH, DSPARK)
"""Those that compute; the others look up."""

NAMES = (*TRAINED, SUFFIX, CORPUS, *NGRAM_DRAFTERS)


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
