"""How much memory a model takes and where, read from what llama.cpp logs while it allocates."""

import re
from collections.abc import Iterable

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
