"""llama.cpp's options of how the target is loaded, and of its context."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from specli.cli.completion import complete_model
from specli.cli.groups import option
from specli.cli.option_values import (
    device_names,
    layers,
    proportions,
    scaled_adapters,
    split_commas,
    switch,
    tensor_overrides,
    thread_count,
)
from specli.llama.options import ContextOptions, ModelOptions

_PANEL = "Target model"


@dataclass(frozen=True)
class TargetFlags:
    """The target model and its context."""

    target: Annotated[
        Path | None,
        option(
            _PANEL,
            "--target -m --model",
            "The GGUF model whose text you want: a file, or a name that specli models --all lists. Default: the pair "
            "inside specli, which tells stories.",
            metavar="FILE|NAME",
            env="LLAMA_ARG_MODEL",
            autocompletion=complete_model,
        ),
    ] = None
    n_gpu_layers: Annotated[
        str | None,
        option(
            _PANEL,
            "-ngl --n-gpu-layers --gpu-layers",
            "Layers to offload. Default: all, where the build can offload.",
            metavar="N|all",
            env="LLAMA_ARG_N_GPU_LAYERS",
        ),
    ] = None
    device: Annotated[
        str | None,
        option(
            _PANEL,
            "-dev --device",
            "Devices to offload to; none: no offloading. See --list-devices.",
            metavar="DEV,…",
            env="LLAMA_ARG_DEVICE",
        ),
    ] = None
    split_mode: Annotated[
        str,
        option(
            _PANEL,
            "-sm --split-mode",
            "How to split the models over several GPUs.",
            metavar="none|layer|row|tensor",
            env="LLAMA_ARG_SPLIT_MODE",
        ),
    ] = "layer"
    tensor_split: Annotated[
        str | None,
        option(
            _PANEL,
            "-ts --tensor-split",
            "Share of the target for each GPU, as proportions.",
            metavar="N0,N1,…",
            env="LLAMA_ARG_TENSOR_SPLIT",
        ),
    ] = None
    main_gpu: Annotated[
        int,
        option(_PANEL, "-mg --main-gpu", "The GPU to use with -sm none.", metavar="INDEX", env="LLAMA_ARG_MAIN_GPU"),
    ] = 0
    load_mode: Annotated[
        str,
        option(
            _PANEL,
            "-lm --load-mode",
            "How model files are read.",
            metavar="auto|none|mmap|mlock|mmap+mlock|dio",
            env="LLAMA_ARG_LOAD_MODE",
        ),
    ] = "auto"
    no_mmap: Annotated[bool, option(_PANEL, "--no-mmap", "Older spelling of --load-mode none.")] = False
    mlock: Annotated[bool, option(_PANEL, "--mlock", "Older spelling of --load-mode mlock.")] = False
    repack: Annotated[
        bool,
        option(
            _PANEL,
            "--repack/--no-repack --repack/-nr",
            "Bring weights into the order that this CPU computes fastest with.",
            env="LLAMA_ARG_REPACK",
        ),
    ] = True
    override_tensor: Annotated[
        list[str] | None,
        option(
            _PANEL,
            "-ot --override-tensor",
            "Put tensors whose names match into a buffer type, such as CPU.",
            metavar="PATTERN=BUFFER,…",
            env="LLAMA_ARG_OVERRIDE_TENSOR",
        ),
    ] = None
    cpu_moe: Annotated[
        bool,
        option(_PANEL, "-cmoe --cpu-moe", "Keep all mixture-of-experts weights on the CPU.", env="LLAMA_ARG_CPU_MOE"),
    ] = False
    n_cpu_moe: Annotated[
        int,
        option(
            _PANEL,
            "-ncmoe --n-cpu-moe",
            "Keep the experts of the first N layers on the CPU.",
            metavar="N",
            env="LLAMA_ARG_N_CPU_MOE",
            min=0,
        ),
    ] = 0
    lora: Annotated[list[str] | None, option(_PANEL, "--lora", "LoRA adapters for the target.", metavar="FILE,…")] = (
        None
    )
    lora_scaled: Annotated[
        list[str] | None, option(_PANEL, "--lora-scaled", "LoRA adapters, each with its scale.", metavar="FILE:SCALE,…")
    ] = None
    override_kv: Annotated[
        list[str] | None,
        option(
            _PANEL,
            "--override-kv",
            "Override metadata of the target's file; TYPE is int, float, bool or str.",
            metavar="KEY=TYPE:VALUE,…",
        ),
    ] = None
    ctx_size: Annotated[
        int | None,
        option(
            _PANEL,
            "-c --ctx-size",
            "Context in tokens, which llama.cpp rounds up to 256s; 0: all the model was trained with. Default: 8192 "
            "or what the prompt needs.",
            metavar="N",
            env="LLAMA_ARG_CTX_SIZE",
            min=0,
        ),
    ] = None
    batch_size: Annotated[
        int,
        option(
            _PANEL, "-b --batch-size", "Most tokens of one llama_decode.", metavar="N", env="LLAMA_ARG_BATCH", min=1
        ),
    ] = 2048
    ubatch_size: Annotated[
        int,
        option(
            _PANEL, "-ub --ubatch-size", "Most tokens computed at a time.", metavar="N", env="LLAMA_ARG_UBATCH", min=1
        ),
    ] = 512
    threads: Annotated[
        int | None,
        option(
            _PANEL,
            "-t --threads",
            "CPU threads. Default, or 0 or less: the physical cores.",
            metavar="N",
            env="LLAMA_ARG_THREADS",
        ),
    ] = None
    threads_batch: Annotated[
        int | None,
        option(
            _PANEL, "-tb --threads-batch", "CPU threads for batches of several tokens. Default: as -t.", metavar="N"
        ),
    ] = None
    flash_attn: Annotated[
        str,
        option(
            _PANEL,
            "-fa --flash-attn",
            "Flash attention, in both models.",
            metavar="on|off|auto",
            env="LLAMA_ARG_FLASH_ATTN",
        ),
    ] = "auto"
    cache_type_k: Annotated[
        str,
        option(
            _PANEL,
            "-ctk --cache-type-k",
            "KV cache type for K: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0 or q5_1.",
            metavar="TYPE",
            env="LLAMA_ARG_CACHE_TYPE_K",
        ),
    ] = "f16"
    cache_type_v: Annotated[
        str, option(_PANEL, "-ctv --cache-type-v", "KV cache type for V.", metavar="TYPE", env="LLAMA_ARG_CACHE_TYPE_V")
    ] = "f16"
    kv_offload: Annotated[
        bool,
        option(
            _PANEL,
            "-kvo/-nkvo --kv-offload/--no-kv-offload",
            "Keep the KV caches on the GPU.",
            env="LLAMA_ARG_KV_OFFLOAD",
        ),
    ] = True
    swa_full: Annotated[
        bool, option(_PANEL, "--swa-full", "Keep the whole cache of sliding-window layers.", env="LLAMA_ARG_SWA_FULL")
    ] = False
    rpc: Annotated[
        str | None,
        option(
            _PANEL, "--rpc", "Use the devices of these rpc-servers too.", metavar="HOST:PORT,…", env="LLAMA_ARG_RPC"
        ),
    ] = None

    def path(self) -> Path:
        """The target model's file, where one was named, or ``NameFlags.located`` has found one."""
        assert self.target is not None
        return self.target

    def model_options(self) -> ModelOptions:
        """The target's loading options."""
        lora = [(Path(name), 1.0) for name in split_commas(self.lora)]
        return ModelOptions(
            n_gpu_layers=layers("-ngl", self.n_gpu_layers),
            device=device_names(self.device),
            split_mode=self.split_mode,
            tensor_split=proportions(self.tensor_split),
            main_gpu=self.main_gpu,
            load_mode="none" if self.no_mmap else "mlock" if self.mlock else self.load_mode,
            repack=self.repack,
            override_tensor=tensor_overrides("-ot", self.override_tensor),
            cpu_moe=self.cpu_moe,
            n_cpu_moe=self.n_cpu_moe,
            lora=(*lora, *scaled_adapters(self.lora_scaled)),
            override_kv=tuple(split_commas(self.override_kv)),
        )

    def context_options(self, ctx_size: int) -> ContextOptions:
        """The target's context options with a context of ``ctx_size`` tokens."""
        return ContextOptions(
            ctx_size=ctx_size,
            batch_size=self.batch_size,
            ubatch_size=self.ubatch_size,
            threads=thread_count(self.threads),
            threads_batch=thread_count(self.threads_batch),
            flash_attn=switch("-fa", self.flash_attn),
            cache_type_k=self.cache_type_k,
            cache_type_v=self.cache_type_v,
            kv_offload=self.kv_offload,
            swa_full=self.swa_full,
        )
