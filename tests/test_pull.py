"""``specli pull`` and ``specli models`` against a hub of our own, which misbehaves on request."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub_server import COMMIT, Hub, serve
from terminals import environment, in_pty, python, read_until

TARGET, DRAFT = "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
TARGET_FILE, DRAFT_FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
SIZE = 3_000_000

Specli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """Files of random bytes under the names of real ones."""
    folder = tmp_path / "served"
    folder.mkdir()

    def file(name: str, size: int = SIZE) -> Path:
        path = folder / name
        path.write_bytes(b"GGUF" + random.Random(name).randbytes(size - 4))
        return path

    files = {
        f"{TARGET}/{TARGET_FILE}": file("target"),
        f"{TARGET}/{TARGET_FILE.replace('q4_k_m', 'q8_0')}": file("q8", 1000),
        f"{DRAFT}/{DRAFT_FILE}": file("draft", 1_000_000),
        "user/split/big-q4_k_m-00001-of-00002.gguf": file("part1", 1000),
        "user/split/big-q4_k_m-00002-of-00002.gguf": file("part2", 2000),
        "user/split/README.md": file("readme", 100),
        "user/one/x.gguf": file("one"),
        "user/odd/a-special.gguf": file("a", 1000),
        "user/odd/b-special.gguf": file("b", 1000),
    }
    with serve(Hub(files)) as served:
        yield served


def settings(hub: Hub, tmp_path: Path, **more: str) -> dict[str, str]:
    home = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return {**environment(), **home, "HF_ENDPOINT": hub.endpoint, "HF_HUB_DISABLE_TELEMETRY": "1", **more}


@pytest.fixture
def specli(hub: Hub, tmp_path: Path) -> Specli:
    """Runs a command with a home of its own."""

    def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        command = python("-m", "specli", *arguments)
        env = settings(hub, tmp_path, **more)
        return subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120
        )

    return run


def in_cache(tmp_path: Path, repository: str, name: str) -> Path:
    folder = f"models--{repository.replace('/', '--')}"
    return tmp_path / "hf" / "hub" / folder / "snapshots" / COMMIT / name


def nothing_arrived(tmp_path: Path, repository: str) -> bool:
    """Whether the cache has no file of it under its name."""
    return not list((tmp_path / "hf" / "hub").glob(f"models--{repository.replace('/', '--')}/snapshots/*/*"))


def test_a_known_model_comes_with_its_draft_and_is_pulled_once(specli: Specli, hub: Hub, tmp_path: Path) -> None:
    first = specli("pull", "qwen2.5-coder-1.5b")
    assert first.returncode == 0, first.stderr
    paths = [in_cache(tmp_path, TARGET, TARGET_FILE), in_cache(tmp_path, DRAFT, DRAFT_FILE)]
    assert first.stdout.split() == list(map(str, paths))
    assert "qwen2.5-coder-0.5b drafts for qwen2.5-coder-1.5b" in first.stderr
    for path, name in zip(paths, (f"{TARGET}/{TARGET_FILE}", f"{DRAFT}/{DRAFT_FILE}"), strict=True):
        assert path.read_bytes() == hub.files[name].read_bytes()
        assert hub.sent[name] == hub.files[name].stat().st_size
    n_requests = len(hub.requests)
    again = specli("pull", "qwen2.5-coder-1.5b")
    assert again.stdout == first.stdout and len(hub.requests) == n_requests, "all is here: nothing is asked"
    assert not list((tmp_path / "hf" / "hub").rglob("*incomplete*"))


def test_what_is_here_is_found_by_name(specli: Specli, tmp_path: Path) -> None:
    assert specli("pull", "qwen2.5-coder-1.5b", f"{TARGET}:Q8_0").returncode == 0
    listed = json.loads(specli("models", "--format", "json").stdout)["here"]
    assert sorted(model["owner"] for model in listed) == ["Hub"] * 3 + ["specli"] * 2
    target = next(model for model in listed if model["name"] == f"{TARGET}/{TARGET_FILE}")
    assert target["known_as"] == "qwen2.5-coder-1.5b" and target["drafts_here"] == ["qwen2.5-coder-0.5b"]
    ambiguous = specli("models", "remove", TARGET)
    assert ambiguous.returncode == 2 and "could be" in ambiguous.stderr
    for name in ("qwen2.5-coder-1.5b", f"{TARGET}:q4_k_m", f"{TARGET}/{TARGET_FILE}", TARGET):
        assert specli("models", "path", name).stdout.strip() == str(in_cache(tmp_path, TARGET, TARGET_FILE)), name
    assert specli("models", "path", f"{TARGET}:Q8_0").stdout.strip().endswith("q8_0.gguf")
    removed = specli("models", "remove", f"{TARGET}:Q8_0")
    assert removed.returncode == 0 and "removed" in removed.stderr
    left = json.loads(specli("models", "--format", "json").stdout)["here"]
    assert sorted(model["owner"] for model in left) == ["Hub"] * 2 + ["specli"] * 2
    assert specli("models", "path", f"{TARGET}:Q8_0").returncode == 1


def test_split_files_come_whole(specli: Specli, tmp_path: Path) -> None:
    result = specli("pull", "user/split")
    assert result.returncode == 0, result.stderr
    for i in (1, 2):
        assert in_cache(tmp_path, "user/split", f"big-q4_k_m-0000{i}-of-00002.gguf").is_file()
    assert result.stdout.strip().endswith("big-q4_k_m-00001-of-00002.gguf")
    assert specli("models", "path", "user/split:Q4_K_M").stdout == result.stdout


def test_a_plain_copy(specli: Specli, hub: Hub, tmp_path: Path) -> None:
    result = specli("pull", "user/one", "--to", tmp_path / "copies")
    assert result.returncode == 0, result.stderr
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["x.gguf"]
    copied = tmp_path / "copies" / "x.gguf"
    assert copied.read_bytes() == hub.files["user/one/x.gguf"].read_bytes()
    assert specli("pull", "user/one", "--to", tmp_path / "copies").returncode == 0, "it is there already"
    copied.write_bytes(b"something of the user's own")
    refused = specli("pull", "user/one", "--to", tmp_path / "copies")
    assert refused.returncode == 2 and "another x.gguf is there" in refused.stderr
    assert copied.read_bytes() == b"something of the user's own"


def test_a_split_model_that_broke_off_is_completed(specli: Specli, hub: Hub, tmp_path: Path) -> None:
    assert specli("pull", "user/split").returncode == 0
    second = in_cache(tmp_path, "user/split", "big-q4_k_m-00002-of-00002.gguf")
    second.resolve().unlink()
    second.unlink()
    assert specli("models", "path", "user/split").returncode == 1
    assert specli("pull", "user/split").returncode == 0 and second.is_file()


def test_run_pulls_where_it_is_asked_to(specli: Specli, hub: Hub, tiny: Path) -> None:
    hub.files["user/tiny/tiny-q8_0.gguf"] = tiny / "target.gguf"
    refused = specli("run", "--target", "user/tiny", "-n", 4, "-t", 1, "hi")
    assert refused.returncode == 1 and "specli pull user/tiny" in refused.stderr and not hub.requests
    assert specli("run", "--target", "user/tiny", "--pull", "-n", 4, "-t", 1, "hi").returncode == 0


def test_a_cut_connection_is_resumed(specli: Specli, hub: Hub, tmp_path: Path) -> None:
    hub.cuts_after["user/one/x.gguf"] = [random.Random(0).randrange(SIZE)]
    result = specli("pull", "user/one")
    assert result.returncode == 0, result.stderr
    assert in_cache(tmp_path, "user/one", "x.gguf").read_bytes() == hub.files["user/one/x.gguf"].read_bytes()
    assert "Traceback" not in result.stderr and hub.endpoint not in result.stderr


def test_an_interrupted_download_goes_on_where_it_stopped(hub: Hub, specli: Specli, tmp_path: Path) -> None:
    name = "user/large/x.gguf"
    hub.files[name] = tmp_path / "served" / "large"
    hub.files[name].write_bytes(random.Random(5).randbytes(48 << 20))
    hub.pause = 0.05
    command = python("-m", "specli", "pull", "user/large")
    process = subprocess.Popen(command, env=settings(hub, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while hub.sent[name] < 25 << 20:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130 and b"Traceback" not in stderr
    assert nothing_arrived(tmp_path, "user/large")
    hub.pause, before = 0.0, hub.sent[name]
    assert specli("pull", "user/large").returncode == 0
    assert hub.sent[name] - before < 40 << 20, "what had arrived was fetched again"
    assert in_cache(tmp_path, "user/large", "x.gguf").read_bytes() == hub.files[name].read_bytes()


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_hub_is_waited_for(specli: Specli, hub: Hub, status: int) -> None:
    hub.fails_first["user/one/x.gguf"] = (2, status)
    result = specli("pull", "user/one")
    assert result.returncode == 0, result.stderr


def test_two_pulls_of_one_file_at_once(hub: Hub, tmp_path: Path) -> None:
    hub.pause, hub.piece = 0.02, 1 << 16
    command = python("-m", "specli", "pull", "user/one")
    both = [subprocess.Popen(command, env=settings(hub, tmp_path), stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr.decode()
    assert in_cache(tmp_path, "user/one", "x.gguf").read_bytes() == hub.files["user/one/x.gguf"].read_bytes()


def test_several_files_are_asked_about_on_a_terminal(hub: Hub, tmp_path: Path) -> None:
    command = python("-m", "specli", "pull", "user/odd")
    with in_pty(command, 100, env=settings(hub, tmp_path)) as (process, master):
        shown = read_until(master, lambda data: b"Which" in data)
        assert b"1 a-special.gguf (0 MB)" in shown
        os.write(master, b"2\r")
        read_until(master)
        assert process.wait(60) == 0
    assert in_cache(tmp_path, "user/odd", "b-special.gguf").is_file()


def test_the_known_draft_of_a_named_target_is_used(hub: Hub, specli: Specli, tiny: Path, tmp_path: Path) -> None:
    for repository, name, source in ((TARGET, TARGET_FILE, "target"), (DRAFT, DRAFT_FILE, "draft")):
        hub.files[f"{repository}/{name}"] = tiny / f"{source}.gguf"
    assert specli("pull", "qwen2.5-coder-1.5b").returncode == 0
    offline = {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    result = specli("run", "--target", "qwen2.5-coder-1.5b", "-n", 8, "-t", 1, "--format", "json", "hi", **offline)
    assert result.returncode == 0, result.stderr
    assert "qwen2.5-coder-0.5b drafts for qwen2.5-coder-1.5b" in result.stderr
    assert json.loads(result.stdout)["draft"]["path"].endswith(DRAFT_FILE)
    plain = specli("run", "--target", "qwen2.5-coder-1.5b", "-n", 8, "-t", 1, "--drafter", "none", "hi", **offline)
    assert plain.returncode == 0 and "drafts for" not in plain.stderr


def small_disk(folder: Path) -> bool:
    """Mount 2 MB of memory there, where that is allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    return shutil.which("mount") is not None and subprocess.run(mount, capture_output=True).returncode == 0


