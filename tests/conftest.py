"""Models for the tests: tiny ones written on the spot, real ones where there are any."""

import os
from pathlib import Path

import pytest
from tiny_drafts import write_mamba
from tiny_gguf import write_hybrid_model, write_model

from specli.llama import log
from specli.llama.options import ContextOptions

EXACT = ContextOptions(ctx_size=512, flash_attn="off", cache_type_k="f32", cache_type_v="f32", threads=1)
"""A context whose numerics depend on the batch width as little as llama.cpp can make them."""


@pytest.fixture(scope="session", autouse=True)
def _quiet_llama() -> None:
    log.install()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pairs, each draft being its target with some noise.

    target.gguf and draft.gguf; sliding.gguf and sliding-draft.gguf (a window of 16 tokens); hybrid.gguf and
    hybrid-draft.gguf (every second layer recurrent); mamba.gguf and mamba-draft.gguf (all of them).
    """
    folder = tmp_path_factory.mktemp("tiny")
    for suffix, noise in (("", 0.0), ("-draft", 0.05)):
        write_model(folder / ("draft.gguf" if noise else "target.gguf"), noise=noise)
        write_model(folder / f"sliding{suffix}.gguf", sliding_window=16, layers=6, noise=noise)
        write_hybrid_model(folder / f"hybrid{suffix}.gguf", noise=noise)
        write_mamba(folder / f"mamba{suffix}.gguf", noise=noise)
    return folder


def real_model(name: str) -> Path:
    """A real model's file in SPECLI_MODELS or ~/models; skips the test where it is not there."""
    path = Path(os.environ.get("SPECLI_MODELS", Path.home() / "models")) / name
    if not path.exists():
        pytest.skip(f"needs {name} in SPECLI_MODELS or ~/models")
    return path


@pytest.fixture(scope="session")
def qwen_target() -> Path:
    return real_model("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")


@pytest.fixture(scope="session")
def qwen_draft() -> Path:
    return real_model("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")


@pytest.fixture(scope="session")
def smollm() -> Path:
    return real_model("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def gemma() -> Path:
    return real_model("gemma-3-270m-q4_k_m.gguf")


@pytest.fixture(scope="session")
def server() -> Path:
    """The llama-server of the same llama.cpp; skips the test where none was built."""
    path = Path(os.environ.get("PEER") or Path(__file__).parents[1] / "build" / "peer" / "bin" / "llama-server")
    if not path.is_file():
        pytest.skip("PEER names no llama-server, and tools/build_peer.py has built none")
    return path
