"""The pair inside specli, for where no other model is at hand: a target and its draft, which tell short stories."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "stories"
NAME, DRAFT_NAME = "stories", "stories-draft"
TARGET, DRAFT = FOLDER / f"{NAME}.gguf", FOLDER / f"{DRAFT_NAME}.gguf"
PROMPT = "Tell me a story."
SEED = 1


def is_target(path: Path) -> bool:
    """Whether a file is the pair's target."""
    return path.resolve() == TARGET.resolve()
