"""What a model is, by its file alone: architecture, size, quantisation, tokenizer, attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from specli.errors import SpecliError
from specli.models.ggml_types import TYPES
from specli.models.gguf_header import GgufHeader, Tensor, read_header
from specli.models.model_file import check_regular, part_paths


@dataclass(frozen=True)
class Quantization:
    """The tensors of a model that are stored in one way."""

    name: str
    n_tensors: int
    n_values: int
    n_bytes: int | None


@dataclass(frozen=True)
class Description:
    """A model's file, or files where it is split.

    Attributes:
        paths: The files, the first part first.
        header: Of the first, with its arrays.
        tensors: Of all.
        file_bytes: Their sizes together.
    """

    paths: Sequence[Path]
    header: GgufHeader
    tensors: Sequence[Tensor]
    file_bytes: int

    @property
    def architecture(self) -> str:
        """llama.cpp's name of it."""
        return str(self.header.values.get("general.architecture", "unknown"))

    def number(self, key: str) -> int | None:
        """A whole number of the architecture's own metadata; the largest where each layer has one."""
        value = self.header.values.get(f"{self.architecture}.{key}")
        if value is None:
            several = self.header.arrays.get(f"{self.architecture}.{key}")
            value = max((v for v in several if isinstance(v, int)), default=None) if several else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, key: str, *, default: bool) -> bool:
        """A yes or no of the architecture's own metadata."""
        value = self.header.values.get(f"{self.architecture}.{key}")
        return value if isinstance(value, bool) else default

    def numbers(self, key: str) -> list[int]:
        """An array of whole numbers of the architecture's own metadata; empty where there is none."""
        return [int(n) for n in self.header.arrays.get(f"{self.architecture}.{key}", ()) if isinstance(n, int)]

    def per_layer(self, key: str, n_layers: int) -> list[int] | None:
        """A whole number of each layer, given once for all or in an array; None: it is not there, or not that many."""
        if several := self.header.arrays.get(f"{self.architecture}.{key}"):
            numbers = [int(value) for value in several if isinstance(value, int)]
            return numbers[:n_layers] if len(numbers) >= n_layers else None
        value = self.number(key)
        return None if value is None else [value] * n_layers

    def text(self, key: str) -> str | None:
        """A text of the metadata, by its full key."""
        value = self.header.values.get(key)
        return value if isinstance(value, str) and value else None

    @property
    def n_layers(self) -> int | None:
        """Layers of the model's own, heads for further tokens left out."""
        n_all = self.number("block_count")
        return None if n_all is None else n_all - self.n_mtp_layers

    @property
    def n_mtp_layers(self) -> int:
        """Layers that predict further tokens (MTP, NextN)."""
        return self.number("nextn_predict_layers") or 0

    @property
    def n_parameters(self) -> int:
        """Numbers in all tensors."""
        return sum(tensor.n_values for tensor in self.tensors)

    @property
    def n_weight_bytes(self) -> int | None:
        """What all tensors take; None where one is stored in a way this version does not know."""
        sizes = [tensor.n_bytes for tensor in self.tensors]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @cached_property
    def quantizations(self) -> list[Quantization]:
        """How the tensors are stored, what holds most numbers first."""
        found: dict[int, list[Tensor]] = {}
        for tensor in self.tensors:
            found.setdefault(tensor.type, []).append(tensor)
        mix = [
            Quantization(
                TYPES[kind].name if kind in TYPES else f"type {kind}",
                len(tensors),
                sum(tensor.n_values for tensor in tensors),
                sum(tensor.n_bytes or 0 for tensor in tensors) if kind in TYPES else None,
            )
            for kind, tensors in found.items()
        ]
        return sorted(mix, key=lambda one: -one.n_values)

    @property
    def n_vocab(self) -> int:
        """Tokens of the vocabulary."""
        return len(self.header.arrays.get("tokenizer.ggml.tokens", ()))


def describe(path: Path) -> Description:
    """Read what a model's file says; of a split model, all parts.

    Raises:
        SpecliError: A file that is none, or damaged, or a missing part.
    """
    check_regular(path)
    header = read_header(path, whole=True)
    paths = part_paths(path, header)
    rest = [read_header(part, whole=True) for part in paths[1:]]
    tensors = [tensor for one in (header, *rest) for tensor in one.tensors]
    try:
        return Description(paths, header, tensors, sum(part.stat().st_size for part in paths))
    except OSError as error:
        raise SpecliError(f"{path}: cannot be read: {error.strerror}") from error
