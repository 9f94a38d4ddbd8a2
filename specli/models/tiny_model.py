"""A tiny quantised model of random weights: enough for llama.cpp to compute what a real one makes it compute."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

_WIDTH, _FEED_FORWARD, _LAYERS, _HEADS, _CONTEXT = 256, 512, 2, 4, 256
_UINT32, _FLOAT32, _STRING, _ARRAY, _INT32 = 4, 6, 8, 9, 5
_F32, _Q8_0 = 0, 8
_BLOCK, _SCALE, _ALIGNMENT = 32, 0.002, 32
_NORMAL, _CONTROL = 1, 3  # kinds of tokens


def write_tiny_model(path: Path) -> None:
    """Write it: llama's architecture, Q8_0, a token a byte, 1.7 MB.

    Raises:
        OSError: It cannot be written.
    """
    tokens = [*_byte_characters(), "ab", "<eos>"]
    values = {
        "general.architecture": "llama",
        "llama.context_length": _CONTEXT,
        "llama.embedding_length": _WIDTH,
        "llama.block_count": _LAYERS,
        "llama.feed_forward_length": _FEED_FORWARD,
        "llama.attention.head_count": _HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [_NORMAL] * (len(tokens) - 1) + [_CONTROL],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
    }
    shapes = _shapes(len(tokens))
    header = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values))
    header += b"".join(_text(key) + _value(value) for key, value in values.items())
    rng = np.random.default_rng(0)
    data = b""
    for name, shape in shapes.items():
        kind, content = _tensor(shape, rng)
        header += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += content + bytes(-len(content) % _ALIGNMENT)
    path.write_bytes(header + bytes(-len(header) % _ALIGNMENT) + data)


def _shapes(n_vocab: int) -> dict[str, tuple[int, ...]]:
    """The tensors' shapes in ggml's order: inputs first."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (_WIDTH, n_vocab), "output_norm.weight": (_WIDTH,)}
    for layer in (f"blk.{i}." for i in range(_LAYERS)):
        shapes |= {f"{layer}{norm}.weight": (_WIDTH,) for norm in ("attn_norm", "ffn_norm")}
        shapes |= {f"{layer}attn_{part}.weight": (_WIDTH, _WIDTH) for part in ("q", "k", "v", "output")}
        shapes |= {f"{layer}ffn_{part}.weight": (_WIDTH, _FEED_FORWARD) for part in ("gate", "up")}
        shapes[f"{layer}ffn_down.weight"] = (_FEED_FORWARD, _WIDTH)
    return shapes


def _tensor(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, bytes]:
    """Norms of ones; matrices of random Q8_0 blocks, a half-precision scale and 32 numbers each."""
    if len(shape) == 1:
        return _F32, np.ones(shape, "<f4").tobytes()
    n_blocks = shape[0] * shape[1] // _BLOCK
    blocks = np.empty(n_blocks, [("scale", "<f2"), ("numbers", "i1", _BLOCK)])
    blocks["scale"] = _SCALE
    blocks["numbers"] = rng.integers(-127, 128, (n_blocks, _BLOCK))
    return _Q8_0, blocks.tobytes()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    if isinstance(value, int):
        return struct.pack("<II", _UINT32, value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))
    return struct.pack(f"<IIQ{len(value)}i", _ARRAY, _INT32, len(value), *value)


def _byte_characters() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes (Radford et al., 2019), by byte."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    rest = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(rest)) for byte in range(256)]
