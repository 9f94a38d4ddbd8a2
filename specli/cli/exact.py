"""``--exact``: how to load a target so that drafted texts are bit by bit plain decoding's, and how wide to verify."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from specli.cli.failures import note, warn
from specli.cli.memory import cache_folder
from specli.decoding.remembered import memory_file
from specli.llama import devices
from specli.llama.context import Context, physical_cores
from specli.llama.model import Model
from specli.llama.options import FLASH_ATTN, ContextOptions, ModelOptions
from specli.proof.widths import LEAST_CTX, LENGTHS, WIDEST, measure_widths
from specli.whole_file import write_whole

_SCHEMA = "specli.widths/2"
_FAST_ENOUGH = 0.9  # of the fastest way's speed


@dataclass(frozen=True)
class ExactSetup:
    """How a target is loaded, and the widest batch that is bit by bit the same as single tokens then.

    Attributes:
        model: Loading options.
        flash_attn: Of the context.
        cache_type: Of its keys and values; None: as the user says.
        width: The most tokens verified at once; 1: plain decoding.
    """

    model: ModelOptions
    flash_attn: str
    cache_type: str | None
    width: int

    def of_context(self, options: ContextOptions) -> ContextOptions:
        """The same context, computed so."""
        options = replace(options, flash_attn=self.flash_attn)
        if self.cache_type is None:
            return options
        return replace(options, cache_type_k=self.cache_type, cache_type_v=self.cache_type)

    def words(self) -> str:
        """What was chosen."""
        if self.width == 1:
            return "exact: no batch of several tokens is bit by bit the same as single ones here: decoding plainly"
        changed = [
            *(["without flash attention"] if self.flash_attn == "off" else []),
            *([f"with a KV cache in {self.cache_type}"] if self.cache_type else []),
            *(["without repacking weights"] if not self.model.repack else []),
        ]
        return (
            f"exact: {', '.join([*changed, ''])}batches of up to {self.width} tokens are bit by bit the same as single "
            f"ones (compared after {' and '.join(map(str, LENGTHS))} tokens)"
        )


def exact_setup(
    path: Path,
    model: ModelOptions,
    context: ContextOptions,
    load: Callable[[Path, ModelOptions], Model],
    *,
    as_loaded: bool = False,
) -> ExactSetup:
    """Find the way of computing in which the widest batches are exact, or remember it.

    Flash attention, repacked weights and a cache in half precision make kernels depend on the batch width; without them
    more widths may be exact. What the user chose stays, and no way is taken that is slower than another by more than
    a tenth, at its best width.

    Args:
        path: The target's file.
        model: How it would be loaded.
        context: Its context's options.
        load: Loads a model.
        as_loaded: Whether the loading options are settled.
    """
    identity = {**_identity(path, model, context), "as_loaded": as_loaded}
    file = memory_file(cache_folder() / "widths", identity)
    setup = _recall(file, model)
    if setup is None:
        note("exact: comparing batches with single tokens, once for this model and build")
        setup = _measure(path, model, context, load, (model.repack,) if as_loaded else (model.repack, False))
        _remember(file, setup)
    note(setup.words())
    return setup


def _measure(
    path: Path,
    model: ModelOptions,
    context: ContextOptions,
    load: Callable[[Path, ModelOptions], Model],
    repacks: Sequence[bool],
) -> ExactSetup:
    found: list[tuple[float, ExactSetup]] = []
    for repack in dict.fromkeys(repacks):
        options = replace(model, repack=repack)
        loaded = load(path, options)
        for flash_attn, cache_type in _attentions(context):
            setup = ExactSetup(options, flash_attn, cache_type, 1)
            widest = min(WIDEST, context.batch_size)
            tried = Context(loaded, _small(setup.of_context(context)), widest)
            widths = measure_widths(tried, loaded.vocab.n_tokens, widest, stop_early=True)
            tried.close()
            found.append((widths.speed(), replace(setup, width=widths.exact)))
        loaded.close()
    fastest = max(speed for speed, _ in found)
    fast = [setup for speed, setup in found if speed >= _FAST_ENOUGH * fastest]
    widest_setup = max(fast, key=lambda setup: setup.width)  # the first of them, and the user's own is first
    return widest_setup if widest_setup.width > 1 else found[0][1]


def _attentions(context: ContextOptions) -> list[tuple[str, str | None]]:
    """Flash attention and the cache's type, in the ways to try; the user's own first."""
    ways: list[tuple[str, str | None]] = [(context.flash_attn, None)]
    types = {context.cache_type_k, context.cache_type_v}
    if context.flash_attn == "auto" and types <= {"f32", "f16", "bf16"}:
        ways.append(("off", None))
    if context.flash_attn != "on" and types == {"f16"}:
        ways.append(("off", "f32"))
    return ways


def _small(context: ContextOptions) -> ContextOptions:
    return replace(context, ctx_size=LEAST_CTX)


def _identity(path: Path, model: ModelOptions, context: ContextOptions) -> dict[str, Any]:
    """What the answer depends on."""
    status = path.stat()
    options, loading = asdict(context), asdict(model)
    del options["ctx_size"], loading["load_mtp"]  # the text is the same with heads and without
    cores = physical_cores()
    return {
        "build": version("llama-cpp-python"),
        "machine": devices.system_info(),
        "devices": [device.description for device in devices.list_devices()],
        "target": [path.name, status.st_size, status.st_mtime_ns],
        "model": loading,
        "context": options,
        "threads": [context.threads or cores, context.threads_batch or context.threads or cores],
    }


def _recall(file: Path, model: ModelOptions) -> ExactSetup | None:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["schema"] != _SCHEMA:
            return None
        repack, width, cache_type = document["repack"], document["width"], document["cache_type"]
        if not (isinstance(width, int) and 1 <= width <= WIDEST and isinstance(repack, bool)):
            raise ValueError(f"a width of {width}")
        if document["flash_attn"] not in FLASH_ATTN or cache_type not in (None, "f32"):
            raise ValueError(f"a cache of type {cache_type}")
        return ExactSetup(replace(model, repack=repack), document["flash_attn"], cache_type, width)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        warn(f"{file}: {error}; batches are compared again")
        return None


def _remember(file: Path, setup: ExactSetup) -> None:
    document = {
        "schema": _SCHEMA,
        "flash_attn": setup.flash_attn,
        "cache_type": setup.cache_type,
        "repack": setup.model.repack,
        "width": setup.width,
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(document))
    except OSError as error:
        warn(f"{file}: cannot be written: {error.strerror}")
