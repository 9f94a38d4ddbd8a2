"""Loads llama.cpp and lets it compute: run as a process of its own, ``python -m specli.llama.self_test``.

Prints a line of JSON a step, so that whoever started it knows how far it came before it crashed.
"""

import json
from pathlib import Path
from typing import Any

_TOKENS = 64  # wide enough for the kernels of wide batches, too


def main() -> None:
    """Take the steps."""
    import llama_cpp

    from specli.llama import devices, log, staging
    from specli.llama.context import Context, physical_cores
    from specli.llama.model import Model
    from specli.llama.options import ContextOptions
    from specli.models import stories

    log.install()
    _say(
        "library",
        path=str(Path(llama_cpp.__file__).parent),
        system_info=devices.system_info(),
        gpu_offload=bool(llama_cpp.llama_supports_gpu_offload()),
        rpc=bool(llama_cpp.llama_supports_rpc()),
        physical_cores=physical_cores(),
        hidden_states=staging.is_there(),
    )
    found = [
        {"name": one.name, "description": one.description, "bytes": one.memory, "bytes_free": one.memory_free}
        for one in devices.list_devices()
    ]
    _say("devices", devices=found)
    models = [Model(path) for path in (stories.TARGET, stories.DRAFT)]
    _say("models", files=[str(model.path) for model in models])
    for model in models:
        context = Context(model, ContextOptions(ctx_size=256), 1)
        context.decode(list(range(_TOKENS)), 1)
        context.decode([1], 1)
        context.close()
        model.close()
    _say("decode", tokens=_TOKENS + 1)


def _say(step: str, **facts: Any) -> None:
    print(json.dumps({"step": step, **facts}), flush=True)


if __name__ == "__main__":
    main()
