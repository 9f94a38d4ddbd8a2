"""``specli sweep`` and ``specli report`` as a person types them: real processes, tiny models."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from terminals import environment, python
from test_cli import Result, models, refused

from specli.bench import results

__all__ = ["models"]  # a fixture


def _sweep(models: Path, *arguments: object, draft: str = "draft.gguf") -> list[str]:
    given = ("--target", "target.gguf", "--draft", draft, "-t", 1, "-n", 6, "--ignore-eos")
    return python("-m", "specli", "sweep", *given, *arguments)


def _swept(models: Path, *arguments: object) -> Result:
    command = _sweep(models, *arguments)
    return subprocess.run(command, capture_output=True, cwd=models, env=environment(), timeout=120, check=False)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    rows = [{"question_id": i, "category": name, "turns": ["hello", "more"][: i + 1]} for i, name in enumerate("ab")]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_sweep_measures_every_point_and_recommends(models: Path, tmp_path: Path, questions: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    grid = ("--n-max", "0,2,auto", "--temp", "0,0.8", "--prompts", questions, "--budget", "5s")
    result = _swept(models, *grid, "--out", out, "--plot", tmp_path / "sweep.html")
    text, notes = result.stdout.decode(), result.stderr.decode()
    assert result.returncode == 0, notes
    assert "plain decoding, which every sweep measures" in notes and "6 points × 2 prompts" in notes
    for temperature in ("0", "0.8"):
        assert f"temp {temperature}: " in text and re.search(rf"--temp {temperature} -t 1$", text, re.MULTILINE)
    _, measured = results.read(out)
    keys = [one.key for one in measured]
    assert len(keys) == len(set(keys)) and len(keys) >= 6
    assert {one.point.n_max for one in measured} == {0, 2, None}
    assert "<svg" in (tmp_path / "sweep.html").read_text()

    again = subprocess.run(python("-m", "specli", "report", out), capture_output=True, env=environment(), check=False)
    assert again.returncode == 0 and again.stdout.decode() == text
    both = subprocess.run(
        python("-m", "specli", "report", out, out), capture_output=True, env=environment(), check=False
    )
    assert both.returncode == 0 and b"old" in both.stdout

    there = _swept(models, "--n-max", 2, "--prompts", questions, "--out", out)
    refused(there, "is there already", codes={2})
    other = _swept(models, "--n-max", "3", "--prompts", questions, "--out", out, "--resume")
    refused(other, "points (5 missing, 1 new)", codes={2})


@pytest.mark.long
def test_a_sweep_killed_at_any_moment_is_resumed(models: Path, tmp_path: Path, questions: Path) -> None:
    """Ten times; in the end every point of every question and block is there once."""
    out = tmp_path / "sweep.jsonl"
    command = _sweep(models, "--n-max", "1,2,3", "--prompts", questions, "--out", out, "--resume", "--budget", "8s")
    started = time.monotonic()
    rng = np.random.default_rng(0)
    for _ in range(10):
        process = subprocess.Popen(
            command, cwd=models, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(float(rng.uniform(0.5, 2.5)))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert time.monotonic() - started < 100
    last = subprocess.run(command, cwd=models, env=environment(), capture_output=True, timeout=120, check=False)
    assert last.returncode == 0, last.stderr.decode()
    _, measured = results.read(out)
    keys = [one.key for one in measured]
    assert len(keys) == len(set(keys))
    complete = {one.block for one in measured}
    for block in sorted(complete)[:-1]:
        asked = {(one.question, one.point) for one in measured if one.block == block}
        assert len(asked) == 3 * 4  # three turns, four points


def test_an_interrupted_sweep_prints_what_it_has(models: Path, tmp_path: Path, questions: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    command = _sweep(models, "--n-max", "1,2", "--prompts", questions, "--out", out)
    process = subprocess.Popen(command, cwd=models, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not out.exists() or len(out.read_text().splitlines()) < 5:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and b"Traceback" not in stderr
    assert b"plain" in stdout and b"llama-server -m" in stdout


def test_a_file_that_cannot_grow_is_said_with_what_there_is_and_resumed(
    models: Path, tmp_path: Path, questions: Path
) -> None:
    """As on a full disk."""
    out = tmp_path / "sweep.jsonl"
    command = _sweep(models, "--n-max", 2, "--prompts", questions, "--out", out, "--budget", "20s")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    result = subprocess.run(command, cwd=models, capture_output=True, env=environment(), preexec_fn=limit, check=False)
    assert result.returncode == 1 and b"cannot be written" in result.stderr and b"--resume" in result.stderr
    assert b"plain" in result.stdout and b"Traceback" not in result.stderr
    n_before = len(results.read(out)[1])
    again = subprocess.run([*command, "--resume"], cwd=models, capture_output=True, env=environment(), check=False)
    assert again.returncode == 0, again.stderr.decode()
    keys = [one.key for one in results.read(out)[1]]
    assert len(keys) == len(set(keys)) > n_before > 0


def test_a_dry_run_shows_the_plan_only(models: Path, tmp_path: Path) -> None:
    few = ("--categories", "json,chat", "--limit", 1)
    result = _swept(models, "--n-max", "1-3", *few, "--dry-run", "--out", tmp_path / "x.jsonl")
    assert result.returncode == 0 and not result.stdout and not list(tmp_path.iterdir())
    assert b"4 points" in result.stderr and b"2 prompts" in result.stderr


def test_plain_decoding_alone_and_single_lengths_are_sweeps_too(models: Path) -> None:
    for lengths in ("0", "1"):
        result = _swept(models, "--n-max", lengths, "--categories", "json", "--limit", 1, "--budget", "3s")
        assert result.returncode == 0, result.stderr.decode()
        assert b"plain" in result.stdout


def test_lookups_are_swept_with_their_options(models: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("all the world's a stage " * 50)
    few = ("--categories", "json", "--limit", 1, "--budget", "3s", "--n-max", 3, "--format", "json")
    lookups = ("--drafter", "corpus", "--drafter", "ngram-mod", "--spec-ngram-mod-n-match", 4)
    result = _swept(models, *few, *lookups, "--corpus", tmp_path / "corpus.txt")
    assert result.returncode == 0, result.stderr.decode()
    document = json.loads(result.stdout)
    assert {row["drafters"] for row in document["standings"]} == {"", "corpus", "ngram-mod"}


def test_a_draft_named_twice_is_swept_once(models: Path) -> None:
    result = _swept(models, "--draft", "./draft.gguf", "--n-max", 2, "--dry-run")
    assert result.returncode == 0 and b"2 points" in result.stderr


def test_drafts_of_one_name_are_refused(models: Path, tmp_path: Path) -> None:
    shutil.copy(models / "draft.gguf", tmp_path)
    refused(_swept(models, "--draft", tmp_path / "draft.gguf", "--n-max", 2), "the same name", codes={2})


def test_a_small_context_is_llama_cpp_s_smallest(models: Path) -> None:
    result = _swept(models, "-c", 10, "--n-max", "2,16", "--categories", "json", "--limit", 1, "--dry-run")
    assert b"Traceback" not in result.stderr and result.returncode in (0, 2)


def test_a_reader_who_has_had_enough_is_no_failure(models: Path, tmp_path: Path, questions: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    assert _swept(models, "--n-max", 2, "--prompts", questions, "--budget", "3s", "--out", out).returncode == 0
    report = subprocess.Popen(
        python("-m", "specli", "report", out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert report.stdout and report.stderr
    report.stdout.close()
    complaint = report.stderr.read()
    assert report.wait(60) == 0 and not complaint


BAD_SWEEPS = {
    "--n-max 4-2": "--n-max 4-2",
    "--n-max x": "--n-max x",
    "--temp hot": "--temp hot",
    "--temp nan": "--temp nan",
    "--sweep-threads 2.5": "--sweep-threads 2.5",
    "--sweep-threads 0": "--sweep-threads 0",
    "--sweep-threads 100000": "-t 100000",
    "--prompts /dev/urandom": "/dev/urandom: a device",
    "--budget=": "--budget",
    "--out .": "a folder",
    "--n-max 1-5:0": "a step of 0",
    "--sweep-cache-types q9": "q9",
    "--drafter parrot": "--drafter parrot",
    "--drafter corpus": "--corpus",
    "--corpus missing.txt": "missing.txt",
    "--spec-ngram-mod-n-match 0": "--spec-ngram-mod-n-match 0",
    "--verification best": "--verification best",
    "--categories nonsense": "--categories nonsense",
    "--prompts missing.jsonl": "missing.jsonl",
    "--prompts target.gguf": "target.gguf",
    "--budget soon": "--budget",
    "--out x.html --plot x.html": "--plot x.html",
    "--out /dev/null --resume": "not a file",
    "--n-max 99999999999": "--n-max 99999999999",
    "--resume": "--out",
    "--plot x.pdf": "--plot x.pdf",
    "--format xml": "--format xml",
    "--out missing/x.jsonl": "missing",
    "--draft stranger.gguf": "vocabulary",
    "--mirostat 2": "--mirostat",
    "--no-such-option": "--no-such-option",
}


@pytest.mark.parametrize("options, words", BAD_SWEEPS.items())
def test_a_bad_sweep_is_refused_before_anything_runs(models: Path, options: str, words: str) -> None:
    refused(_swept(models, *options.split()), words, codes={1, 2})


def test_a_bad_report_is_refused(models: Path) -> None:
    for arguments, words in ((["missing.jsonl"], "missing.jsonl"), (["text.gguf"], "text.gguf"), ([], "FILE")):
        command = python("-m", "specli", "report", *arguments)
        result = subprocess.run(command, cwd=models, capture_output=True, env=environment(), check=False)
        refused(result, words, codes={1, 2})
