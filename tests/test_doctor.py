"""``specli doctor``: a sound installation, and broken ones."""

import json
import signal
import subprocess
import sys

import pytest
from terminals import environment, python

from specli.cli import doctor


def examined(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    command = python("-m", "specli", *arguments)
    env = environment(**changes)
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)


def test_a_sound_installation_passes():
    result = examined("doctor")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "self-test    passed" in result.stdout and "llama-cpp-python" in result.stdout
    document = json.loads(examined("doctor", "--format", "json").stdout)
    assert document["decodes"] and document["failure"] is None and document["library"]["physical_cores"] >= 1


@pytest.mark.parametrize("option", ["-h", "--help", "--nope", "--format=xml"])
def test_it_takes_options_as_other_commands_do(option):
    result = examined("doctor", option)
    assert result.returncode == (0 if option in ("-h", "--help") else 2)
    assert "Traceback" not in result.stderr and "╭" not in result.stdout


def test_a_broken_library_is_told_by_doctor_and_by_every_command(tmp_path):
    broken = {"LLAMA_CPP_LIB_PATH": str(tmp_path)}
    result = examined("doctor", **broken)
    assert result.returncode == 1 and "FAILED while loading llama.cpp" in result.stdout
    assert "pip install" in result.stdout and "Traceback" not in result.stdout + result.stderr
    for command in (["run", "-m", "x.gguf", "hi"], ["models"]):
        other = examined(*command, **broken)
        assert other.returncode == 1 and "specli doctor says more" in other.stderr
        assert "Traceback" not in other.stderr


def test_models_of_its_own_that_are_not_there_are_told_from_a_broken_library(monkeypatch, tmp_path):
    script = "from specli.models import stories; stories.DRAFT = stories.DRAFT / 'gone.gguf'; "
    script += "from specli.llama.self_test import main; main()"
    monkeypatch.setattr(doctor, "_TEST", [sys.executable, "-c", script])
    failure = doctor.examine()["failure"]
    assert failure["step"] == "models" and "Install specli again" in failure["cure"]


@pytest.mark.parametrize("number, words", [(signal.SIGILL, "instructions that this CPU"), (signal.SIGSEGV, "crashed")])
def test_a_crash_is_reported_with_its_likely_cause(monkeypatch, number, words):
    script = f'import os; print(\'{{"step": "library"}}\', flush=True); os.kill(os.getpid(), {int(number)})'
    monkeypatch.setattr(doctor, "_TEST", [sys.executable, "-c", script])
    found = doctor.examine()
    assert found["failure"]["step"] == "devices" and not found["decodes"]
    assert words in found["failure"]["what"] and number.name in found["failure"]["what"] and found["failure"]["cure"]


def test_a_hanging_library_is_given_up(monkeypatch):
    monkeypatch.setattr(doctor, "_TEST", [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(doctor, "_TIMEOUT", 1)
    assert "within 1 s" in doctor.examine()["failure"]["what"]
