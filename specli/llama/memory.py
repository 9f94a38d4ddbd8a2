"""How much memory a model takes and where: by what llama.cpp logs while it allocates, and before, by its metadata."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from specli.llama.options import ContextOptions

_MIB = 1024 * 1024
_WEIGHTS = re.compile(r"(\S+)\s+model buffer size\s*=\s*([\d.]+) MiB")
_KV_CACHE = re.compile(r"(?:KV|RS) buffer size\s*=\s*([\d.]+) MiB")
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")


def weights_by_device(lines: Iterable[str]) -> dict[str, int]:
    """Return bytes of weights by buffer ('CPU_Mapped', 'CUDA0', ...)."""
    sizes: dict[str, int] = {}
    for line in lines:
        if match := _WEIGHTS.search(line):
            sizes[match[1]] = sizes.get(match[1], 0) + round(float(match[2]) * _MIB)
    return sizes


def layers_offloaded(lines: Iterable[str]) -> int:
    """Return how many layers, the output layer among them, llama.cpp says it put on other devices than the CPU."""
    return max((int(match[1]) for line in lines if (match := _OFFLOADED.search(line))), default=0)


def kv_cache_bytes(lines: Iterable[str]) -> int:
    """Return bytes of KV cache (and recurrent state) over all devices."""
    return round(sum(float(match[1]) for line in lines if (match := _KV_CACHE.search(line))) * _MIB)


def ram_bytes() -> int | None:
    """Return bytes of memory this machine has, or None where the system does not say."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_bytes() -> int | None:
    """Return bytes of memory that could be had, swap included, or None where the system does not say."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    except OSError:
        return None
    free = sum(int(fields[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree") if name in fields)
    container = _container_left(Path("/sys/fs/cgroup"))
    return free if container is None else min(free, container)


def _container_left(folder: Path) -> int | None:
    """Return bytes that a container's limit leaves, what its files take in memory included; None without a limit."""
    try:
        limit, used = int((folder / "memory.max").read_text()), int((folder / "memory.current").read_text())
        fields = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return max(0, limit - used + int(fields.get("inactive_file", 0)) + int(fields.get("active_file", 0)))


def address_space_left() -> int | None:
    """Return bytes of addresses that a limit (ulimit -v) leaves this process, mapped files included; None: no limit."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(0, limit - used)


def least_kv_cache_bytes(
    metadata: Callable[[str], str | None], architecture: str, options: ContextOptions, n_ctx: int
) -> int:
    """Return what keys and values of a context take at least; 0 where layers differ and the metadata alone cannot tell.

    Args:
        metadata: Looks up a key of the model's file.
        architecture: The prefix of its keys.
        options: The cache's types.
        n_ctx: Tokens.
    """

    def number(key: str) -> int | None:
        value = metadata(f"{architecture}.{key}")
        return int(value) if value and value.isdigit() else None

    n_layer, n_embd, n_head = number("block_count"), number("embedding_length"), number("attention.head_count")
    special = ("attention.sliding_window", "attention.kv_lora_rank", "ssm.inner_size", "full_attention_interval")
    if not (n_layer and n_embd and n_head) or any(metadata(f"{architecture}.{key}") for key in special):
        return 0
    n_head_kv = number("attention.head_count_kv")
    if n_head_kv is None:
        return 0
    length = n_embd // n_head
    bits = (number("attention.key_length") or length) * _BITS[options.cache_type_k]
    bits += (number("attention.value_length") or length) * _BITS[options.cache_type_v]
    return int(n_ctx * n_layer * n_head_kv * bits / 8)


_BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q5_1": 6, "q5_0": 5.5, "q4_1": 5, "q4_0": 4.5, "iq4_nl": 4.5}
