"""models.toml: models by name, where their files are, and which drafts suit them."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs

from specli.errors import SpecliError
from specli.models.file_names import model_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NOT_RUN = {("gemma4", "mtp")}  # its assistants read the target's own cache
DRAFTER_KINDS = ("model", "mtp", "eagle3", "dflash", "dspark")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """A model of the registry. What is not known is None, or empty.

    Attributes:
        name: What it is called on the command line.
        family: Models that share a vocabulary.
        repository: On the Hub, of its GGUF files.
        file: The default file there; of a split model, its first part.
        quantizations: Those offered there.
        bytes: Size of the default file.
        sha256: Of the default file.
        licence: Its licence.
        architecture: llama.cpp's name of it.
        drafter: As what it can draft: one of DRAFTER_KINDS.
        drafts: Names of entries that can draft for it, the best first.
        why: Why these suit.
    """

    name: str
    family: str
    repository: str
    file: str | None = None
    quantizations: tuple[str, ...] = ()
    bytes: int | None = None
    sha256: str | None = None
    licence: str | None = None
    architecture: str | None = None
    drafter: str | None = None
    drafts: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Measured:
    """A published speed-up of a pair.

    Attributes:
        target: Name of the target's entry.
        draft: Name of the draft's.
        gain: In the source's words, such as '1.6 to 2.5×'.
        hardware: On which, and with what settings.
        source: Where it is published.
    """

    target: str
    draft: str
    gain: str
    hardware: str
    source: str


@dataclass(frozen=True)
class Registry:
    """All known models.

    Attributes:
        entries: By name.
        measured: Published speed-ups.
    """

    entries: Mapping[str, Entry]
    measured: Sequence[Measured] = field(default_factory=tuple)

    def drafts_for(self, name: str) -> list[Entry]:
        """What can draft for a model here, the best first."""
        target = self.entries[name]
        drafts = (self.entries[draft] for draft in target.drafts)
        return [draft for draft in drafts if (target.architecture, draft.drafter) not in _NOT_RUN]

    def published(self, target: str, draft: str) -> list[Measured]:
        """Published speed-ups of a pair, by the names of their files."""
        return [one for one in self.measured if self._is_of(target, one.target) and self._is_of(draft, one.draft)]

    def _is_of(self, file: str, name: str) -> bool:
        entry = self.entries.get(name)
        return entry is not None and entry.file is not None and model_of(entry.file) == model_of(file)


def own_models_file() -> Path:
    """Where a user's own models.toml is looked for."""
    return platformdirs.user_config_path("specli") / "models.toml"


def load_registry(own: Path | None = None) -> Registry:
    """Read the models that come with specli, and a user's own, which add to them or override them.

    Args:
        own: The user's file; None: the one in the configuration folder, if it is there.

    Raises:
        SpecliError: A file that cannot be read, or is none; naming file and line, or entry and key.
    """
    documents = [(path, _parse(path)) for path in (_packaged(), *_own(own))]
    entries: dict[str, Entry] = {}
    measured: list[Measured] = []
    for path, document in documents:
        if unknown := set(document) - {"models", "measured"}:
            raise SpecliError(f"{path}: unknown table {', '.join(sorted(unknown))}", "There are [models.NAME].")
        for name, values in _table(path, "models", document.get("models", {})).items():
            entries[name] = _entry(path, name, values)
        measured += [_measured(path, values) for values in _list(path, "measured", document.get("measured", []))]
    for entry in entries.values():
        for draft in entry.drafts:
            if draft not in entries:
                raise SpecliError(f"{documents[-1][0]}: [models.{entry.name}] drafts: there is no model {draft!r}")
    return Registry(entries, tuple(measured))


def _packaged() -> Path:
    """The file beside this module, where the package was built; in a checkout the one at its top."""
    beside = Path(__file__).with_name("models.toml")
    return beside if beside.is_file() else Path(__file__).parents[2] / "models.toml"


def _own(given: Path | None) -> list[Path]:
    if given is not None:
        return [given]
    own = own_models_file()
    return [own] if own.is_file() else []


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            document: dict[str, Any] = tomllib.load(file)
            return document
    except OSError as error:
        raise SpecliError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of a number's length
        raise SpecliError(f"{path}: not a TOML file: {error}") from error


def _table(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SpecliError(f"{path}: {name} is not a table")
    return value


def _list(path: Path, name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise SpecliError(f"{path}: {name} is not a list of tables")
    return value


def _entry(path: Path, name: str, values: Any) -> Entry:
    where = f"{path}: [models.{name}]"
    if not _NAME.fullmatch(name):
        raise SpecliError(f"{where}: a name is made of a-z, 0-9, dots, dashes and underscores")
    checked = _checked(where, _table(path, f"models.{name}", values), Entry)
    entry = Entry(name=name, **checked)
    if not _REPOSITORY.fullmatch(entry.repository):
        raise SpecliError(f"{where} repository: {entry.repository!r} is not USER/REPOSITORY")
    if entry.file is not None and not is_safe_path(entry.file):
        raise SpecliError(f"{where} file: {entry.file!r} is not the name of a GGUF file in a repository")
    if entry.sha256 is not None and not _SHA256.fullmatch(entry.sha256):
        raise SpecliError(f"{where} sha256: {entry.sha256!r} is not 64 hexadecimal digits")
    if entry.drafter is not None and entry.drafter not in DRAFTER_KINDS:
        raise SpecliError(f"{where} drafter: {entry.drafter!r} is not one of {', '.join(DRAFTER_KINDS)}")
    return entry


def _measured(path: Path, values: Any) -> Measured:
    return Measured(**_checked(f"{path}: [[measured]]", _table(path, "measured", values), Measured))


def _checked(where: str, values: Mapping[str, Any], kind: type[Entry] | type[Measured]) -> dict[str, Any]:
    """The values of a table, every key known and every value of its type."""
    wanted = {one.name: str(one.type) for one in fields(kind) if one.name != "name"}
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in wanted:
            raise SpecliError(f"{where}: unknown key {key!r}", f"There are {', '.join(wanted)}.")
        if "tuple" in wanted[key]:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise SpecliError(f"{where} {key}: {value!r} is not a list of texts")
            checked[key] = tuple(value)
        elif not isinstance(value, int if "int" in wanted[key] else str) or isinstance(value, bool):
            raise SpecliError(f"{where} {key}: {value!r} is not a {'number' if 'int' in wanted[key] else 'text'}")
        else:
            checked[key] = value
    required = [one.name for one in fields(kind) if one.default is MISSING and one.name != "name"]
    if missing := [key for key in required if key not in checked]:
        raise SpecliError(f"{where}: {', '.join(missing)} missing")
    return checked


def is_safe_path(name: str) -> bool:
    """Whether a name is that of a GGUF file inside a repository, whatever it is joined to."""
    parts = name.split("/")
    return (
        name.endswith(".gguf")
        and all(part not in ("", ".", "..") for part in parts)
        and not any(character in name for character in "\\\0:")
    )
