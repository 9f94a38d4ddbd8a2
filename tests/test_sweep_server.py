"""The ``llama-server`` line a sweep prints, given to llama-server."""

import json
import shlex
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from terminals import environment, python
from test_cli import models

from specli.bench import results
from specli.bench.summary import Results
from specli.report.sweep_words import server_line

__all__ = ["models"]  # a fixture


def ask(server: Path, line: str, folder: Path) -> dict[str, Any]:
    """Start a server with a printed line, and let it complete a prompt."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(server), *shlex.split(line)[1:], "--port", str(port), "-np", "1"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    body = json.dumps({"prompt": "hello", "n_predict": 12, "ignore_eos": True}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/completion", body, headers={"Content-Type": "application/json"}
    )
    try:
        for _ in range(600):
            assert process.poll() is None, process.communicate()[1].decode()[-2000:]
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    document: dict[str, Any] = json.load(answer)
                    return document
            except urllib.error.URLError:
                time.sleep(0.1)
        raise AssertionError("no answer within a minute")
    finally:
        process.kill()
        process.communicate()


def test_llama_server_takes_the_printed_lines(server: Path, models: Path, tmp_path: Path) -> None:
    """Of every setting it has; one of them is what the sweep printed."""
    out = tmp_path / "sweep.jsonl"
    options = ("--drafter", "model", "--drafter", "ngram-simple", "--n-max", 3, "--ignore-eos", "-n", 12)
    few = ("--categories", "json", "--limit", 1, "--budget", "4s", "-t", 1, "-c", 2048, "--out", out)
    command = python("-m", "specli", "sweep", "-m", "target.gguf", "-md", "draft.gguf", *options, *few)
    swept = subprocess.run(command, cwd=models, env=environment(), capture_output=True, check=True)
    found = Results(*results.read(out))
    lines = {point: server_line(point, found.target, found.settings["words"]["server"]) for point in found.points}
    assert len(lines) == 3 and any(line in swept.stdout.decode() for line in lines.values())
    for point, line in lines.items():
        answer = ask(server, line, models)
        assert answer["tokens_predicted"] == 12
        assert (answer["timings"].get("draft_n", 0) > 0) == (point.draft is not None)
