"""The file of a sweep: its settings, then a line a measurement, each written as soon as there is one."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from specli.bench.measurement import Measurement, of_document, to_document
from specli.errors import SpecliError, UsageError

_SWEEP, _MEASUREMENT = "specli.sweep/1", "specli.measurement/1"


class ResultsFile:
    """A results file being written; what is in it is whole lines, whenever the process dies.

    Attributes:
        path: Where it is.
        measurements: What it held when it was opened.
    """

    def __init__(self, path: Path, file: IO[str], measurements: list[Measurement]) -> None:
        self.path = path
        self.measurements = measurements
        self._file = file

    def append(self, measurement: Measurement) -> None:
        """Add a measurement.

        Raises:
            SpecliError: It cannot be written.
        """
        _write(self._file, {"schema": _MEASUREMENT, **to_document(measurement)}, self.path)

    def close(self) -> None:
        """End writing."""
        self._file.close()


def check_new(path: Path) -> None:
    """Refuse a file that is there already, or that cannot be.

    Raises:
        UsageError: Naming it.
    """
    if path.exists():
        raise UsageError(f"--out {path}: is there already", "Continue it with --resume, or name another.")
    if not path.parent.is_dir():
        raise UsageError(f"--out {path}: there is no folder {path.parent}")


def create(path: Path, settings: Mapping[str, Any]) -> ResultsFile:
    """Begin a file.

    Raises:
        UsageError: It is there already.
        SpecliError: It cannot be written.
    """
    check_new(path)
    try:
        file = path.open("x", encoding="utf-8")
    except OSError as error:
        raise SpecliError(f"--out {path}: cannot be written: {error.strerror}") from error
    _write(file, {"schema": _SWEEP, "settings": settings}, path)
    return ResultsFile(path, file, [])


def resume(path: Path, settings: Mapping[str, Any]) -> ResultsFile:
    """Continue a file, without the line that was being written when it broke off; begin it if it is not there.

    Raises:
        UsageError: Its settings are others; they are named.
        SpecliError: It is no results file, or cannot be written.
    """
    if not path.exists() or path.stat().st_size == 0:
        path.unlink(missing_ok=True)
        return create(path, settings)
    _cut_torn_line(path)
    if path.stat().st_size == 0:
        path.unlink()
        return create(path, settings)
    there, measurements = read(path)
    settings = json.loads(json.dumps(settings))  # as they come back from a file
    different = [name for name in {**there, **settings} if there.get(name) != settings.get(name)]
    if different:
        changes = ", ".join(f"{name} was {there.get(name)!r}, is {settings.get(name)!r}" for name in different)
        raise UsageError(
            f"--resume {path}: other settings: {changes}", "Repeat the command as it was, or leave --resume."
        )
    try:
        return ResultsFile(path, path.open("a", encoding="utf-8"), measurements)
    except OSError as error:
        raise SpecliError(f"--out {path}: cannot be written: {error.strerror}") from error


def read(path: Path) -> tuple[dict[str, Any], list[Measurement]]:
    """Read a results file: its settings and its measurements, a torn last line left out.

    Raises:
        SpecliError: It cannot be read, or is none.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise SpecliError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecliError(f"{path}: not a results file: not text") from error
    lines = text.split("\n")[:-1]  # what follows the last line end is torn
    settings: dict[str, Any] | None = None
    measurements = []
    for number, line in enumerate(lines, start=1):
        try:
            document = json.loads(line)
            schema = document.pop("schema")
            if number == 1 and schema == _SWEEP:
                settings = document["settings"]
            elif number > 1 and schema == _MEASUREMENT:
                measurements.append(of_document(document))
            else:
                raise ValueError(f"schema {schema}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SpecliError(f"{path}, line {number}: not a line of a sweep: {error}") from error
    if settings is None:
        raise SpecliError(f"{path}: not a results file: it is empty")
    return settings, measurements


def _cut_torn_line(path: Path) -> None:
    with path.open("rb+") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)


def _write(file: IO[str], document: Mapping[str, Any], path: Path) -> None:
    try:
        file.write(json.dumps(document, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise SpecliError(
            f"--out {path}: cannot be written: {error.strerror}", "What is in it so far is whole."
        ) from error
