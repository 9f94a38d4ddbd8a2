"""The header of a GGUF file: what it says of itself, read without its weights, and never trusted."""

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path

from specli.errors import SpecliError
from specli.models.ggml_types import TYPES

_MAGIC = b"GGUF"
_NEWEST_VERSION = 3
_SCALARS = {
    number: struct.Struct(layout)
    for number, layout in {
        **{0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i"},
        **{6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"},
    }.items()
}
_STRING, _ARRAY = 8, 9
_COUNT, _KIND = struct.Struct("<Q"), struct.Struct("<I")
_MOST_DIMENSIONS = 4
_MOST_VALUES = 1 << 16
_DEFAULT_ALIGNMENT = 32

Scalar = str | int | float | bool

FETCH_AGAIN = "The download may have stopped early: fetch the file again."
CONVERT = "convert_hf_to_gguf.py, which comes with llama.cpp, makes a GGUF file of a Hugging Face model folder."


@dataclass(frozen=True)
class Tensor:
    """What a file says of one tensor.

    Attributes:
        name: Its name.
        shape: Its dimensions, ggml's order: the contiguous one first.
        type: ggml's number of how it is stored, see ``ggml_types``.
        offset: Where it begins, in bytes after the header.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int

    @property
    def n_values(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def n_bytes(self) -> int | None:
        """What they take; None for a type this version does not know."""
        kind = TYPES.get(self.type)
        return None if kind is None else self.n_values // kind.block * kind.bytes


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says about itself.

    Attributes:
        version: Of the format.
        n_tensors: Tensors in this file.
        values: Metadata but for arrays.
        arrays: Metadata that are arrays; empty unless asked for.
        tensors: The tensors; empty unless asked for.
    """

    version: int
    n_tensors: int
    values: dict[str, Scalar]
    arrays: dict[str, list[Scalar]]
    tensors: tuple[Tensor, ...]


class _Damaged(Exception):
    """The bytes are no GGUF header; says what is wrong."""


def read_header(path: Path, *, whole: bool = False) -> GgufHeader:
    """Read a GGUF file's header.

    Args:
        path: The file; of a split model, one part.
        whole: Read arrays and tensors too.

    Raises:
        SpecliError: Not a readable, whole GGUF header of a known version.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
            _check_magic(path, magic)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return parse_header(path, data, whole=whole)
    except OSError as error:
        raise SpecliError(f"{path}: cannot be read: {error.strerror}") from error


def parse_header(path: Path, data: bytes | mmap.mmap, *, whole: bool) -> GgufHeader:
    """Read the header in a file's bytes.

    Args:
        path: What errors name.
        data: The file from its first byte to its last.
        whole: Read arrays and tensors too.

    Raises:
        SpecliError: They are no such header.
    """
    with memoryview(data) as view:
        reader = _Reader(view)
        try:
            _check_magic(path, bytes(view[: len(_MAGIC)]))
            reader.at = len(_MAGIC)
            version = int(reader.number(_KIND))
            _check_version(path, version)
            return _read(reader, version, whole=whole)
        except (struct.error, _Damaged) as error:
            why = f": {error}" if isinstance(error, _Damaged) else ""
            raise SpecliError(f"{path}: the GGUF header is cut short or damaged{why}", FETCH_AGAIN) from error


def _check_magic(path: Path, magic: bytes) -> None:
    if magic != _MAGIC:
        raise SpecliError(
            f"{path}: not a GGUF file (it begins with {magic!r})", f"llama.cpp runs GGUF files; {CONVERT}"
        )


def _check_version(path: Path, version: int) -> None:
    if not 2 <= version <= _NEWEST_VERSION:
        raise SpecliError(
            f"{path}: GGUF version {version}; this version of llama.cpp reads versions 2 to {_NEWEST_VERSION}",
            f"Fetch a newer file or make one: {CONVERT}" if version < 2 else "A newer specli may read it.",
        )


class _Reader:
    """Takes values from the front of some bytes; ``struct.error`` where they end too soon."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    @property
    def n_left(self) -> int:
        return len(self._data) - self.at

    def number(self, layout: struct.Struct) -> int | float | bool:
        (value,) = layout.unpack_from(self._data, self.at)
        self.at += layout.size
        number: int | float | bool = value
        return number

    def count(self) -> int:
        return int(self.number(_COUNT))

    def skip(self, n_bytes: int) -> None:
        if n_bytes > self.n_left:
            raise struct.error("a length larger than the file")
        self.at += n_bytes

    def text(self) -> str:
        n_bytes = self.count()
        start = self.at
        self.skip(n_bytes)
        return bytes(self._data[start : self.at]).decode("utf-8", errors="replace")

    def skip_texts(self, n: int) -> None:
        if n * _COUNT.size > self.n_left:
            raise struct.error("more texts than the file has room for")
        for _ in range(n):
            self.skip(self.count())


def _read(reader: _Reader, version: int, *, whole: bool) -> GgufHeader:
    n_tensors, n_values = reader.count(), reader.count()
    if n_values > _MOST_VALUES:
        raise _Damaged(f"{n_values} metadata values")
    values: dict[str, Scalar] = {}
    arrays: dict[str, list[Scalar]] = {}
    for _ in range(n_values):
        key = reader.text()
        if key in values or key in arrays:
            raise _Damaged(f"{key!r} twice")
        if (kind := int(reader.number(_KIND))) == _ARRAY:
            array = _read_array(reader, wanted=whole)
            if whole:
                arrays[key] = array
        elif kind == _STRING:
            values[key] = reader.text()
        else:
            values[key] = reader.number(_scalar(kind))
    tensors = _read_tensors(reader, n_tensors, values) if whole else ()
    return GgufHeader(version, n_tensors, values, arrays, tensors)


def _scalar(kind: int) -> struct.Struct:
    try:
        return _SCALARS[kind]
    except KeyError:
        raise _Damaged(f"a value of type {kind}") from None


def _read_array(reader: _Reader, *, wanted: bool) -> list[Scalar]:
    kind, n = int(reader.number(_KIND)), reader.count()
    if kind == _STRING:
        if not wanted:
            reader.skip_texts(n)
            return []
        if n * _COUNT.size > reader.n_left:
            raise struct.error("more texts than the file has room for")
        return [reader.text() for _ in range(n)]
    layout = _scalar(kind)  # llama.cpp has no arrays of arrays either
    start = reader.at
    reader.skip(n * layout.size)
    if not wanted:
        return []
    reader.at = start
    return [reader.number(layout) for _ in range(n)]


def _read_tensors(reader: _Reader, n_tensors: int, values: dict[str, Scalar]) -> tuple[Tensor, ...]:
    if n_tensors * _LEAST_TENSOR_BYTES > reader.n_left:
        raise struct.error("more tensors than the file has room for")
    tensors = [_read_tensor(reader) for _ in range(n_tensors)]
    alignment = values.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise _Damaged(f"an alignment of {alignment!r}")
    n_data = reader.n_left - (-reader.at) % alignment
    _check_places(tensors, n_data)
    return tuple(tensors)


_LEAST_TENSOR_BYTES = _COUNT.size + _KIND.size + _KIND.size + _COUNT.size


def _read_tensor(reader: _Reader) -> Tensor:
    name = reader.text()
    n_dimensions = int(reader.number(_KIND))
    if n_dimensions > _MOST_DIMENSIONS:
        raise _Damaged(f"tensor {name!r} has {n_dimensions} dimensions")
    shape = tuple(reader.count() for _ in range(n_dimensions))
    return Tensor(name, shape, int(reader.number(_KIND)), reader.count())


def _check_places(tensors: list[Tensor], n_data: int) -> None:
    """Refuse tensors that lie over each other or beyond the end of the file."""
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.offset < end:
            raise _Damaged(f"tensors {before!r} and {tensor.name!r} lie over each other")
        end, before = tensor.offset + (tensor.n_bytes or 0), tensor.name
        if end > n_data:
            raise _Damaged(f"tensor {tensor.name!r} goes on beyond the end of the file")
