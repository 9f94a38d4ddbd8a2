"""Files that are not a model to generate text with: each is named, with what to do about it."""

import functools
import struct
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_gguf import write_model

from specli.errors import SpecliError
from specli.llama.errors import LoadError
from specli.llama.model import Model
from specli.models.gguf_header import read_header
from specli.models.model_file import check_model_file

U32, STRING, ARRAY, U64 = 4, 8, 9, 10


def refused(path: Path, *words: str) -> SpecliError:
    """Loading the file must fail with these words, the file's name and a hint."""
    with pytest.raises(SpecliError) as caught:
        Model(path)
    error = caught.value
    assert str(path) in error.message
    assert error.hint, error.message
    for word in words:
        assert word in str(error)
    return error


def write_header(path: Path, architecture: str, n_tensors: int = 1, **values: str | bool | int) -> Path:
    """A well-formed file with these values of general.* and ARCHITECTURE.*, and next to no weights."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in values.items():
        key = name.replace("__", ".")
        add = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}[type(value)]
        add(key, value)
    for i in range(n_tensors):
        writer.add_tensor(f"tensor.{i}", np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def header(*values: tuple[str, int, bytes], version: int = 3, n_tensors: int = 1, n_values: int | None = None) -> bytes:
    """A header byte by byte: (key, type, value)."""
    data = b"GGUF" + struct.pack("<IQQ", version, n_tensors, len(values) if n_values is None else n_values)
    for key, kind, value in values:
        data += struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value
    return data


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A tiny model in two parts."""
    folder = tmp_path_factory.mktemp("split")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "GGUFWriter", functools.partial(gguf.GGUFWriter, split_max_tensors=11))
        write_model(folder / "tiny.gguf")
    parts = sorted(folder.iterdir())
    assert [part.name for part in parts] == ["tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"]
    return parts


def copy(parts: list[Path], folder: Path) -> list[Path]:
    copies = [folder / part.name for part in parts]
    for part, copied in zip(parts, copies, strict=True):
        copied.write_bytes(part.read_bytes())
    return copies


def test_missing_file(tiny, tmp_path):
    refused(tmp_path / "absent.gguf", "no such file", "no .gguf file")
    refused(tiny / "absent.gguf", "no such file", "draft.gguf")
    refused(tiny / "no-folder" / "absent.gguf", "no such file")
    refused(tiny / "target.gguf" / "absent.gguf", "no such file")


def test_a_name_no_file_can_have(tmp_path):
    refused(tmp_path / ("long" * 200), "cannot be read")
    refused(tmp_path / "nul\0.gguf", "cannot be read")


def test_folder(tiny, tmp_path):
    refused(tmp_path, "a folder", "no .gguf file")
    refused(tiny, "a folder", "draft.gguf")


def test_device_file():
    refused(Path("/dev/null"), "not a regular file")


def test_empty_file(tmp_path):
    path = tmp_path / "empty.gguf"
    path.touch()
    refused(path, "empty", "fetch the file again")


