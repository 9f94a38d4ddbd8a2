"""The options that say which models are loaded, and how: llama.cpp's, for target and draft apart."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from specli.errors import UsageError
from specli.llama.options import ALL_LAYERS, ContextOptions, ModelOptions

_TARGET = "Target model"
_DRAFT = "Draft model"


@dataclass(frozen=True)
class TargetFlags:
    """The target model and its context."""

    target: Annotated[
        Path | None,
        typer.Option(
            "--target", "-m", "--model", envvar="LLAMA_ARG_MODEL", rich_help_panel=_TARGET, metavar="FILE",
            help="The GGUF model whose text you want.",
        ),
    ] = None  # fmt: skip
    n_gpu_layers: Annotated[
        str | None,
        typer.Option(
            "-ngl", "--n-gpu-layers", "--gpu-layers", envvar="LLAMA_ARG_N_GPU_LAYERS", rich_help_panel=_TARGET,
            metavar="N|all", help="Layers to offload. Default: all, where the build can offload.",
        ),
    ] = None  # fmt: skip
    device: Annotated[
        str | None,
        typer.Option(
            "-dev", "--device", envvar="LLAMA_ARG_DEVICE", rich_help_panel=_TARGET, metavar="DEV,…",
            help="Devices to offload to; none: no offloading. See --list-devices.",
        ),
    ] = None  # fmt: skip
    split_mode: Annotated[
        str,
        typer.Option(
            "-sm", "--split-mode", envvar="LLAMA_ARG_SPLIT_MODE", rich_help_panel=_TARGET,
            metavar="none|layer|row|tensor", help="How to split the models over several GPUs.",
        ),
    ] = "layer"  # fmt: skip
    tensor_split: Annotated[
        str | None,
        typer.Option(
            "-ts", "--tensor-split", envvar="LLAMA_ARG_TENSOR_SPLIT", rich_help_panel=_TARGET, metavar="N0,N1,…",
            help="Share of the target for each GPU, as proportions.",
        ),
    ] = None  # fmt: skip
    main_gpu: Annotated[
        int,
        typer.Option(
            "-mg", "--main-gpu", envvar="LLAMA_ARG_MAIN_GPU", rich_help_panel=_TARGET, metavar="INDEX",
            help="The GPU to use with -sm none.",
        ),
    ] = 0  # fmt: skip
    load_mode: Annotated[
        str,
        typer.Option(
            "-lm", "--load-mode", envvar="LLAMA_ARG_LOAD_MODE", rich_help_panel=_TARGET,
            metavar="auto|none|mmap|mlock|mmap+mlock|dio", help="How model files are read.",
        ),
    ] = "auto"  # fmt: skip
    no_mmap: Annotated[
        bool, typer.Option("--no-mmap", rich_help_panel=_TARGET, help="Older spelling of --load-mode none.")
    ] = False
    mlock: Annotated[
        bool, typer.Option("--mlock", rich_help_panel=_TARGET, help="Older spelling of --load-mode mlock.")
    ] = False
    override_tensor: Annotated[
        list[str] | None,
        typer.Option(
            "-ot", "--override-tensor", envvar="LLAMA_ARG_OVERRIDE_TENSOR", rich_help_panel=_TARGET,
            metavar="PATTERN=BUFFER,…", help="Put tensors whose names match into a buffer type, such as CPU.",
        ),
    ] = None  # fmt: skip
    cpu_moe: Annotated[
        bool,
        typer.Option(
            "-cmoe", "--cpu-moe", envvar="LLAMA_ARG_CPU_MOE", rich_help_panel=_TARGET,
            help="Keep all mixture-of-experts weights on the CPU.",
        ),
    ] = False  # fmt: skip
    n_cpu_moe: Annotated[
        int,
        typer.Option(
            "-ncmoe", "--n-cpu-moe", envvar="LLAMA_ARG_N_CPU_MOE", rich_help_panel=_TARGET, metavar="N", min=0,
            help="Keep the experts of the first N layers on the CPU.",
        ),
    ] = 0  # fmt: skip
    lora: Annotated[
        list[str] | None,
        typer.Option("--lora", rich_help_panel=_TARGET, metavar="FILE,…", help="LoRA adapters for the target."),
    ] = None
    lora_scaled: Annotated[
        list[str] | None,
        typer.Option(
            "--lora-scaled", rich_help_panel=_TARGET, metavar="FILE:SCALE,…", help="The same, each with its scale."
        ),
    ] = None
    override_kv: Annotated[
        list[str] | None,
        typer.Option(
            "--override-kv", rich_help_panel=_TARGET, metavar="KEY=TYPE:VALUE,…",
            help="Override metadata of the target's file; TYPE is int, float, bool or str.",
        ),
    ] = None  # fmt: skip
    ctx_size: Annotated[
        int | None,
        typer.Option(
            "-c", "--ctx-size", envvar="LLAMA_ARG_CTX_SIZE", rich_help_panel=_TARGET, metavar="N", min=0,
            help="Context in tokens; 0: all the model was trained with. Default: 8192 or what the prompt needs.",
        ),
    ] = None  # fmt: skip
    batch_size: Annotated[
        int,
        typer.Option(
            "-b", "--batch-size", envvar="LLAMA_ARG_BATCH", rich_help_panel=_TARGET, metavar="N", min=1,
            help="Most tokens of one llama_decode.",
        ),
    ] = 2048  # fmt: skip
    ubatch_size: Annotated[
        int,
        typer.Option(
            "-ub", "--ubatch-size", envvar="LLAMA_ARG_UBATCH", rich_help_panel=_TARGET, metavar="N", min=1,
            help="Most tokens computed at a time.",
        ),
    ] = 512  # fmt: skip
    threads: Annotated[
        int | None,
        typer.Option(
            "-t", "--threads", envvar="LLAMA_ARG_THREADS", rich_help_panel=_TARGET, metavar="N",
            help="CPU threads. Default: the physical cores.",
        ),
    ] = None  # fmt: skip
    threads_batch: Annotated[
        int | None,
        typer.Option(
            "-tb", "--threads-batch", rich_help_panel=_TARGET, metavar="N",
            help="CPU threads for batches of several tokens. Default: as -t.",
        ),
    ] = None  # fmt: skip
    flash_attn: Annotated[
        str,
        typer.Option(
            "-fa", "--flash-attn", envvar="LLAMA_ARG_FLASH_ATTN", rich_help_panel=_TARGET, metavar="on|off|auto",
            help="Flash attention, in both models.",
        ),
    ] = "auto"  # fmt: skip
    cache_type_k: Annotated[
        str,
        typer.Option(
            "-ctk", "--cache-type-k", envvar="LLAMA_ARG_CACHE_TYPE_K", rich_help_panel=_TARGET, metavar="TYPE",
            help="KV cache type for K: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0 or q5_1.",
        ),
    ] = "f16"  # fmt: skip
    cache_type_v: Annotated[
        str,
        typer.Option(
            "-ctv", "--cache-type-v", envvar="LLAMA_ARG_CACHE_TYPE_V", rich_help_panel=_TARGET, metavar="TYPE",
            help="KV cache type for V.",
        ),
    ] = "f16"  # fmt: skip
    kv_offload: Annotated[
        bool,
        typer.Option(
            "-kvo/-nkvo", "--kv-offload/--no-kv-offload", envvar="LLAMA_ARG_KV_OFFLOAD", rich_help_panel=_TARGET,
            help="Keep the KV caches on the GPU.",
        ),
    ] = True  # fmt: skip
    swa_full: Annotated[
        bool,
        typer.Option(
            "--swa-full", envvar="LLAMA_ARG_SWA_FULL", rich_help_panel=_TARGET,
            help="Keep the whole cache of sliding-window layers.",
        ),
    ] = False  # fmt: skip
    rpc: Annotated[
        str | None,
        typer.Option(
            "--rpc", envvar="LLAMA_ARG_RPC", rich_help_panel=_TARGET, metavar="HOST:PORT,…",
            help="Use the devices of these rpc-servers too.",
        ),
    ] = None  # fmt: skip

    def model_options(self) -> ModelOptions:
        """The target's loading options."""
        lora = [(Path(name), 1.0) for name in _split(self.lora)]
        return ModelOptions(
            n_gpu_layers=_layers("-ngl", self.n_gpu_layers),
            device=_devices(self.device),
            split_mode=self.split_mode,
            tensor_split=_proportions(self.tensor_split),
            main_gpu=self.main_gpu,
            load_mode="none" if self.no_mmap else "mlock" if self.mlock else self.load_mode,
            override_tensor=_overrides("-ot", self.override_tensor),
            cpu_moe=self.cpu_moe,
            n_cpu_moe=self.n_cpu_moe,
            lora=(*lora, *_scaled(self.lora_scaled)),
            override_kv=tuple(_split(self.override_kv)),
        )

    def context_options(self, ctx_size: int) -> ContextOptions:
        """The target's context options with a context of ``ctx_size`` tokens."""
        if self.flash_attn not in ("on", "off", "auto"):
            raise UsageError(f"-fa: {self.flash_attn!r} is not one of on, off, auto")
        return ContextOptions(
            ctx_size=ctx_size,
            batch_size=self.batch_size,
            ubatch_size=self.ubatch_size,
            threads=_threads(self.threads),
            threads_batch=_threads(self.threads_batch),
            flash_attn=self.flash_attn,
            cache_type_k=self.cache_type_k,
            cache_type_v=self.cache_type_v,
            kv_offload=self.kv_offload,
            swa_full=self.swa_full,
        )


