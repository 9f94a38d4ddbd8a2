"""The vocabulary of a file, without its weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llama_cpp

from specli.llama import log
from specli.llama.errors import LoadError
from specli.llama.vocab import Vocab


@contextmanager
def open_vocab(path: Path) -> Iterator[Vocab]:
    """Load the vocabulary of a GGUF file; it can be used inside the block.

    Raises:
        LoadError: llama.cpp finds none there that it knows.
    """
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    with log.capture() as lines:
        handle = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not handle:
        raise LoadError(f"{path}: llama.cpp could not load its vocabulary: {log.failure(lines)}")
    try:
        yield Vocab(handle)
    finally:
        llama_cpp.llama_model_free(handle)
