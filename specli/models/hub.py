"""Files of the Hugging Face Hub: which there are, and bringing them here, whole and checked."""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers, logging  # type: ignore[attr-defined]

from specli.errors import SpecliError, UsageError
from specli.models.file_names import is_projector, part_of, quantization_of
from specli.models.registry import is_safe_path

logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # its retries are no news, and it prints addresses

OnBytes = Callable[[str, int, int], None]
"""Called with a file's name, its bytes so far, and in all."""
OnWait = Callable[[str], None]
"""Called with what is waited for."""

_TransportError: Any = HfHubHTTPError.__bases__[0]  # of whichever HTTP library huggingface_hub brings
_PREFERRED = ("Q4_K_M", "Q8_0")  # what llama.cpp's -hf takes
_PIECE = 1 << 20
_BUSY = (500, 502, 503, 504)
_MOST_WAITS, _USUAL_WAIT, _LONGEST_WAIT = 5, 2.0, 60.0  # seconds


@dataclass(frozen=True)
class RemoteFile:
    """A file of the Hub.

    Attributes:
        repository: USER/REPOSITORY.
        name: Its path there.
        bytes: Its size, if the Hub tells.
        sha256: Of its content, if the Hub tells.
    """

    repository: str
    name: str
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class RemoteModel:
    """A model of the Hub: one file, or all parts of a split one.

    Attributes:
        files: The parts in order.
    """

    files: tuple[RemoteFile, ...]

    @property
    def name(self) -> str:
        """Of its first file."""
        return self.files[0].name

    @property
    def bytes(self) -> int | None:
        """Of all files, where the Hub tells."""
        sizes = [file.bytes for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def models_of(repository: str) -> list[RemoteModel]:
    """The GGUF models of a repository, split ones whole.

    Raises:
        SpecliError: It is not there, not open to this user, or the Hub cannot be reached.
    """
    with _worded(repository):
        found = _patiently(lambda: HfApi().model_info(repository, files_metadata=True)).siblings or []
    files = [
        RemoteFile(repository, one.rfilename, one.size, getattr(one.lfs, "sha256", None))
        for one in found
        if is_safe_path(one.rfilename) and not is_projector(one.rfilename)
    ]
    groups: dict[str, list[RemoteFile]] = {}
    for file in sorted(files, key=lambda file: file.name):
        part = part_of(file.name)
        groups.setdefault(part.stem if part else file.name, []).append(file)
    return [RemoteModel(tuple(parts)) for parts in groups.values()]


def choose(models: Sequence[RemoteModel], quantization: str | None) -> list[RemoteModel]:
    """Those of a quantisation; none wanted: the ones that llama.cpp would take, if there are such."""
    for name in (quantization,) if quantization else _PREFERRED:
        if found := [one for one in models if quantization_of(one.name) == quantization_of(f"{name}.gguf")]:
            return found
    return [] if quantization else list(models)


def cached_path(repository: str, name: str) -> Path | None:
    """Where a file is in the Hub's cache on this disk, or None."""
    try:
        found = try_to_load_from_cache(repository, name)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) and Path(found).is_file() else None


def fetch(files: Sequence[RemoteFile], folder: Path | None, on_bytes: OnBytes, on_wait: OnWait) -> list[Path]:
    """Bring files here, where they are not yet: into the Hub's cache, or as plain files into a folder.

    Each is downloaded beside its place and gets its name there when its size and SHA-256 are right. What arrived before
    an interruption is not downloaded again.

    Raises:
        SpecliError: The Hub says no, or cannot be reached; the disk is full; a file is not what it should be.
        UsageError: Another file of that name is in the folder.
    """
    place = _make_folder(folder or Path(constants.HF_HUB_CACHE))
    names = [Path(file.name).name for file in files]
    with _alone(place, f"{files[0].repository.replace('/', '--')}-{names[0]}", on_wait):
        there = {file: _there(file, folder) for file in files}
        missing = [file for file in files if there[file] is None]
        partial = {file: _partial_path(file, place, folder) for file in missing}
        _check_space(place, missing, partial)
        for file in missing:
            there[file] = _fetch_one(file, partial[file], folder, on_bytes)
    return [path for path in there.values() if path is not None]