@dataclass(frozen=True)
class DraftFlags:
    """The draft model and its context."""

    draft: Annotated[
        str | None,
        typer.Option(
            "--draft", "-md", "--spec-draft-model", "--model-draft", envvar="LLAMA_ARG_SPEC_DRAFT_MODEL",
            rich_help_panel=_DRAFT, metavar="FILE", help="A small GGUF model of the same family that guesses ahead.",
        ),
    ] = None  # fmt: skip
    n_gpu_layers_draft: Annotated[
        str | None,
        typer.Option(
            "-ngld", "--spec-draft-ngl", "--n-gpu-layers-draft", "--gpu-layers-draft",
            envvar="LLAMA_ARG_N_GPU_LAYERS_DRAFT", rich_help_panel=_DRAFT, metavar="N|all",
            help="Layers of the draft to offload. Default: all, where the build can offload.",
        ),
    ] = None  # fmt: skip
    device_draft: Annotated[
        str | None,
        typer.Option(
            "-devd", "--spec-draft-device", "--device-draft", rich_help_panel=_DRAFT, metavar="DEV,…",
            help="Devices for the draft. Default: as -dev.",
        ),
    ] = None  # fmt: skip
    override_tensor_draft: Annotated[
        list[str] | None,
        typer.Option(
            "-otd", "--spec-draft-override-tensor", "--override-tensor-draft", rich_help_panel=_DRAFT,
            metavar="PATTERN=BUFFER,…", help="As -ot, for the draft.",
        ),
    ] = None  # fmt: skip
    cpu_moe_draft: Annotated[
        bool,
        typer.Option(
            "-cmoed", "--spec-draft-cpu-moe", "--cpu-moe-draft", envvar="LLAMA_ARG_SPEC_DRAFT_CPU_MOE",
            rich_help_panel=_DRAFT, help="As -cmoe, for the draft.",
        ),
    ] = False  # fmt: skip
    n_cpu_moe_draft: Annotated[
        int,
        typer.Option(
            "-ncmoed", "--spec-draft-n-cpu-moe", "--spec-draft-ncmoe", "--n-cpu-moe-draft",
            envvar="LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE", rich_help_panel=_DRAFT, metavar="N", min=0,
            help="As -ncmoe, for the draft.",
        ),
    ] = 0  # fmt: skip
    ctx_size_draft: Annotated[
        int | None,
        typer.Option(
            "--draft-ctx-size", "-cd", "--ctx-size-draft", rich_help_panel=_DRAFT, metavar="N", min=8,
            help="Context of the draft; smaller than the target's, it sees a recent window. Default: the target's.",
        ),
    ] = None  # fmt: skip
    threads_draft: Annotated[
        int | None,
        typer.Option(
            "-td", "--spec-draft-threads", "--threads-draft", rich_help_panel=_DRAFT, metavar="N",
            help="CPU threads of the draft. Default: as -t.",
        ),
    ] = None  # fmt: skip
    threads_batch_draft: Annotated[
        int | None,
        typer.Option(
            "-tbd", "--spec-draft-threads-batch", "--threads-batch-draft", rich_help_panel=_DRAFT, metavar="N",
            help="The same for batches of several tokens. Default: as -td.",
        ),
    ] = None  # fmt: skip
    cache_type_k_draft: Annotated[
        str,
        typer.Option(
            "-ctkd", "--spec-draft-type-k", "--cache-type-k-draft", envvar="LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K",
            rich_help_panel=_DRAFT, metavar="TYPE", help="As -ctk, for the draft.",
        ),
    ] = "f16"  # fmt: skip
    cache_type_v_draft: Annotated[
        str,
        typer.Option(
            "-ctvd", "--spec-draft-type-v", "--cache-type-v-draft", envvar="LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V",
            rich_help_panel=_DRAFT, metavar="TYPE", help="As -ctv, for the draft.",
        ),
    ] = "f16"  # fmt: skip

    def path(self) -> Path | None:
        """The draft model's file.

        Raises:
            UsageError: A number, which older versions of llama.cpp took here.
        """
        if self.draft is None:
            return None
        if self.draft.isdigit() and not Path(self.draft).exists():
            raise UsageError(
                f"--draft {self.draft}: --draft names the draft model's file",
                f"For the number of drafted tokens, which --draft once was in llama.cpp, use --n-max {self.draft}.",
            )
        return Path(self.draft)

    def model_options(self, target: ModelOptions) -> ModelOptions:
        """The draft's loading options; what has no flag of its own follows the target's."""
        return ModelOptions(
            n_gpu_layers=_layers("-ngld", self.n_gpu_layers_draft),
            device=target.device if self.device_draft is None else _devices(self.device_draft),
            split_mode=target.split_mode,
            main_gpu=target.main_gpu,
            load_mode=target.load_mode,
            override_tensor=_overrides("-otd", self.override_tensor_draft),
            cpu_moe=self.cpu_moe_draft,
            n_cpu_moe=self.n_cpu_moe_draft,
        )

    def context_options(self, target: ContextOptions) -> ContextOptions:
        """The draft's context options; what has no flag of its own follows the target's."""
        threads = _threads(self.threads_draft) or target.threads
        return ContextOptions(
            ctx_size=self.ctx_size_draft or target.ctx_size,
            batch_size=target.batch_size,
            ubatch_size=target.ubatch_size,
            threads=threads,
            threads_batch=_threads(self.threads_batch_draft) or _threads(self.threads_draft) or target.threads_batch,
            flash_attn=target.flash_attn,
            cache_type_k=self.cache_type_k_draft,
            cache_type_v=self.cache_type_v_draft,
            kv_offload=target.kv_offload,
            swa_full=target.swa_full,
        )


