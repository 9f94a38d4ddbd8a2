"""Whatever happens to a run, nothing hangs, nothing is half written, and what happened is said. Prints a table."""

import os
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from interrupted_run import PHASES
from terminals import environment, in_pty, python, read_until
from tiny_gguf import write_model

TIMEOUT = 60
FULL = 100_000
HERE = Path(__file__).parent
SPECLI = ("-m", "specli")
ENDLESS = ("-m", "long.gguf", "-c", 1 << 17, "--ignore-eos", "hello")
ROWS: list[tuple[str, str, str]] = []


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """Print what each fault came to."""
    yield
    width = max((len(case) for case, _, _ in ROWS), default=0)
    print("\n" + "\n".join(f"{case:<{width}}  exit {code:<8}  {words}" for case, code, words in ROWS))


@pytest.fixture(scope="module")
def models(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    for name in ("target", "draft"):
        shutil.copy(tiny / f"{name}.gguf", folder)
    write_model(folder / "long.gguf", n_ctx=1 << 20)
    return folder


def command(*arguments: object) -> list[str]:
    return python(*SPECLI, "run", "--target", "target.gguf", "--draft", "draft.gguf", "-t", 1, *arguments)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def said(output: bytes) -> str:
    """The error among what was written, else the last line."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode(errors="replace")).replace("\r", "")
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[-1] if lines else "")


def check_clean(output: bytes) -> None:
    assert b"Traceback" not in output
    assert b"Exception ignored" not in output


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill_at_random(models: Path, cache: Path, pause: float, number: int = signal.SIGKILL) -> tuple[int, bytes]:
    """Kill the worker after a pause, in a terminal; check that the terminal is as before."""
    env = environment(XDG_CACHE_HOME=str(cache))
    with in_pty(command(*ENDLESS), cwd=models, env=env) as (process, master):
        before = termios.tcgetattr(master)
        deadline = time.monotonic() + TIMEOUT
        while not (workers := children(process.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        output = read_for(master, pause)
        os.kill(workers[0], number)
        output += read_until(master)
        code = process.wait(TIMEOUT)
        assert termios.tcgetattr(master) == before
    shown, hidden = output.rfind(b"\x1b[?25h"), output.rfind(b"\x1b[?25l")
    assert shown >= hidden, "the cursor stays hidden"
    return code, output


def read_for(master: int, seconds: float) -> bytes:
    data, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([master], [], [], left)[0]:
            data += os.read(master, 65536)
    return data


def check_kills(models: Path, tmp_path: Path, n: int) -> None:
    before = files(models)
    moments = random.Random(0)
    during = {"start": 0, "text": 0}
    for _ in range(n):
        code, output = kill_at_random(models, tmp_path, moments.uniform(0.0, 4.0))
        assert code == 1
        assert b"killed" in output and b"SIGKILL" in output
        check_clean(output)
        during["text" if b"accepted" in output else "start"] += 1
    assert files(models) == before
    assert not [name for name in files(tmp_path) if Path(name).name.startswith(".")]
    ROWS.append((f"SIGKILL to the worker, {n} times ({during['text']} in the text)", "1", said(output)))


def test_a_killed_worker(models, tmp_path):
    check_kills(models, tmp_path, 5)


@pytest.mark.long
def test_a_killed_worker_often(models, tmp_path):
    check_kills(models, tmp_path, 50)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL", "SIGABRT", "SIGBUS"])
def test_a_worker_that_crashes(models, tmp_path, name):
    code, output = kill_at_random(models, tmp_path, 2.0, getattr(signal, name))
    assert code == 1 and name.encode() in output
    check_clean(output)
    ROWS.append((f"{name} in the worker", str(code), said(output)))


def check_corrupted(models: Path, folder: Path, n: int) -> None:
    """Files with bytes changed at random places: the header more often than its share."""
    whole = (models / "target.gguf").read_bytes()
    chance = random.Random(1)
    ends: dict[int, int] = {}
    words = ""
    for i in range(n):
        data = bytearray(whole)
        end = len(data) if i % 2 else 20_000
        for _ in range(chance.choice((1, 4, 40))):
            data[chance.randrange(end)] = chance.randrange(256)
        if i % 5 == 4:
            del data[chance.randrange(24, len(data)) :]
        path = folder / "corrupted.gguf"
        path.write_bytes(data)
        done = subprocess.run(
            [*python(*SPECLI, "run", "--target", path, "-t", 1, "-n", 8, "--temp", 0, "hello")],
            capture_output=True,
            env=environment(),
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode in (0, 1), (i, done)
        check_clean(done.stderr)
        if done.returncode:
            assert b"specli: error: " in done.stderr, (i, done.stderr)
            words = said(done.stderr)
        ends[done.returncode] = ends.get(done.returncode, 0) + 1
    assert ends.get(1, 0) > n / 5
    counts = ", ".join(f"{count}× {code}" for code, count in sorted(ends.items()))
    ROWS.append((f"{n} corrupted files", counts, f"such as: {words}"[:150]))


def test_corrupted_files(models, tmp_path):
    check_corrupted(models, tmp_path, 10)


@pytest.mark.long
def test_many_corrupted_files(models, tmp_path):
    check_corrupted(models, tmp_path, 60)


def limited(models: Path, limit: str, *arguments: object) -> "subprocess.CompletedProcess[bytes]":
    """Run under a limit of the shell."""
    script = f"ulimit {limit}; exec {shlex.join(command(*arguments))}"
    return subprocess.run(
        ["bash", "-c", script], cwd=models, env=environment(), capture_output=True, timeout=TIMEOUT, check=False
    )


def test_too_little_memory_for_the_cache(models):
    done = limited(models, "-v 6000000", "-m", "long.gguf", "-c", 1 << 25, "hello")
    assert done.returncode == 1
    assert b"not enough memory" in done.stderr and b"KV cache" in done.stderr and b"-c" in done.stderr
    check_clean(done.stderr)
    ROWS.append(("ulimit -v below what the cache takes", "1", said(done.stderr)))


@pytest.mark.parametrize("kilobytes", [3_000_000, 1_500_000, 800_000, 400_000, 200_000, 100_000])
def test_too_little_memory_for_anything(models, kilobytes):
    """Down to where Python itself cannot start, which it says in its own words."""
    done = limited(models, f"-v {kilobytes}", "-n", 4, "hello")
    assert done.returncode in (0, 1, 127), done
    if b"specli" in done.stderr:
        check_clean(done.stderr)
    ROWS.append((f"ulimit -v {kilobytes}", str(done.returncode), said(done.stderr)[:150]))


@pytest.mark.parametrize("phase", PHASES)
def test_an_interruption_in_every_phase(models, tmp_path, phase):
    options = ("--target", "target.gguf", "--draft", "draft.gguf", "-t", 1)
    rest = ("verify", *options) if phase == "prove" else ("run", *options, "-n", 60, "--ignore-eos", "hello")
    before = files(models)
    whole = python(HERE / "interrupted_run.py", phase, *rest)
    with in_pty(whole, cwd=models, env=environment(XDG_CACHE_HOME=str(tmp_path))) as (process, master):
        settings = termios.tcgetattr(master)
        output = read_until(master)
        code = process.wait(TIMEOUT)
        assert termios.tcgetattr(master) == settings
    assert code == 130
    check_clean(output)
    assert files(models) == before
    assert not [name for name in files(tmp_path) if Path(name).name.startswith(".")]
    assert output.rfind(b"\x1b[?25h") >= output.rfind(b"\x1b[?25l")
    if phase in ("draft", "verify", "report"):
        assert b"tokens  " in output, "what was written is reported"
    ROWS.append((f"Ctrl-C in phase {phase}", str(code), said(output)[:100]))


def test_a_closed_terminal(models):
    with in_pty(command(*ENDLESS), cwd=models) as (process, master):
        read_until(master, lambda data: b"accepted" in data)
        (worker,) = children(process.pid)
        os.killpg(process.pid, signal.SIGHUP)  # what the kernel sends when the terminal goes
        code = process.wait(TIMEOUT)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{worker}/cmdline").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}/cmdline").exists(), "the worker lives on"
    assert code in (129, -signal.SIGHUP)
    ROWS.append(("terminal closed (SIGHUP)", str(code), "nobody is left to tell"))


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "</dev/null >/dev/full", "2>/dev/full"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_closed_and_full_outputs(models, closed, form):
    script = f"{shlex.join(command('-n', 8, '--format', form, 'hello'))} {closed}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=models, env=environment(), capture_output=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode in (0, 1), done
    fails = "full" in closed and not (closed.startswith("2>") and form == "json")  # which says nothing there
    assert done.returncode == fails, done
    check_clean(done.stderr)
    ROWS.append((f"{closed}, --format {form}", str(done.returncode), said(done.stderr)[:100]))


@pytest.mark.parametrize("before", [None, "an older trace"])
def test_a_disk_that_is_full_when_the_trace_is_written(models, tmp_path, before):
    trace = tmp_path / "run.trace"
    if before:
        trace.write_text(before)
    done = limited(models, "-f 1", "--temp", 0, "-n", 24, "--ignore-eos", "--save-trace", trace, "hello")
    assert done.returncode == 1
    assert b"run.trace: File too large" in done.stderr
    check_clean(done.stderr)
    assert done.stdout, "the text is there all the same"
    assert (trace.read_text() if trace.exists() else None) == before
    assert files(tmp_path) == ({"run.trace"} if before else set())
    ROWS.append(("disk full while a trace is written", "1", said(done.stderr)))
