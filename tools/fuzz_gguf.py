"""Fuzz the reader of GGUF headers: any bytes are read or refused in words, in little time and memory.

It takes atheris (pip install atheris) and libFuzzer's options: fuzz_gguf.py -max_total_time=600 -rss_limit_mb=200
-timeout=10 [CORPUS_FOLDER].
"""

import contextlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports():
    from specli.errors import SpecliError
    from specli.models.gguf_header import parse_header


def one_input(data: bytes) -> None:
    """Read it, or refuse it in words."""
    with contextlib.suppress(SpecliError):
        parse_header(Path("x.gguf"), data, whole=True)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
