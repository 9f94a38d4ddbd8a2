"""Files that are there whole or not at all."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a place to write to; what is there becomes the file, unless an exception ends it before.

    A disk that is full or a process that is killed leaves the file of before. Devices and pipes, which cannot be
    replaced, are written to themselves.

    Raises:
        OSError: It cannot be written.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        error.filename = str(path)  # which a failing write does not name
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text as a whole file, in UTF-8.

    Raises:
        OSError: It cannot be written.
    """
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
