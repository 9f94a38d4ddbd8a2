"""The pair inside specli, for where no other model is at hand: a target and its draft, which tell short stories."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "stories"
NAME, DRAFT_NAME = "stories", "stories-draft"
TARGET, DRAFT = FOLDER / f"{NAME}.gguf", FOLDER / f"{DRAFT_NAME}.gguf"
PROMPT = "Tell me a story."
SEED = 1


def is_target(named: Path | None) -> bool:
    """Whether what is named as the target is the pair's: its file, its name, or nothing."""
    return named is None or str(named) == NAME or named.resolve() == TARGET.resolve()
