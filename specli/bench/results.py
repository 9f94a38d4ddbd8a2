"""The file of a sweep: its settings, then a line a measurement, each written as soon as there is one."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from specli.bench.measurement import Measurement, of_document, point_of, to_document
from specli.errors import SpecliError, UsageError

_SWEEP, _MEASUREMENT = "specli.sweep/1", "specli.measurement/1"


class ResultsFile:
    """A results file being written: lines, of which only the last can be torn when the process dies.

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
        _write(self._file, _line({"schema": _MEASUREMENT, **to_document(measurement)}), self.path)

    def close(self) -> None:
        """End writing."""
        self._file.close()


def check_new(path: Path) -> None:
    """Refuse a file that is there already, or that cannot be.

    Raises:
        UsageError: Naming it.
    """
    if path.is_dir():
        raise UsageError(f"--out {path}: a folder, not a file")
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
    _write(file, _header(settings), path)
    return ResultsFile(path, file, [])


def resume(path: Path, settings: Mapping[str, Any]) -> ResultsFile:
    """Continue a file, without the line that was being written when it broke off; begin it if it is not there.

    Raises:
        UsageError: Its settings are others; they are named.
        SpecliError: It is no results file, or cannot be written.
    """
    measurements = check_resumable(path, settings)
    if measurements is None:
        path.unlink(missing_ok=True)
        return create(path, settings)
    try:
        _cut_torn_line(path)
        return ResultsFile(path, path.open("a", encoding="utf-8"), measurements)
    except OSError as error:
        raise SpecliError(f"--out {path}: cannot be written: {error.strerror}") from error


def check_resumable(path: Path, settings: Mapping[str, Any]) -> list[Measurement] | None:
    """Read what a file has of a sweep with these settings; None: it has to be begun.

    Raises:
        UsageError: Its settings are others; they are named.
        SpecliError: It is no results file.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"--out {path}: not a file")
        if not path.exists() or _header(settings).encode().startswith(path.read_bytes()):
            return None  # or broken off in its first line
    except OSError as error:
        raise SpecliError(f"--out {path}: {error.strerror}") from error
    there, measurements = read(path)
    settings = json.loads(json.dumps(settings, default=str))  # as they come back from a file
    different = [name for name in {**there, **settings} if there.get(name) != settings.get(name)]
    if different:
        changes = ", ".join(_change(name, there.get(name), settings.get(name)) for name in different)
        raise UsageError(f"--resume {path}: other settings: {changes}", "Repeat the command, or name another file.")
    return measurements


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
                _check_settings(settings)
            elif number > 1 and schema == _MEASUREMENT:
                measurements.append(of_document(document))
            else:
                raise ValueError(f"schema {schema}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SpecliError(f"{path}, line {number}: not a line of a sweep: {error}") from error
    if settings is None:
        raise SpecliError(f"{path}: not a results file: it has no line of settings")
    return settings, measurements


def _check_settings(settings: Any) -> None:
    """Refuse settings that a report could not be made of.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: Saying what is wrong.
    """
    if missing := {"target", "points", "draft_bytes", "words"} - set(settings):
        raise ValueError(f"settings without {', '.join(sorted(missing))}")
    Path(settings["target"])
    if not [point_of(point) for point in settings["points"]]:
        raise ValueError("no points")
    if not all(isinstance(size, int) for size in settings["draft_bytes"].values()):
        raise ValueError("draft_bytes are no sizes")
    for where in ("run", "server"):
        for part in ("target", "draft", "lookups"):
            if not all(isinstance(word, str) for word in settings["words"][where][part]):
                raise ValueError(f"words of {where} are no words")


def _change(name: str, before: Any, now: Any) -> str:
    """What differs, in few words."""
    if isinstance(before, list) and isinstance(now, list):
        missing, added = ([item for item in a if item not in b] for a, b in ((before, now), (now, before)))
        return f"{name} ({len(missing)} missing, {len(added)} new)"
    return f"{name} was {before!r}, is {now!r}"


def _cut_torn_line(path: Path) -> None:
    with path.open("rb+") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)


def _header(settings: Mapping[str, Any]) -> str:
    return _line({"schema": _SWEEP, "settings": settings})


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, default=str) + "\n"


def _write(file: IO[str], line: str, path: Path) -> None:
    try:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise SpecliError(f"--out {path}: cannot be written: {error.strerror}", "--resume continues it.") from error
