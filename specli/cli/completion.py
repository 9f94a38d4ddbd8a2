"""What a shell can complete beside commands and flags."""

from pathlib import Path

from specli.errors import SpecliError


def complete_model(incomplete: str) -> list[str]:
    """Names of models that begin so: known ones, those on this disk, and paths."""
    from specli.models.local import find_models
    from specli.models.registry import load_registry

    try:
        names = [*load_registry().entries, *(model.name for model in find_models())]
    except (SpecliError, OSError):
        names = []
    return [name for name in names if name.startswith(incomplete)] + _paths(incomplete)


def _paths(incomplete: str) -> list[str]:
    """Folders and GGUF files that begin so, written as the beginning is."""
    before, slash, beginning = incomplete.rpartition("/")
    try:
        there = sorted(Path(f"{before}{slash}" or ".").expanduser().iterdir())
    except OSError:
        return []
    return [
        f"{before}{slash}{path.name}{'/' if path.is_dir() else ''}"
        for path in there
        if path.name.startswith(beginning) and (path.is_dir() or path.suffix == ".gguf")
    ]
