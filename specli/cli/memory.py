"""What runs have learnt about a pair: found again in the cache folder, and kept there."""

from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import platformdirs

from specli.cli.failures import warn
from specli.decoding.options import GenerationOptions
from specli.decoding.pair import Pair
from specli.decoding.remembered import load, memory_file, save
from specli.llama.context import Context

_CREDIBLE = 2.0  # times too slow


def cache_folder() -> Path:
    """Where specli keeps what can be made again."""
    return platformdirs.user_cache_path("specli")


def recall(pair: Pair, options: GenerationOptions, *, keep: bool) -> None:
    """Give a pair what earlier runs have learnt, or measure what decoding costs.

    A repeatable run keeps what it measures, and only that: the next one then goes by the same.
    """
    if not keep:
        pair.measure()
        return
    file = _file(pair, options)
    try:
        pair.learnt = load(file)
    except ValueError as error:
        warn(f"{file}: {error}; what was learnt about these models is measured again")
    except OSError as error:
        warn(f"{file}: cannot be read: {error.strerror}; what decoding costs is measured again")
    if pair.learnt is None:
        pair.measure()
        remember(pair, options, measured_only=True)


def remember(pair: Pair, options: GenerationOptions, *, measured_only: bool = False) -> None:
    """Keep what was learnt, unless the run is one that repeats.

    Where decoding turned out to be far faster than was remembered, it was measured while the machine was busy, and is
    better measured again: such costs let a run try but a few widths, and only those are corrected.
    """
    if pair.learnt is None or (options.repeatable and not measured_only):
        return
    file = _file(pair, options)
    try:
        if pair.learnt.costs.target.overestimate > _CREDIBLE:
            file.unlink(missing_ok=True)
        else:
            save(file, pair.learnt)
    except OSError as error:
        warn(f"{file}: cannot be written: {error.strerror}")


def _file(pair: Pair, options: GenerationOptions) -> Path:
    setup = {
        "build": version("llama-cpp-python"),
        "target": _identity(pair.target),
        "draft": _identity(pair.draft) if pair.draft else None,
        "heads": _identity(pair.heads) if pair.heads else None,
        "snapshots": pair.target.n_snapshots,
        "exact_width": pair.exact_width,
        "greedy": options.sampling.greedy,
        "verification": options.effective_verification,
    }
    return memory_file(cache_folder() / "pairs", setup)


def _identity(context: Context) -> dict[str, Any]:
    model = context.model
    options = asdict(context.options)
    del options["ctx_size"]
    return {
        "name": model.path.name,
        "bytes": model.n_bytes,
        "parameters": model.n_parameters,
        "model": asdict(model.options),
        "context": options,
    }
