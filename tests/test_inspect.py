"""What a model's file says: ``specli inspect``, the header reader on damaged files, and sizes of contexts."""

import contextlib
import json
import random
import struct
import subprocess
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from terminals import environment, python
from test_model_files import header

from specli.errors import SpecliError
from specli.llama.context import Context
from specli.llama.model import Model
from specli.llama.options import ContextOptions
from specli.models.cache_size import cache_size
from specli.models.description import describe
from specli.models.ggml_types import TYPES
from specli.models.gguf_header import parse_header, read_header

FILE = Path("x.gguf")
PAIRS = ("target", "sliding", "hybrid")


def inspect(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = python("-m", "specli", "inspect", *arguments)
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)


# The header


@pytest.mark.parametrize("name", PAIRS)
def test_a_header_is_read_as_the_gguf_package_reads_it(tiny, name):
    mine, theirs = read_header(tiny / f"{name}.gguf", whole=True), gguf.GGUFReader(tiny / f"{name}.gguf")
    assert [(one.name, list(one.shape), one.type) for one in mine.tensors] == [
        (one.name, one.shape.tolist(), int(one.tensor_type)) for one in theirs.tensors
    ]
    assert [one.n_bytes for one in mine.tensors] == [one.n_bytes for one in theirs.tensors]
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            assert {**mine.values, **mine.arrays}[key] == field.contents(), key


