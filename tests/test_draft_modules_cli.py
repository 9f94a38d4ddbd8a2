"""``specli run``, ``sweep`` and ``inspect`` with heads of the target's own and with draft modules; llama-server too."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import EXACT
from terminals import environment, python
from test_draft_modules import KINDS, files
from test_tiny_loop import start
from trained_head import write_trained_model

from specli.decoding.pair import Pair
from specli.drafters.names import MTP
from specli.llama.model import Model
from specli.llama.options import ModelOptions
from specli.sampling.transforms import SamplingOptions

__all__ = ["files"]  # a fixture

DIFFERENT = {name: kind for name, kind in KINDS.items() if name not in ("mtp-file", "dflash-reduced", "dspark-hybrid")}
N_MAX, N_TOKENS = 3, 256


def specli(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = python("-m", "specli", *arguments)
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment(), timeout=120, check=False
    )


def run_arguments(kind: str) -> list[str]:
    names = KINDS[kind]
    return ["--target", f"{names.target}.gguf", *(["--draft", f"{names.draft}.gguf"] if names.draft else [])]


@pytest.mark.parametrize("kind", ["mtp", "mtp-heads", "eagle3", "dflash", "dspark"])
def test_a_run_names_its_drafter_and_compares(files: Path, kind: str) -> None:
    arguments = [*run_arguments(kind), "--temp", 0, "-n", 40, "-t", 1, "--n-max", 3, "--compare", "--format", "json"]
    done = specli(files, "run", *arguments, "hello")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["drafters"]) == [KINDS[kind].drafter]
    assert document["drafted"] and document["plain"]["identical"]


def test_automatic_lengths_ask_the_heads_too(files: Path) -> None:
    options = ["-t", 1, "--format", "json"]
    done = specli(files, "run", "--target", "mtp.gguf", "-n", 60, "--n-max", "auto", *options, "hello")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["settings"]["drafters"] == ["suffix", "mtp"]
    plain = specli(files, "run", "--target", "mtp.gguf", "-n", 9, "--n-max", 0, *options, "hello")
    assert json.loads(plain.stdout)["settings"]["target"]["model"]["load_mtp"] is False, "nobody asks them"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "mtp.gguf", "--n-max", "3"], "going back to a snapshot"),
        (["--target", "mtp.gguf", "--n-max", "3", "-ub", "2"], "restoring the recurrent state"),
        (["--target", "llama.gguf", "--draft", "eagle3.gguf"], "cutting them off"),
        (["--target", "llama.gguf", "--draft", "dspark.gguf", "-ub", "2", "--n-max", "auto"], "cutting them off"),
        (["--target", "mtp.gguf", "-c", "16", "--n-max", "auto"], "going back to a snapshot"),
    ],
)
def test_verbose_says_how_rejected_tokens_are_taken_back(files: Path, arguments: list[str], words: str) -> None:
    done = specli(files, "run", *arguments, "-n", 20, "-t", 1, "--verbose", "hello")
    assert done.returncode == 0, done.stderr
    assert f"rejected tokens are taken back by {words}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "llama.gguf", "--drafter", "mtp"], "--drafter mtp takes a target with such heads"),
        (["--target", "llama.gguf", "--draft", "eagle3.gguf", "--drafter", "dflash"], "eagle3.gguf drafts as eagle3"),
        (["--target", "hybrid.gguf", "--draft", "dflash.gguf", "--spec-type", "draft-eagle3"], "drafts as dflash"),
        (["--target", "eagle3.gguf"], "eagle3.gguf: drafts for other models"),
        (["--target", "heads.gguf"], "heads.gguf: drafts for other models"),
    ],
)
def test_what_does_not_go_together(files: Path, arguments: list[str], message: str) -> None:
    done = specli(files, "run", *arguments, "-n", 4, "-t", 1, "hello")
    assert done.returncode in (1, 2)
    assert message in done.stderr and "Traceback" not in done.stderr


def test_a_sweep_of_heads_and_modules(files: Path, tmp_path: Path) -> None:
    common = ["-n", 12, "-t", 1, "--limit", 1, "--categories", "code", "--budget", "20s", "--format", "json"]
    out = tmp_path / "x.jsonl"
    done = specli(files, "sweep", "--target", "mtp.gguf", "--n-max", "2,auto", *common, "--out", out)
    assert done.returncode == 0, done.stderr
    points = {(row["n_max"], row["drafters"]) for row in json.loads(done.stdout)["standings"]}
    assert points == {(0, ""), (2, "mtp"), ("auto", "suffix,mtp")}
    done = specli(files, "sweep", "--target", "llama.gguf", "--draft", "eagle3.gguf", "--n-max", 2, *common)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {(row["n_max"], row["drafters"]) for row in document["standings"]} == {(0, ""), (2, "eagle3")}


def test_inspect_says_what_a_draft_was_made_for(files: Path) -> None:
    shown = specli(files, "inspect", "dspark-sure.gguf").stdout
    assert "dspark, which reads a target's hidden states of layers 1, 3, 64 wide; blocks of 8 tokens" in shown
    assert "a vocabulary of its own of 200 tokens" in specli(files, "inspect", "eagle3-reduced.gguf").stdout
    document = json.loads(specli(files, "inspect", "llama.gguf", "--with", "eagle3.gguf", "--format", "json").stdout)
    assert document["with"]["draft_module"]["target_layers"] == [1, 2, 3]
    assert document["pair"]["made_for_another"] is None
    other = specli(files, "inspect", "step.gguf", "--with", "eagle3-hybrid.gguf").stdout
    assert "They do not go together: it reads the input of layer 4, and step.gguf has 3 layers" in other


# llama-server


@contextmanager
def serving(server: Path, models: Sequence[str], drafter: str) -> Iterator[str]:
    """A llama-server that drafts in one way; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [*models, "--spec-type", f"draft-{drafter}", "--spec-draft-n-max", str(N_MAX), "--spec-draft-p-min", "0"]
    options += ["-c", "512", "-t", "1", "-np", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--port", str(port)]
    options += ["-ctkd", "f32", "-ctvd", "f32", "-cram", "0"]
    process = subprocess.Popen([server, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            assert process.poll() is None, "llama-server ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10).close()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def complete(address: str, prompt: Sequence[int], **options: object) -> dict[str, Any]:
    body = {"prompt": list(prompt), "n_predict": N_TOKENS, "ignore_eos": True, "return_tokens": True, **options}
    request = urllib.request.Request(
        f"{address}/completion", json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        document: dict[str, Any] = json.load(answer)
        return document


def some_prompts(n: int) -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, rng.integers(2, 40)).tolist() for _ in range(n)]


@pytest.mark.long
@pytest.mark.parametrize("kind", DIFFERENT)
def test_drafts_are_those_of_llama_server(files: Path, server: Path, kind: str) -> None:
    """The same greedy text, and drafted and accepted counts within 2 %.

    llama-server draws its first token without a draft, and so has a draft less in most texts.
    """
    names = KINDS[kind]
    target = Model(files / f"{names.target}.gguf", ModelOptions(load_mtp=names.draft is None))
    draft = Model(files / f"{names.draft}.gguf") if names.draft else None
    pair = Pair(target, draft, EXACT, EXACT, N_MAX)
    theirs, mine = np.zeros(2), np.zeros(2)
    models = ["-m", str(files / f"{names.target}.gguf")]
    models += ["-md", str(files / f"{names.draft}.gguf")] if names.draft else []
    with serving(server, models, names.drafter) as address:
        for prompt in some_prompts(6):
            answer = complete(address, prompt, temperature=0)
            timings = answer["timings"]
            theirs += timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
            generation = start(pair, prompt, n_max=N_MAX, n_predict=N_TOKENS)
            for _ in generation:
                pass
            assert generation.token_ids == answer["tokens"]
            mine += generation.stats.drafted, generation.stats.accepted
    print(f"{kind}: drafted and accepted {mine.tolist()}, llama-server {theirs.tolist()}")
    np.testing.assert_allclose(mine, theirs, rtol=0.02)
    for thing in (pair, target, *([draft] if draft else [])):
        thing.close()


@pytest.mark.long
def test_a_trained_head_at_temperature_one_beside_llama_server(server: Path, tmp_path: Path) -> None:
    """Drawn drafts under block verification are accepted more than the likeliest tokens under exact matches.

    Accepted tokens a forward pass of the target after the prompt's; the full distribution on both sides.
    """
    path = write_trained_model(tmp_path / "trained.gguf")
    target = Model(path, ModelOptions(load_mtp=True))
    pair = Pair(target, None, EXACT, EXACT, N_MAX)
    full = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    mine, theirs = np.zeros(2), np.zeros(2)
    with serving(server, ["-m", str(path)], MTP) as address:
        for i, prompt in enumerate(some_prompts(30)):
            timings = complete(address, prompt, seed=i, **full)["timings"]
            accepted = timings.get("draft_n_accepted", 0)
            theirs += accepted, timings["predicted_n"] - 1 - accepted  # its first token is of the prompt's pass
            options = {"sampling": SamplingOptions(**full), "verification": "block", "seed": i}
            generation = start(pair, prompt, n_max=N_MAX, n_predict=N_TOKENS, **options)
            for _ in generation:
                pass
            mine += generation.stats.accepted, generation.stats.rounds
    ratio = (mine[0] / mine[1]) / (theirs[0] / theirs[1])
    print(f"accepted a pass {mine[0] / mine[1]:.3f}, llama-server {theirs[0] / theirs[1]:.3f}: {ratio:.2f}×")
    assert ratio > 1.1
    for thing in (pair, target):
        thing.close()
