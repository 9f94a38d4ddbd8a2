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
from specli.llama.options import ContextOptions, ModelOptions
from specli.proof.widths import LENGTHS, WIDEST, measure_widths
from specli.whole_file import write_whole

_SCHEMA = "specli.widths/1"
_WORTH_IT = 1.1  # times as fast as what was tried before, and the user's own options are first


@dataclass(frozen=True)
class ExactSetup:
    """How a target is loaded, and the widest batch that is bit by bit the same as single tokens then.

    Attributes:
        model: Loading options.
        flash_attn: Of the context.
        width: The most tokens verified at once; 1: plain decoding.
    """

    model: ModelOptions
    flash_attn: str
    width: int

    def of_context(self, options: ContextOptions) -> ContextOptions:
        """The same context, computed so."""
        return replace(options, flash_attn=self.flash_attn)

    def words(self) -> str:
        """What was chosen."""
        changed = []
        if self.flash_attn == "off":
            changed.append("without flash attention")
        if not self.model.repack:
            changed.append("without repacking weights")
        how = f" {' and '.join(changed)}" if changed else ""
        if self.width == 1:
            return "exact: no batch of several tokens is bit by bit the same as single ones here: decoding plainly"
        return (
            f"exact: batches of up to {self.width} tokens are bit by bit the same as single ones{how} "
            f"(compared after {' and '.join(map(str, LENGTHS))} tokens)"
        )


def exact_setup(
    path: Path,
    model: ModelOptions,
    context: ContextOptions,
    load: Callable[[Path, ModelOptions], Model],
    *,
    as_loaded: bool = False,
) -> ExactSetup:
    """Find the way of computing that verifies fastest among those that are exact, or remember it.

    Flash attention and repacked weights make kernels depend on the batch width; without them more widths may be exact.
    What the user chose stays.

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
    best: tuple[float, ExactSetup] | None = None
    attentions = [context.flash_attn]
    if context.flash_attn == "auto" and context.cache_type_v in ("f32", "f16", "bf16"):
        attentions.append("off")
    for repack in dict.fromkeys(repacks):
        options = replace(model, repack=repack)
        loaded = load(path, options)
        for attention in attentions:
            widest = min(WIDEST, context.batch_size)
            tried = Context(loaded, _small(replace(context, flash_attn=attention)), widest)
            widths = measure_widths(tried, loaded.vocab.n_tokens, widest, stop_early=True)
            tried.close()
            speed = widths.speed()
            if best is None or speed > _WORTH_IT * best[0]:
                best = speed, ExactSetup(options, attention, widths.exact)
        loaded.close()
    assert best
    return best[1]


def _small(context: ContextOptions) -> ContextOptions:
    return replace(context, ctx_size=max(LENGTHS) + 2 * WIDEST + 1)


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
        flash_attn, repack, width = document["flash_attn"], document["repack"], document["width"]
        if not (isinstance(width, int) and 1 <= width <= WIDEST and isinstance(repack, bool)):
            raise ValueError(f"a width of {width}")
        return ExactSetup(replace(model, repack=repack), str(flash_attn), width)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        warn(f"{file}: {error}; batches are compared again")
        return None


def _remember(file: Path, setup: ExactSetup) -> None:
    document = {"schema": _SCHEMA, "flash_attn": setup.flash_attn, "repack": setup.model.repack, "width": setup.width}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(document))
    except OSError as error:
        warn(f"{file}: cannot be written: {error.strerror}")