def test_types_are_ggml_s():
    known = {int(number): (number.name, *size) for number, size in gguf.GGML_QUANT_SIZES.items()}
    assert {number: tuple(kind) for number, kind in TYPES.items()} == known


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small header with everything in it, and its weights."""
    path = tmp_path_factory.mktemp("small") / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_array("numbers", [1, 2, 3])
    writer.add_token_list(["a", "b"])
    writer.add_tensor("one", np.zeros((2, 4), np.float32))
    writer.add_tensor("two", np.zeros(8, np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_truncated_at_every_byte_it_is_damaged(small):
    parse_header(FILE, small, whole=True)
    for n in range(len(small) - 32):  # the last tensor's padding is not missed
        with pytest.raises(SpecliError, match=r"x\.gguf"):
            parse_header(FILE, small[:n], whole=True)


STRING, ARRAY, U32 = 8, 9, 4
ABSURD = {
    "values": header(n_values=1 << 60),
    "tensors": header(n_tensors=1 << 60, n_values=0),
    "array of texts": header(("a", ARRAY, struct.pack("<IQ", STRING, 1 << 60))),
    "array of numbers": header(("a", ARRAY, struct.pack("<IQ", U32, 1 << 62))),
    "array of arrays": header(("a", ARRAY, struct.pack("<IQ", ARRAY, 1))),
    "text": header(("a", STRING, struct.pack("<Q", 1 << 62))),
    "type": header(("a", 77, b"")),
    "key twice": header(("a", U32, bytes(4)), ("a", U32, bytes(4))),
    "alignment": header(("general.alignment", U32, struct.pack("<I", 3)), n_tensors=0),
}


@pytest.mark.parametrize("data", ABSURD.values(), ids=ABSURD)
def test_absurd_counts_are_refused_without_memory(data):
    tracemalloc.start()
    try:
        with pytest.raises(SpecliError):
            parse_header(FILE, data, whole=True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def tensors(*placed: tuple[str, int, int]) -> bytes:
    """A header of F32 tensors: (name, numbers, offset), followed by 64 bytes."""
    data = header(n_tensors=len(placed), n_values=0)
    for name, n, offset in placed:
        data += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<IQIQ", 1, n, 0, offset)
    return data + bytes(-len(data) % 32) + bytes(64)


def test_tensors_over_each_other_or_beyond_the_end_are_refused():
    parse_header(FILE, tensors(("a", 8, 0), ("b", 8, 32)), whole=True)
    with pytest.raises(SpecliError, match="lie over each other"):
        parse_header(FILE, tensors(("a", 8, 0), ("b", 8, 16)), whole=True)
    with pytest.raises(SpecliError, match="beyond the end"):
        parse_header(FILE, tensors(("a", 8, 0), ("b", 9, 32)), whole=True)
    with pytest.raises(SpecliError, match="beyond the end"):
        parse_header(FILE, tensors(("a", 1 << 62, 0)), whole=True)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), n=st.integers(1, 8))
def test_any_change_is_read_or_refused(small, seed, n):
    rng = random.Random(seed)
    data = bytearray(small)
    for _ in range(n):
        data[rng.randrange(len(data))] = rng.randrange(256)
    with contextlib.suppress(SpecliError):
        parse_header(FILE, bytes(data), whole=True)


# Sizes


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("n_ctx, n_ubatch", [(256, 512), (512, 64), (1024, 16)])
@pytest.mark.parametrize("kinds", [("f16", "f16"), ("f32", "f16")])
def test_a_context_takes_what_llama_cpp_allocates(tiny, name, n_ctx, n_ubatch, kinds):
    path = tiny / f"{name}.gguf"
    model = Model(path)
    options = ContextOptions(
        ctx_size=n_ctx, batch_size=n_ubatch, ubatch_size=n_ubatch, cache_type_k=kinds[0], cache_type_v=kinds[1]
    )
    context = Context(model, options)
    said = cache_size(describe(path), n_ctx, *kinds, n_ubatch)
    assert said and said.exact
    assert abs(said.total - context.kv_bytes) <= 2 * 5243  # its log rounds each to hundredths of a MiB
    context.close()
    model.close()


@pytest.mark.parametrize("kinds", [("f16", "f16"), ("q8_0", "q8_0"), ("q8_0", "q4_0")])
@pytest.mark.parametrize("fixture", ["qwen_target", "qwen_draft", "smollm", "gemma"])
def test_so_do_contexts_of_real_models(request, fixture, kinds):
    path = request.getfixturevalue(fixture)
    model = Model(path)
    for n_ctx in (512, 2048, 8192):
        options = ContextOptions(ctx_size=n_ctx, cache_type_k=kinds[0], cache_type_v=kinds[1], flash_attn="on")
        context = Context(model, options)
        said = cache_size(describe(path), n_ctx, *kinds)
        assert said and abs(said.total - context.kv_bytes) <= 2 * 5243
        context.close()
    assert describe(path).n_parameters == model.n_parameters
    assert describe(path).n_weight_bytes == model.n_bytes
    model.close()


# The command


def test_a_file_and_its_draft_are_described(tiny):
    result = inspect(tiny / "target.gguf", "--with", tiny / "draft.gguf")
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    for words in ("architecture   llama", "288 tokens", "The vocabularies match", "weights + KV cache", "RAM"):
        assert words in result.stdout, words
    document = json.loads(inspect(tiny / "target.gguf", "--with", tiny / "draft.gguf", "--format", "json").stdout)
    assert document["schema"] == "specli.model/1" and document["pair"]["vocabulary_difference"] is None
    assert document["pair"]["size_ratio"] == pytest.approx(1.0)
    assert {row["cache_type"] for row in document["memory"]} == {"f16", "q8_0", "q4_0"}


def test_other_vocabularies_are_named(tiny, smollm):
    result = inspect(tiny / "target.gguf", "--with", smollm)
    assert result.returncode == 0 and "They do not go together" in result.stdout


def test_what_cannot_be_inspected_is_worded(tiny, tmp_path):
    (tmp_path / "text.gguf").write_text("not a model")
    (tmp_path / "cut.gguf").write_bytes((tiny / "target.gguf").read_bytes()[:3000])
    for path, words in (
        (tmp_path / "missing.gguf", "no such file"),
        (tmp_path / "text.gguf", "not a GGUF file"),
        (tmp_path / "cut.gguf", "cut short or damaged"),
        (tmp_path, "a folder"),
    ):
        result = inspect(path)
        assert result.returncode == 1 and words in result.stderr and not result.stdout
        assert str(path) in result.stderr and "Traceback" not in result.stderr
