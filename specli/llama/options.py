"""llama.cpp's options for loading a model and for its context, named as llama.cpp names them."""

from dataclasses import dataclass
from pathlib import Path

from specli.errors import UsageError

KV_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
FLASH_ATTN = ("on", "off", "auto")
SPLIT_MODES = ("none", "layer", "row", "tensor")
LOAD_MODES = ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")

ALL_LAYERS = -1


@dataclass(frozen=True)
class ModelOptions:
    """How a model is loaded: what llama.cpp's flags of the same names do."""

    n_gpu_layers: int = ALL_LAYERS
    device: tuple[str, ...] | None = None  # None: every device; (): none
    split_mode: str = "layer"
    tensor_split: tuple[float, ...] = ()
    main_gpu: int = 0
    load_mode: str = "auto"
    override_tensor: tuple[tuple[str, str], ...] = ()  # (tensor name pattern, buffer type)
    cpu_moe: bool = False
    n_cpu_moe: int = 0
    lora: tuple[tuple[Path, float], ...] = ()  # (adapter, scale)
    override_kv: tuple[str, ...] = ()  # KEY=TYPE:VALUE
    repack: bool = True  # weights into the order that this CPU's kernels like best
    load_mtp: bool = False  # heads for further tokens too, where the file has any


_MOST_THREADS = 512  # GGML_MAX_N_THREADS


@dataclass(frozen=True)
class ContextOptions:
    """How a context is made: what llama.cpp's flags of the same names do."""

    ctx_size: int = 0  # tokens; 0: what the model was trained with
    batch_size: int = 2048
    ubatch_size: int = 512
    threads: int | None = None  # None: as many as the machine has physical cores
    threads_batch: int | None = None  # None: as threads
    flash_attn: str = "auto"
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    kv_offload: bool = True
    swa_full: bool = False

    def check(self, suffix: str = "") -> None:
        """Refuse values that llama.cpp does not have, or not together.

        Args:
            suffix: What the names of the flags end with: 'd' for the draft's own.

        Raises:
            UsageError: Naming the flag.
        """
        for flag, n in ((f"-t{suffix}", self.threads), (f"-tb{suffix}", self.threads_batch)):
            if n is not None and n > _MOST_THREADS:
                raise UsageError(f"{flag} {n}: llama.cpp takes {_MOST_THREADS} threads at most")
        if self.flash_attn not in FLASH_ATTN:
            raise UsageError(f"-fa: {self.flash_attn!r} is not one of {', '.join(FLASH_ATTN)}")
        for flag, name in ((f"-ctk{suffix}", self.cache_type_k), (f"-ctv{suffix}", self.cache_type_v)):
            if name not in KV_CACHE_TYPES:
                raise UsageError(f"{flag}: there is no KV cache type {name!r} (types: {', '.join(KV_CACHE_TYPES)})")
        if self.flash_attn == "off" and self.cache_type_v not in ("f32", "f16", "bf16"):
            raise UsageError(
                f"-ctv{suffix} {self.cache_type_v}: a quantised V cache needs flash attention",
                f"Leave out -fa off, or use -ctv{suffix} f16.",
            )
