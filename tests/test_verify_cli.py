"""specli verify from the command line: its verdict, its documents, its exit codes, and failures seen again."""

import io
import json
import subprocess
from pathlib import Path

import pytest
from rich.console import Console
from terminals import environment, python

from specli.proof.faults import Faults, Kind
from specli.proof.greedy import GreedyProof, Parting
from specli.proof.noise import Noise
from specli.proof.prove import Proof
from specli.proof.widths import Widths
from specli.report.proof_report import print_proof, verdict

HERE = Path(__file__).parent
FAULT = "bonus_from_the_wrong_row"  # of sampled texts; and of greedy ones:
GREEDY_FAULT = "rolled_back_one_too_few"


def verify(tiny: Path, folder: Path, *arguments: object, fault: str | None = None) -> "subprocess.CompletedProcess":
    program = [HERE / "faulty_run.py", fault] if fault else ["-m", "specli"]
    models = ("--target", tiny / "target.gguf", "--draft", tiny / "draft.gguf")
    command = python(*program, "verify", *models, "-t", 1, "-fa", "off", *arguments)
    env = environment(XDG_CACHE_HOME=str(folder / "cache"))
    return subprocess.run(command, capture_output=True, cwd=folder, env=env, timeout=240, check=False)


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "the rain in the north"}\n{"prompt": "an hour on the shore"}\n')
    return ("--prompts", path)


def test_a_healthy_pair(tiny, tmp_path, prompts):
    done = verify(tiny, tmp_path, *prompts, "--format", "json")
    assert done.returncode == 0, done.stderr.decode()
    document = json.loads(done.stdout)
    assert document["schema"] == "specli.verify/1"
    assert document["passed"] and document["lossless"] and not document["faults"]
    assert document["greedy"]["texts"] == 4, "two prompts, two drafters"
    assert set(document["arithmetic"]) > {"the settings in use"}
    assert max(document["arithmetic"].values()) < 1e-4
    assert document["settings"]["drafters"] == ["suffix", "model"]
    assert not (tmp_path / "specli-verify.json").exists()


@pytest.mark.parametrize(
    "options", ["-b 4 --drafter suffix,model --format json", "-b 1 --format json", "-fa auto -ub 4"]
)
def test_odd_batches(tiny, tmp_path, prompts, options):
    done = verify(tiny, tmp_path, *prompts, "--n-max", "auto", *options.split())
    small = "-b 1 " in options
    assert done.returncode == (2 if small else 0), done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_drafter_that_drafts_nothing_is_not_called_proved(tiny, tmp_path, prompts):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("zzzzqqqq" * 4)
    done = verify(tiny, tmp_path, *prompts, "--drafter", "corpus", "--corpus", corpus, "--n-max", 2)
    assert done.returncode == 0, done.stderr.decode()
    assert b"little is proved" in done.stdout


def test_a_faulty_build_and_its_replay(tiny, tmp_path, prompts):
    done = verify(tiny, tmp_path, *prompts, "--n-max", 3, fault=GREEDY_FAULT)
    assert done.returncode == 1
    assert b"NOT lossless" in done.stdout and b"cache does not hold the text" in done.stdout
    assert b"--replay specli-verify.json" in done.stderr
    replay = json.loads((tmp_path / "specli-verify.json").read_text())
    assert replay["options"]["n_max"] == 3 and replay["plain"] != replay["drafted"]
    again = verify(tiny, tmp_path, "--replay", "specli-verify.json", "--format", "json", fault=GREEDY_FAULT)
    assert again.returncode == 1
    assert "text" in {fault["kind"] for fault in json.loads(again.stdout)["faults"]}
    mended = verify(tiny, tmp_path, "--replay", "specli-verify.json", "--format", "json")
    assert mended.returncode == 0
    assert json.loads(mended.stdout)["greedy"]["texts"] == 1


def test_a_fault_of_sampled_texts(tiny, tmp_path, prompts):
    done = verify(tiny, tmp_path, *prompts, "--format", "json", fault=FAULT)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert not document["passed"] and not document["lossless"]
    assert "bonus" in {fault["kind"] for fault in document["faults"]}


@pytest.mark.parametrize(
    "options, words",
    [
        ("--n-max 0", "nothing to prove"),
        ("--exact", "--exact"),
        ("--replay missing.json", "missing.json"),
        ("--replay prompts.jsonl", "not a failure that specli verify wrote"),
        ("--prompts missing.jsonl", "missing.jsonl"),
        ("--format csv", "--format csv"),
    ],
)
def test_bad_input(tiny, tmp_path, prompts, options, words):
    done = verify(tiny, tmp_path, *options.split())
    assert done.returncode in (1, 2)
    assert words in done.stderr.decode() and b"Traceback" not in done.stderr


def proof(*partings: Parting, kinds: tuple[Kind, ...] = ()) -> Proof:
    faults = Faults()
    for kind in kinds:
        faults.add(kind, "somewhere", "[/INST] 3 > 2")
    greedy = GreedyProof(4, 32, list(partings), Noise([0.1], [0.2]), {"model": (3, 4)})
    return Proof(Widths((2, 3), {24: (2,)}, {}), greedy, [], {"one": 1e-8, "two": None}, faults=faults)


@pytest.mark.parametrize(
    "found, words",
    [
        (proof(), "identical"),
        (proof(Parting(0, "model", 3, 5, 6, 0.05, 0.1)), "1 greedy text parts"),
        (proof(kinds=(Kind.DRAFT_INPUT,)), "drafts are made wrongly"),
        (proof(kinds=(Kind.ACCEPTANCE, Kind.DRAFT_INPUT)), "NOT lossless"),
    ],
)
def test_the_verdict(found, words):
    assert words in verdict(found)


def test_tokens_and_details_are_shown_as_they_are():
    """Whatever they look like: markup, escapes, line breaks."""
    console = Console(width=200, record=True, file=io.StringIO())
    names = {5: "[/INST]", 6: "\x1b[31m\n[red]"}
    print_proof(console, proof(Parting(0, "model", 3, 5, 6, 0.05, 0.1), kinds=(Kind.TEXT,)), names.__getitem__)
    text = console.export_text()
    assert "[/INST]" in text and "[red]" in text and "\x1b" not in text and "numerics" in text