def test_wrong_magic(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\3\4" + bytes(1000))
    refused(path, "not a GGUF file", "PK", "convert_hf_to_gguf.py")


@pytest.mark.parametrize("version", [0, 1, 4])
def test_unknown_version(tmp_path, version):
    path = tmp_path / "model.gguf"
    path.write_bytes(header(version=version))
    refused(path, f"GGUF version {version}", "2 to 3")


@pytest.mark.parametrize("n_bytes", [1, 5, 9, 20, 30, 60, 1000, 3000])
def test_truncated_header(tiny, tmp_path, n_bytes):
    path = tmp_path / "model.gguf"
    path.write_bytes((tiny / "target.gguf").read_bytes()[:n_bytes])
    refused(path)


def test_truncated_in_the_last_value(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(header(("name", STRING, struct.pack("<Q", 5) + b"llam")))
    refused(path, "cut short")
    path.write_bytes(header(("ids", ARRAY, struct.pack("<IQ", U32, 3) + bytes(11))))
    refused(path, "cut short")


def test_truncated_weights(tiny, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes((tiny / "target.gguf").read_bytes()[:-1000])
    error = refused(path, "corrupted or incomplete", "fetched again")
    assert isinstance(error, LoadError)


def test_text_that_is_not_utf8_is_no_damage(tiny, tmp_path):
    path = tmp_path / "model.gguf"
    original = (tiny / "target.gguf").read_bytes()
    assert b"<think>" in original
    path.write_bytes(original.replace(b"<think>", b"<th\xffnk>"))
    Model(path).close()


def test_vocabulary_only(tmp_path):
    refused(write_header(tmp_path / "vocab.gguf", "llama", n_tensors=0), "vocabulary only", "whole model")


def test_embedding_model(tmp_path):
    refused(write_header(tmp_path / "bert.gguf", "bert", bert__pooling_type=1), "embedding model (bert)")
    path = write_header(tmp_path / "llm2vec.gguf", "llama", llama__attention__causal=False, llama__pooling_type=1)
    refused(path, "embedding model (llama)")
    refused(write_header(tmp_path / "gemma.gguf", "gemma-embedding"), "embedding model")


@pytest.mark.parametrize("kind", ["adapter", "mmproj", "imatrix"])
def test_other_kinds_of_gguf_file(tmp_path, kind):
    error = refused(write_header(tmp_path / "file.gguf", "llama", general__type=kind), repr(kind), "Name the model")
    assert ("--lora" in str(error)) == (kind == "adapter")


def test_unknown_architecture(tmp_path):
    error = refused(write_header(tmp_path / "file.gguf", "perceptron"), "perceptron", "newer llama.cpp")
    assert isinstance(error, LoadError)


def test_split_model_loads_from_its_first_part(split, tiny):
    whole, model = Model(tiny / "target.gguf"), Model(split[0])
    try:
        assert model.n_parameters == whole.n_parameters
        assert model.n_bytes == whole.n_bytes
    finally:
        model.close()
        whole.close()


def test_missing_part(split, tmp_path):
    first, second = copy(split, tmp_path)
    second.unlink()
    refused(first, second.name, "missing", "same folder")


def test_second_part_named(split):
    refused(split[1], "part 2 of 2", str(split[0]))


@pytest.mark.parametrize("name", ["tiny.gguf", "tiny-00001-of-00003.gguf", "tiny-00002-of-00002.gguf"])
def test_renamed_part(split, tmp_path, name):
    first, second = copy(split, tmp_path)
    second.unlink()
    refused(first.rename(tmp_path / name), "under another name", "-00001-of-00002.gguf")


def test_truncated_second_part(split, tmp_path):
    first, second = copy(split, tmp_path)
    second.write_bytes(second.read_bytes()[:-1000])
    assert isinstance(refused(first, "corrupted or incomplete"), LoadError)


HUGE = struct.pack("<Q", 2**64 - 1)
HALF = struct.pack("<Q", 2**62)
HOSTILE = {
    "values without end": header(n_values=2**64 - 1),
    "a key without end": b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + HUGE,
    "a string without end": header(("a", STRING, HALF)),
    "an array without end": header(("a", ARRAY, struct.pack("<I", U32) + HUGE)),
    "strings without end": header(("a", ARRAY, struct.pack("<I", STRING) + HALF)),
    "arrays of arrays": header(("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 100_000)),
    "no such type": header(("a", 99, HUGE)),
    "parts without end": header(("split.count", U64, HUGE)),
    "parts in words": header(("split.count", STRING, struct.pack("<Q", 3) + b"two"), ("split.no", U64, HUGE)),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_headers(tmp_path, data):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    check_quickly(path)
    refused(path)


def check_quickly(path: Path) -> None:
    """check_model_file passes or raises SpecliError, without memory out of proportion to the file."""
    tracemalloc.start()
    try:
        check_model_file(path)
    except SpecliError as error:
        assert str(path) in str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 200_000 + 10 * path.stat().st_size


@pytest.mark.parametrize("source", ["whole", "part"])
@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files(tiny, split, tmp_path, source, data):
    """Whatever is cut off or changed, the answer is a SpecliError or a header."""
    original = {"whole": tiny / "target.gguf", "part": split[0]}[source]
    beginning = original.read_bytes()[:20_000]
    damaged = bytearray(beginning[: data.draw(st.integers(0, len(beginning)) | st.just(len(beginning)))])
    places = st.integers(0, 2000) | st.integers(0, len(beginning) - 1)
    for place in data.draw(st.lists(places, max_size=8)):
        if place < len(damaged):
            damaged[place] = data.draw(st.integers(0, 255))
    path = tmp_path / original.name
    path.write_bytes(damaged)
    check_quickly(path)


def test_header_of_a_whole_file(tiny):
    """What the header says is what gguf's own reader says."""
    path = tiny / "target.gguf"
    mine, theirs = read_header(path), gguf.GGUFReader(path)
    scalars = {
        name: field.contents()
        for name, field in theirs.fields.items()
        if not name.startswith("GGUF.") and field.types[0] != gguf.GGUFValueType.ARRAY
    }
    assert mine.values == scalars
    assert mine.n_tensors == len(theirs.tensors)
    assert mine.version == 3