def test_a_full_disk_is_said_beforehand(specli: Specli, hub: Hub, tmp_path: Path) -> None:
    disk = tmp_path / "small"
    if not small_disk(disk):
        pytest.skip("mounting a small disk is not allowed here")
    try:
        result = specli("pull", "user/one", HF_HOME=str(disk))
        assert result.returncode == 1 and "are free" in result.stderr
        assert not hub.sent
    finally:
        subprocess.run(["umount", str(disk)], check=False)


BAD_PULLS = {
    "user/none": "no such repository",
    "user/one/y.gguf": "there is no file y.gguf in it",
    f"{TARGET}:Q2_K": "there is no Q2_K in it\nThere is Q4_K_M, Q8_0",
    "user/odd": "several files fit: a-special.gguf, b-special.gguf",
    "user/gated": "its owner grants access one by one",
    "user/private": "no such repository on the Hub, or it is private",
    "user/garbled": "what arrived is not what the Hub has",
    "user/broken": "the Hub answered 500",
    "user/../one": "neither a known model nor USER/REPOSITORY",
    "qwen9": "neither a known model nor USER/REPOSITORY",
    "user/one --to /proc/nowhere": "cannot be written",
    "": "which model?",
}


def test_what_cannot_be_pulled_is_worded(specli: Specli, hub: Hub, tmp_path: Path) -> None:
    """All of them, and the table of what each is told."""
    for name in ("gated", "private", "garbled", "broken"):
        hub.files[f"user/{name}/x.gguf"] = hub.files["user/one/x.gguf"]
    hub.refuses |= {"user/gated": (403, "GatedRepo"), "user/private": (401, "RepoNotFound"), "user/broken": (500, "")}
    hub.garbles.add("user/garbled/x.gguf")
    told = {}
    for line, words in BAD_PULLS.items():
        result = specli("pull", *line.split(), HF_TOKEN="hf_secret")
        assert result.returncode in (1, 2) and not result.stdout, line
        assert words in result.stderr, (line, result.stderr)
        assert "Traceback" not in result.stderr and "hf_secret" not in result.stderr
        told[line] = result.stderr.strip().splitlines()[-2:]
    assert "Bearer hf_secret" in hub.tokens
    assert nothing_arrived(tmp_path, "user/garbled")
    nowhere = specli("pull", "user/one", HF_ENDPOINT="http://127.0.0.1:9")
    assert nowhere.returncode == 1 and "cannot be reached" in nowhere.stderr
    offline = specli("pull", "user/one", HF_HUB_OFFLINE="1")
    assert offline.returncode == 1 and "HF_HUB_OFFLINE" in offline.stderr
    told |= {"without a network": nowhere.stderr.splitlines(), "offline": offline.stderr.splitlines()}
    print("\n".join(f"{line:48} {' | '.join(said)}" for line, said in told.items()))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_cache_that_cannot_be_written(specli: Specli, tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir(mode=0o500)
    result = specli("pull", "user/one")
    assert result.returncode == 1 and "cannot be written" in result.stderr
