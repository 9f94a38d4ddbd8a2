"""Text in UTF-8, from files and from standard input."""

from pathlib import Path

from specli.errors import SpecliError


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        SpecliError: It cannot be read, or is no text.
    """
    try:
        return decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise SpecliError(f"{path}: cannot be read: {error.strerror}") from error


def decoded(data: bytes, name: str) -> str:
    """Bytes as text.

    Raises:
        SpecliError: Naming where they came from.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecliError(f"{name}: not text in UTF-8 (byte {error.start})", "Convert it first, with iconv.") from error


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for what UTF-8 does not have: bytes that Python could not read, halves of characters."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