@contextmanager
def _alone(place: Path, name: str, on_wait: OnWait) -> Iterator[None]:
    """Keep other processes from downloading the same."""
    folder = _make_folder(place / ".locks")
    lock = FileLock(folder / f"specli-{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait(f"{name}: another process is downloading it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
        if place != Path(constants.HF_HUB_CACHE):  # the Hub's cache has such a folder anyway
            shutil.rmtree(folder, ignore_errors=True)


def _there(file: RemoteFile, folder: Path | None) -> Path | None:
    if folder is None:
        return cached_path(file.repository, file.name)
    path = folder / Path(file.name).name
    if not path.exists():
        return None
    try:
        check(file, path)
    except SpecliError as error:
        raise UsageError(f"--to {folder}: another {path.name} is there", "Name another folder, or move it.") from error
    return path


def _make_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecliError(
            f"{path}: cannot be written: {error.strerror}", "Name another folder with HF_HOME or --to."
        ) from error
    return path


def _partial_path(file: RemoteFile, place: Path, folder: Path | None) -> Path:
    """What has arrived of a file, so far."""
    name = Path(file.name).name
    if folder is not None:
        return folder / f".{name}.specli-incomplete"
    key = file.sha256 or hashlib.sha256(file.name.encode()).hexdigest()
    return place / f"models--{file.repository.replace('/', '--')}" / "blobs" / f"{key}.specli-incomplete"


def _check_space(place: Path, files: Sequence[RemoteFile], partial: dict[RemoteFile, Path]) -> None:
    arrived = sum(path.stat().st_size for path in partial.values() if path.is_file())
    needed, free = sum(file.bytes or 0 for file in files) - arrived, shutil.disk_usage(place).free
    if needed > free:
        raise SpecliError(
            f"{place}: {needed / 1e6:,.0f} MB are to be downloaded, and {free / 1e6:,.0f} MB are free",
            "Make room, or name another folder with HF_HOME or --to.",
        )


def _fetch_one(file: RemoteFile, partial: Path, folder: Path | None, on_bytes: OnBytes) -> Path:
    _make_folder(partial.parent)
    bar = _progress(file.name, on_bytes)
    with _worded(file.repository, file.name):
        url = hf_hub_url(file.repository, file.name)
        metadata = _patiently(lambda: get_hf_file_metadata(url))
        if (
            file.bytes or 0
        ) > constants.MAX_HTTP_DOWNLOAD_SIZE and folder is None:  # the Hub gives these in pieces only
            path = Path(hf_hub_download(file.repository, file.name, tqdm_class=bar))
            check(file, path)
            return path
        _patiently(lambda: _download(url, metadata.size, partial, bar))
        try:
            check(file, partial)
        except SpecliError:
            partial.unlink()
            raise
        if folder is not None:
            return partial.replace(folder / Path(file.name).name)
        partial.replace(partial.parent / str(metadata.etag))
        return Path(hf_hub_download(file.repository, file.name))  # finds it there, and names it


def _download(url: str, size: int | None, partial: Path, bar: type[Any]) -> None:
    """Download what has not arrived of a file."""
    with partial.open("ab") as data:
        http_get(url, data, resume_size=data.tell(), headers=build_hf_headers(), expected_size=size, tqdm_class=bar)


def _patiently(ask: Callable[[], Any]) -> Any:
    """Ask the Hub, waiting where it is busy and says so."""
    for _ in range(_MOST_WAITS):
        try:
            return ask()
        except HfHubHTTPError as error:
            if error.response.status_code not in _BUSY:
                raise
            asked = error.response.headers.get("Retry-After", "")
            time.sleep(min(float(asked) if asked.isdecimal() else _USUAL_WAIT, _LONGEST_WAIT))
    return ask()


def check(file: RemoteFile, path: Path) -> None:
    """Check that what is on this disk is what the Hub has.

    Raises:
        SpecliError: It is not.
    """
    size = path.stat().st_size
    if file.bytes not in (None, size):
        raise SpecliError(f"{file.name}: {size} bytes arrived, {file.bytes} were to", "It was removed: pull it again.")
    if file.sha256 and (digest := sha256_of(path)) != file.sha256:
        raise SpecliError(
            f"{file.name}: what arrived is not what the Hub has (SHA-256 {digest[:12]}…, not {file.sha256[:12]}…)",
            "It was removed: pull it again.",
        )


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as data:
        while piece := data.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _progress(name: str, on_bytes: OnBytes) -> type[Any]:
    """What huggingface_hub takes for a progress bar."""

    class Bar:
        def __init__(self, *_arguments: Any, total: int | None = None, initial: int = 0, **_options: Any) -> None:
            self.total, self.n = total, initial
            self.update(0)

        def update(self, n: float | None = 1) -> None:
            self.n += int(n or 0)
            on_bytes(name, self.n, self.total or 0)

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __getattr__(self, _name: str) -> Callable[..., None]:
            return lambda *_arguments, **_options: None

    return Bar


@contextmanager
def _worded(repository: str, name: str | None = None) -> Iterator[None]:
    """Turn the Hub's errors into sentences; a token is in none of them."""
    what = f"{repository}/{name}" if name else repository
    try:
        yield
    except HFValidationError as error:
        raise SpecliError(f"{repository}: not the name of a repository on the Hub") from error
    except GatedRepoError as error:
        raise SpecliError(
            f"{repository}: its owner grants access one by one",
            f"Ask for it at {constants.ENDPOINT}/{repository}, then log in with hf auth login or set HF_TOKEN.",
        ) from error
    except RepositoryNotFoundError as error:
        raise SpecliError(
            f"{repository}: there is no such repository on the Hub, or it is private",
            "Check its spelling; for a private one log in with hf auth login, or set HF_TOKEN.",
        ) from error
    except OfflineModeIsEnabled as error:
        raise SpecliError(f"{what}: not on this disk, and HF_HUB_OFFLINE forbids to fetch it") from error
    except LocalEntryNotFoundError as error:
        raise SpecliError(f"{what}: the Hub cannot be reached ({_reason(error)})", _TRY_AGAIN) from error
    except EntryNotFoundError as error:
        raise SpecliError(f"{repository}: there is no file {name} in it") from error
    except HfHubHTTPError as error:
        raise SpecliError(f"{what}: the Hub answered {error.response.status_code}", _TRY_AGAIN) from error
    except _TransportError as error:
        raise SpecliError(f"{what}: the Hub cannot be reached ({_reason(error)})", _TRY_AGAIN) from error
    except OSError as error:
        raise SpecliError(f"{what}: {error.strerror or error}", _TRY_AGAIN) from error
    except (ValueError, RuntimeError) as error:  # no JSON, and what hf_xet raises
        raise SpecliError(f"{what}: what answered is not the Hub: {_reason(error)}", _TRY_AGAIN) from error


_TRY_AGAIN = "The same command continues where this one stopped."


def _reason(error: BaseException) -> str:
    """What lies at the bottom of it."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return (str(error).splitlines() or [type(error).__name__])[0]