def _layers(flag: str, text: str | None) -> int:
    if text is None or text in ("all", "auto"):
        return ALL_LAYERS
    if not text.isdigit():
        raise UsageError(f"{flag}: {text!r} is neither a number of layers nor 'all'")
    return int(text)


def _devices(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return () if text == "none" else tuple(name.strip() for name in text.split(","))


def _proportions(text: str | None) -> tuple[float, ...]:
    try:
        parts = tuple(float(part) for part in text.replace("/", ",").split(",")) if text else ()
    except ValueError:
        raise UsageError(f"-ts: {text!r} is not a list of numbers, such as 3,1") from None
    if any(part < 0 or not math.isfinite(part) for part in parts):
        raise UsageError(f"-ts: {text!r} has a part that is not a positive number")
    return parts


def _threads(n: int | None) -> int | None:
    """A number of threads; none given, or llama.cpp's −1, is the default."""
    return n if n and n > 0 else None


def _split(texts: list[str] | None) -> Iterator[str]:
    for text in texts or ():
        yield from (part for part in text.split(",") if part)


def _overrides(flag: str, texts: list[str] | None) -> tuple[tuple[str, str], ...]:
    pairs = []
    for text in _split(texts):
        pattern, equals, buffer_type = text.rpartition("=")
        if not equals or not pattern:
            raise UsageError(f"{flag}: {text!r} is not PATTERN=BUFFER, such as '.*_exps.*=CPU'")
        pairs.append((pattern, buffer_type))
    return tuple(pairs)


def _scaled(texts: list[str] | None) -> Iterator[tuple[Path, float]]:
    for text in _split(texts):
        name, _, scale = text.rpartition(":")
        try:
            yield Path(name), float(scale)
        except ValueError:
            raise UsageError(f"--lora-scaled: {text!r} is not FILE:SCALE") from None
