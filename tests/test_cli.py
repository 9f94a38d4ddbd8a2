"""``specli run`` as a person types it: real processes, tiny models."""

import functools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from terminals import environment, in_pty, python, read_until
from tiny_gguf import byte_characters, write_model

from specli.decoding import trace

EMOJI = "🎉"
KEYS = {
    *("schema", "text", "token_ids", "stop_reason", "target", "draft", "settings", "prompt_tokens", "tokens", "rounds"),
    *("drafted", "accepted", "rejected", "discarded", "acceptance_rate", "mean_accepted_length"),
    *("accepted_by_position", "drafted_by_position", "drafters", "seconds", "tokens_per_second"),
}
MODEL_KEYS = {"path", "architecture", "parameters", "bytes", "layers_offloaded"}
SECONDS_KEYS = {"load", "prefill", "draft_prefill", "decode", "draft", "verify", "other"}
ERROR = "specli: error: "

Result = subprocess.CompletedProcess[bytes]
Run = Callable[..., Result]


@pytest.fixture(scope="session")
def models(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny pair; one with a long context; one whose 'A' is an emoji; damaged ones."""
    folder = tmp_path_factory.mktemp("cli")
    for name in ("target", "draft"):
        shutil.copy(tiny / f"{name}.gguf", folder)
    write_model(folder / "long.gguf", n_ctx=1 << 20)
    characters = byte_characters()
    emoji = "".join(characters[byte] for byte in EMOJI.encode())
    write_model(folder / "emoji.gguf", rename={characters.index("A"): emoji})
    write_model(folder / "big.gguf", layers=4)
    write_model(folder / "stranger.gguf", rename={40: "nothing-like-it"})
    whole = (folder / "target.gguf").read_bytes()
    (folder / "empty.gguf").touch()
    (folder / "truncated.gguf").write_bytes(whole[: len(whole) // 2])
    (folder / "header.gguf").write_bytes(whole[:1000])
    (folder / "text.gguf").write_text("not a model" * 100)
    (folder / "newer.gguf").write_bytes(whole[:4] + (99).to_bytes(4, "little") + whole[8:])
    _write_half(folder / "half.gguf")
    _write_headers(folder)
    return folder


def _write_half(path: Path) -> None:
    """The first of two parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "GGUFWriter", functools.partial(gguf.GGUFWriter, split_max_tensors=11))
        write_model(path)
    path.with_name("half-00002-of-00002.gguf").unlink()


def _write_headers(folder: Path) -> None:
    """Models that generate nothing: of sentences' meanings, and of a vocabulary only."""
    for name, architecture, n_tensors in (("embedding", "bert", 1), ("vocabulary", "llama", 0)):
        writer = gguf.GGUFWriter(folder / f"{name}.gguf", architecture)
        for i in range(n_tensors):
            writer.add_tensor(f"tensor.{i}", np.zeros(4, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


@pytest.fixture(scope="session")
def run(models: Path) -> Run:
    """Run the command in the models' folder; the draft model is given unless ``plain``."""

    def specli(*arguments: object, plain: bool = False, stdin: bytes = b"", **env: str) -> Result:
        command = _command(*arguments, plain=plain)
        return subprocess.run(
            command, input=stdin, capture_output=True, cwd=models, env=environment(**env), timeout=60, check=False
        )

    return specli


def _command(*arguments: object, plain: bool = False) -> list[str]:
    draft = [] if plain else ["--draft", "draft.gguf"]
    return python("-m", "specli", "run", "--target", "target.gguf", *draft, "-t", 1, *arguments)


def _document(result: Result) -> dict:
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


@pytest.fixture(scope="session")
def sampled(run: Run) -> dict:
    """The document of 60 tokens at the default temperature."""
    return _document(run("-n", 60, "-s", 7, "--format", "json", "hello"))


@pytest.fixture(scope="session")
def compared(run: Run) -> dict:
    """The document of 60 greedy tokens, compared with plain decoding."""
    return _document(run("-n", 60, "--temp", 0, "--compare", "--format", "json", "hello"))


# The prompt and the text


def test_text_goes_to_stdout_and_the_report_to_stderr(run: Run, sampled: dict) -> None:
    done = run("-n", 60, "-s", 7, "hello")
    assert done.returncode == 0
    assert done.stdout.decode().rstrip("\n") == sampled["text"].rstrip("\n")
    report = done.stderr.decode()
    assert all(word in report for word in ("tokens", "accepted", "rejected", "by position", "tok/s", "KV cache"))
    assert "\x1b" not in report


@pytest.mark.parametrize("place", ["-p", "-f", "stdin"])
def test_the_prompt_comes_from_anywhere(run: Run, sampled: dict, tmp_path: Path, place: str) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("hello\n")
    prompt = {"-p": ("-p", "hello"), "-f": ("-f", file), "stdin": ()}[place]
    stdin = b"hello\n" if place == "stdin" else b""
    same = _document(run("-n", 60, "-s", 7, "--format", "json", *prompt, stdin=stdin))
    assert same["token_ids"] == sampled["token_ids"]


def test_a_terminal_is_asked_for_the_prompt(models: Path, sampled: dict) -> None:
    with in_pty(_command("-n", 60, "-s", 7, "--format", "json"), cwd=models) as (process, master):
        asked = read_until(master, lambda data: b"Prompt: " in data)
        os.write(master, b"hello\n")
        rest = read_until(master)
        assert process.wait(10) == 0
    assert asked == b"Prompt: "
    document = json.loads(re.search(rb"{.*}", rest)[0])
    assert document["token_ids"] == sampled["token_ids"]


def test_an_emoji_in_the_prompt_is_its_bytes(run: Run) -> None:
    document = _document(run("-n", 2, "--raw", "--format", "json", EMOJI))
    assert document["prompt_tokens"] == len(EMOJI.encode())


@pytest.mark.parametrize(
    "encoding",
    [{}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["UTF-8", "C", "ASCII"],
)
def test_emoji_come_out_whole_in_any_locale(run: Run, encoding: dict[str, str]) -> None:
    token = byte_characters().index("A")
    done = run("-m", "emoji.gguf", "-md", "emoji.gguf", "-l", f"{token}+1000", "-n", 9, "hello", plain=True, **encoding)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip() == EMOJI * 9
    assert "█" in done.stderr.decode() and "τ" in done.stderr.decode()


# The documents


def test_the_document_has_the_keys_of_its_schema(sampled: dict, compared: dict) -> None:
    assert set(sampled) == KEYS
    assert set(compared) == KEYS | {"plain", "speedup", "decode_speedup"}
    assert set(compared["plain"]) == {"tokens_per_second", "text", "identical", "first_difference"}
    assert sampled["schema"] == "specli.run/1"
    for model in ("target", "draft"):
        assert set(sampled[model]) == MODEL_KEYS
        assert sampled[model]["path"] == f"{model}.gguf"
    assert set(sampled["seconds"]) == SECONDS_KEYS


@pytest.mark.parametrize("name", ["sampled", "compared"])
def test_the_counts_of_the_document_add_up(request: pytest.FixtureRequest, name: str) -> None:
    it = request.getfixturevalue(name)
    assert it["tokens"] == len(it["token_ids"]) == 60
    assert it["stop_reason"] == "length"
    assert it["drafted"] == it["accepted"] + it["rejected"] + it["discarded"]
    assert sum(it["drafted_by_position"]) == it["accepted"] + it["rejected"]
    assert it["accepted"] == sum(it["accepted_by_position"]) > 0
    assert it["rejected"] > 0
    assert it["tokens"] == it["accepted"] + it["rounds"]
    assert it["acceptance_rate"] == pytest.approx(it["accepted"] / (it["accepted"] + it["rejected"]))
    assert it["mean_accepted_length"] == pytest.approx(it["tokens"] / it["rounds"])
    seconds = it["seconds"]
    assert seconds["decode"] == pytest.approx(seconds["draft"] + seconds["verify"] + seconds["other"])
    assert it["tokens_per_second"] == pytest.approx(it["tokens"] / seconds["decode"])


def test_the_document_tells_every_setting_and_its_seed_gives_the_text_again(run: Run) -> None:
    first = _document(run("-n", 40, "--format", "json", "hello"))
    told = first["settings"]
    defaults = {
        **{"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_last_n": 64, "repeat_penalty": 1.0},
        **{"presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": [], "ignore_eos": False, "stop": []},
        **{"n_max": 4, "n_min": 0, "p_min": 0.0, "verification": "block", "draft_temperature": None, "n_predict": 40},
    }
    assert {name: told[name] for name in defaults} == defaults
    assert {"model", "context"} == set(told["target"]) == set(told["draft"])
    assert told["target"]["context"]["ctx_size"] == 512 and told["target"]["context"]["threads"] == 1
    again = _document(run("-n", 40, "-s", told["seed"], "--format", "json", "hello"))
    assert again["token_ids"] == first["token_ids"] and again["text"] == first["text"]
    assert _document(run("-n", 40, "--format", "json", "hello"))["settings"]["seed"] != told["seed"]


def test_plain_decoding_has_no_draft(run: Run) -> None:
    document = _document(run("-n", 5, "--n-max", 0, "--format", "json", "hello", plain=True))
    assert set(document) == KEYS and document["draft"] is None and document["settings"]["draft"] is None
    assert (document["drafted"], document["rounds"], document["acceptance_rate"]) == (0, 5, None)


def test_no_draft_is_loaded_for_n_max_0(run: Run) -> None:
    document = _document(run("--draft", "missing.gguf", "--n-max", 0, "-n", 5, "--format", "json", "hello", plain=True))
    assert document["draft"] is None and document["rounds"] == 5


def test_events_add_up_to_the_document(run: Run, sampled: dict) -> None:
    done = run("-n", 60, "-s", 7, "--format", "jsonl", "hello")
    *rounds, document = [json.loads(line) for line in done.stdout.splitlines()]
    assert {round_["schema"] for round_ in rounds} == {"specli.round/1"} and document["schema"] == "specli.run/1"
    assert [round_["round"] for round_ in rounds] == list(range(1, document["rounds"] + 1))
    assert "".join(round_["text"] for round_ in rounds) == document["text"] == sampled["text"]
    assert [token for round_ in rounds for token in round_["tokens"]] == document["token_ids"]
    for count in ("accepted", "rejected", "discarded"):
        assert sum(round_[count] for round_ in rounds) == document[count]
    for round_ in rounds:
        n = round_["accepted"]
        assert round_["drafted"][:n] == round_["tokens"][:n] and len(round_["drafted_texts"]) == len(round_["drafted"])
    assert [round_["stop_reason"] for round_ in rounds] == [None] * (len(rounds) - 1) + ["length"]


def test_greedy_text_is_plain_decodings(compared: dict, run: Run) -> None:
    assert compared["plain"]["identical"] and compared["plain"]["first_difference"] is None
    assert compared["plain"]["text"] == compared["text"]
    assert compared["speedup"] > 0 and compared["decode_speedup"] > 0
    report = run("-n", 60, "--temp", 0, "--compare", "hello").stderr.decode()
    assert "identical" in report and "speed-up" in report


def test_above_temperature_0_the_claim_is_equality_in_distribution(run: Run) -> None:
    report = " ".join(run("-n", 60, "-s", 7, "--compare", "hello").stderr.decode().split())
    assert "promises its distribution, not its text" in report


def test_a_stop_string_ends_the_text_before_it(run: Run, sampled: dict) -> None:
    stop = re.search("[ -~]{2}", sampled["text"][15:])[0]
    document = _document(run("-n", 60, "-s", 7, "--stop", stop, "--format", "json", "hello"))
    assert document["stop_reason"] == "stop"
    assert document["text"] == sampled["text"][: sampled["text"].index(stop)]


def test_a_full_context_ends_the_text(run: Run) -> None:
    document = _document(run("-c", 256, "--ignore-eos", "--format", "json", "hello"))
    assert document["stop_reason"] == "context"
    assert document["prompt_tokens"] + document["tokens"] == 257  # the last one is never decoded


# Automatic lengths, and drafters without a model


AUTO = ("--n-max", "auto", "-n", 80, "--ignore-eos", "--format", "json")


def test_automatic_lengths_are_the_default(run: Run, tmp_path: Path) -> None:
    default = _document(run(*AUTO[2:], "hello", LLAMA_ARG_SPEC_DRAFT_N_MAX="auto", XDG_CACHE_HOME=str(tmp_path)))
    assert default["settings"]["n_max"] == "auto" and set(default["drafters"]) <= {"suffix", "model"}
    assert sum(drafter["drafted"] for drafter in default["drafters"].values()) == default["drafted"]
    assert default["tokens"] == 80


def test_a_seed_gives_the_same_lengths_again(run: Run, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    first, again = (_document(run(*AUTO, "-s", 3, "hello", **cache)) for _ in range(2))
    same = ("token_ids", "drafted", "accepted", "rejected", "rounds", "drafters")
    assert [first[name] for name in same] == [again[name] for name in same]


def test_what_runs_learn_is_kept_unless_told_not_to(run: Run, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    _document(run(*AUTO, "--no-memory", "hello", **cache))
    assert not list(tmp_path.rglob("*.json"))
    _document(run(*AUTO, "hello", **cache))
    (file,) = tmp_path.rglob("*.json")
    file.write_text(file.read_text()[:100])
    damaged = run(*AUTO, "hello", **cache)
    assert _document(damaged)["tokens"] == 80
    assert file.name in damaged.stderr.decode() and "measured again" in damaged.stderr.decode()
    assert json.loads(file.read_text())["schema"] == "specli.memory/4"
    slow = json.loads(file.read_text())
    slow["target_seconds"] = {width: 100 * int(width) * seconds for width, seconds in slow["target_seconds"].items()}
    file.write_text(json.dumps(slow))
    _document(run(*AUTO, "hello", **cache))
    assert not file.exists(), "measured on a busy machine, and not believed any longer"
    file.mkdir()
    unreadable = run(*AUTO, "hello", **cache)
    assert _document(unreadable)["tokens"] == 80 and "cannot be read" in unreadable.stderr.decode()


@pytest.mark.parametrize("name", ["suffix", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"])
def test_drafters_without_a_model_leave_the_text_as_it_is(run: Run, name: str) -> None:
    greedy = ("-n", 120, "--temp", 0, "--ignore-eos", "--format", "json", "--raw", "abcabcabcabcabcabcabcabcabc")
    plain = _document(run("--n-max", 0, *greedy, plain=True))
    sizes = ("--spec-ngram-mod-n-match", 3, "--spec-ngram-mod-n-min", 1, "--spec-ngram-map-k4v-size-n", 3)
    document = _document(run("--drafter", name, "--n-max", 8, *sizes, *greedy, plain=True))
    assert document["token_ids"] == plain["token_ids"]
    assert set(document["drafters"]) <= {name} and document["draft"] is None
    if name == "suffix":
        assert document["accepted"] > 0


def test_a_corpus_is_drafted_from(run: Run, tmp_path: Path) -> None:
    greedy = ("-n", 60, "--temp", 0, "--ignore-eos", "--format", "json", "--raw", "hello")
    plain = _document(run("--n-max", 0, *greedy, plain=True))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("hello there, hello world\n" * 20)
    document = _document(run("--corpus", corpus, "--drafter", "corpus", *greedy, plain=True))
    assert document["token_ids"] == plain["token_ids"]
    assert document["drafters"]["corpus"]["drafted"] > 0
    binary = run("--corpus", "target.gguf", "--drafter", "corpus", *greedy, plain=True)
    assert binary.returncode == 2 and b"--corpus target.gguf: not UTF-8" in binary.stderr


def test_a_trace_is_saved_for_replaying(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    result = run(
        "--save-trace", file, "--temp", 0, "--n-max", "auto", "-n", 12, "--ignore-eos", "--format", "json", "hello"
    )
    saved = trace.load(file)
    assert list(saved.tokens) == _document(result)["token_ids"]
    assert set(saved.proposals) == {"suffix", "model"} and saved.looked_up == ["suffix"]
    assert all(len(proposal.tokens) == trace.LENGTH for proposal in saved.proposals["model"])
    assert saved.target_seconds[1] > 0 and saved.step_seconds["model"] > 0
    refused(run("--save-trace", file, "--temp", 0, "--n-max", 0, "hello"), "--save-trace", codes={2})
    refused(run("--save-trace", file, "hello"), "greedy texts only", codes={2})
    refused(run("--save-trace", "draft.gguf", "--temp", 0, "hello"), "draft.gguf", codes={2})
    nowhere = run("--save-trace", tmp_path / "missing" / "x.json", "--temp", 0, "hello")
    refused(nowhere, "missing", codes={2})


# Interruptions


LONG = ("-m", "long.gguf", "-c", 1 << 17, "--ignore-eos", "hello")


def test_ctrl_c_keeps_the_text_and_prints_the_report(models: Path) -> None:
    with in_pty(_command(*LONG), cwd=models) as (process, master):
        before = read_until(master, lambda data: len(data) > 5000)
        os.write(master, b"\x03")
        after = read_until(master)
        assert process.wait(10) == 130
    report = after.decode(errors="replace").rpartition("tokens  ")[2]
    assert "interrupted" in report and "accepted" in report
    assert b"Traceback" not in before + after
    assert after.endswith(b"\r\n") and b"\x1b[?25l" not in after.rpartition(b"\x1b[?25h")[2]


def test_an_interrupt_of_the_parent_alone_is_passed_on(models: Path) -> None:
    with _started(models, *LONG) as process:
        text = process.stdout.read(2000)
        process.send_signal(signal.SIGINT)
        rest, report = process.communicate(timeout=20)
    assert process.returncode == 130
    assert text + rest
    assert b"interrupted" in report and b"Traceback" not in report


def test_an_interrupt_while_starting_leaves_no_traceback(models: Path) -> None:
    for pause in (0.1, 0.3, 0.4, 0.5):
        with _started(models, *LONG) as process:
            time.sleep(pause)
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=20)
        assert process.returncode in (130, -signal.SIGINT)
        assert b"specli/" not in complaint  # Python's own start may have been interrupted


def test_an_interrupted_document_is_whole(models: Path) -> None:
    with _started(models, *LONG, "--format", "jsonl") as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=20)
    lines = [json.loads(line) for line in (first + rest).splitlines()]
    assert process.returncode == 130
    assert lines[-1]["schema"] == "specli.run/1" and lines[-1]["stop_reason"] == "interrupted"
    assert "".join(line["text"] for line in lines[:-1]) == lines[-1]["text"]


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_closed_pipe_ends_it_quietly(models: Path, form: str) -> None:
    command = shlex.join(_command(*LONG, "--format", form))
    script = f"{command} | head -c 100 | wc -c; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=models, env=environment(), capture_output=True, timeout=30)
    assert done.returncode == 0
    assert done.stdout.split() == [b"100"]
    assert not any(word in done.stderr for word in (b"rror", b"Traceback", b"Exception"))


@pytest.mark.skipif(not shutil.which("pgrep"), reason="needs pgrep")
@pytest.mark.parametrize(
    "number, words", [(signal.SIGKILL, "memory ran out"), (signal.SIGSEGV, "crashed"), (signal.SIGILL, "AMX")]
)
def test_the_death_of_the_child_is_worded(models: Path, number: int, words: str) -> None:
    with _started(models, *LONG) as process:
        process.stdout.read(1000)
        child = int(subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, check=True).stdout)
        os.kill(child, number)
        _, complaint = process.communicate(timeout=20)
    assert process.returncode == 1
    assert complaint.decode().startswith(ERROR) and words in complaint.decode()
    assert signal.Signals(number).name in complaint.decode()


def _started(models: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """The command running in a session of its own, so that signals reach only whom they are sent to."""
    return subprocess.Popen(
        _command(*arguments),
        cwd=models,
        env=environment(),
        bufsize=0,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


# Bad input


BAD_FILES = {
    "missing.gguf": "missing.gguf: no such file",
    ".": ".: a folder",
    "empty.gguf": "empty.gguf: ",
    "truncated.gguf": "truncated.gguf: ",
    "header.gguf": "header.gguf: ",
    "text.gguf": "text.gguf: ",
    "newer.gguf": "99",
    "embedding.gguf": "embedding",
    "vocabulary.gguf": "vocabulary only",
    "half-00001-of-00002.gguf": "half-00002-of-00002.gguf",
}


@pytest.mark.parametrize("name, words", BAD_FILES.items())
def test_a_bad_target_file_is_named(run: Run, name: str, words: str) -> None:
    refused(run("-m", name, "hello", plain=True), words, codes={1})


def test_a_bad_draft_file_is_named(run: Run) -> None:
    refused(run("--draft", "empty.gguf", "hello", plain=True), "empty.gguf: ", codes={1})


BAD_OPTIONS = {
    "-n 0": "-n 0",
    "-n x": "-n",
    "--n-max -1": "--n-max -1",
    "--n-max 1000000": "--n-max 1000000",
    "--n-min 9": "--n-min 9",
    "--p-min 2": "--p-min 2",
    "--temp nan": "--temp nan",
    "--temp inf": "--temp inf",
    "--draft-temp nan": "--draft-temp nan",
    "--verification best": "--verification best",
    "--spec-type eagle3": "--spec-type eagle3",
    "--n-max some": "--n-max some",
    "--n-max auto --n-min 33": "--n-min 33",
    "--drafter parrot": "--drafter parrot",
    "--drafter suffix,suffix": "--drafter suffix",
    "--drafter corpus": "--corpus",
    "--drafter suffix --spec-type none": "--drafter and --spec-type",
    "--corpus missing.txt": "missing.txt",
    "--corpus empty.gguf": "empty.gguf",
    "--spec-ngram-mod-n-match 0": "--spec-ngram-mod-n-match",
    "-c 1000000000": "GiB are free",
    "-ctk q9_9": "q9_9",
    "-ctv q8_0 -fa off": "-ctv q8_0",
    "-fa maybe": "-fa",
    "-sm sideways": "-sm",
    "-dev NOPE": "NOPE",
    "-ts a,b": "-ts",
    "-ngl many": "-ngl",
    "-ot nonsense": "-ot",
    "-l 5": "-l",
    "-l 5+inf": "-l",
    "-l 5000+1": "5000",
    "--load-mode telepathy": "--load-mode",
    "--override-kv nonsense": "--override-kv",
    "--lora missing.lora": "missing.lora",
    "--format xml": "--format xml",
    "--reasoning perhaps": "--reasoning",
    "--chat-template chatml": "--chat-template",
    "--raw -sys x": "-sys",
    "--raw --reasoning on": "--reasoning",
    "--raw --chat-template {{x}}": "--chat-template",
    "-sys x -sysf target.gguf": "-sys and -sysf",
    "--chat-template {{x}} --chat-template-file target.gguf": "--chat-template-file",
    "-sysf target.gguf": "target.gguf: not text",
    "--stop=": "--stop",
    "-b 1": "-b 1",
    "-ctkd q9_9": "-ctkd",
    "-ctvd q8_0 -fa off": "-ctvd q8_0",
    "-p again": "PROMPT and -p",
    "-f target.gguf": "PROMPT and -f",
    "--mirostat 2": "--mirostat",
    "--grammar x": "--grammar",
    "-cnv": "-cnv",
    "-hf someone/something": "-hf",
    "--no-such-option": "--no-such-option",
}


@pytest.mark.parametrize("options, words", BAD_OPTIONS.items())
def test_a_bad_option_is_named(run: Run, options: str, words: str) -> None:
    refused(run(*options.split(), "hello"), words, codes={1, 2})


def test_other_bad_input(run: Run) -> None:
    draft = run("--draft", 16, "hello", plain=True)
    refused(draft, "--draft 16", codes={2})
    assert "--n-max 16" in draft.stderr.decode()
    refused(run("-c", 256, "x" * 600, stdin=b""), "256", codes={1})
    refused(run("--draft", "stranger.gguf", "hello", plain=True), "vocabulary", codes={1})
    refused(run(stdin=b" \n"), "empty", codes={2})
    refused(run(stdin=b"caf\xe9"), "standard input: not text", codes={1})
    refused(run(""), "empty", codes={2})
    refused(run("--drafter", "model", "hello", plain=True), "draft model", codes={2})
    refused(run("-f", "missing.txt"), "missing.txt", codes={1})
    nowhere = python("-m", "specli", "run", "--draft", "draft.gguf", "hi")
    refused(subprocess.run(nowhere, capture_output=True, env=environment(), check=False), "--target", codes={2})
    unknown = subprocess.run(python("-m", "specli", "walk"), capture_output=True, env=environment(), check=False)
    refused(unknown, "walk", codes={2})


def test_a_prompt_too_long_is_told_with_both_numbers(run: Run) -> None:
    complaint = run("-c", 256, "--raw", "xq" * 300).stderr.decode()
    assert "600 tokens" in complaint and "256" in complaint


def test_other_vocabularies_show_the_first_token_that_differs(run: Run) -> None:
    complaint = run("--draft", "stranger.gguf", "hello", plain=True).stderr.decode()
    assert "token 40" in complaint and "nothing-like-it" in complaint


def refused(result: Result, words: str, codes: set[int]) -> None:
    complaint = result.stderr.decode()
    assert result.returncode in codes, complaint
    assert complaint.startswith(ERROR), complaint
    assert words in complaint.split("\n")[0], complaint
    assert "Traceback" not in complaint and not result.stdout


# What is warned of and runs


def test_offloading_without_a_gpu_is_warned_of_and_runs(run: Run) -> None:
    if b"No devices" not in run("--list-devices").stdout:
        pytest.skip("this build of llama.cpp can offload")
    done = run("-ngl", 99, "-n", 3, "hello")
    assert done.returncode == 0 and b"-ngl 99" in done.stderr.splitlines()[0]


def test_swapped_models_are_warned_of_and_run(run: Run) -> None:
    done = run("--target", "target.gguf", "--draft", "big.gguf", "-n", 3, "hello", plain=True)
    assert done.returncode == 0 and b"swapped" in done.stderr.splitlines()[0]


# The rest of the program


def test_devices_version_and_help(run: Run) -> None:
    assert run("--list-devices").returncode == 0
    for arguments in (["--version"], ["--help"], ["run", "--help"], []):
        done = subprocess.run(python("-m", "specli", *arguments), capture_output=True, env=environment(), check=False)
        assert done.returncode == 0 and done.stdout and not done.stderr, arguments


def test_help_shows_every_spelling_whole_however_narrow_the_terminal() -> None:
    helps = [
        subprocess.run(
            python("-m", "specli", "run", "--help"), capture_output=True, env=environment(COLUMNS=columns), check=True
        ).stdout.decode()
        for columns in ("40", "80", "200")
    ]
    spellings = [set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text)) for text in helps]
    assert spellings[0] >= spellings[1] == spellings[2] >= {"--spec-draft-override-tensor", "-cmoed", "--compare"}
    assert max(map(len, helps[1].splitlines())) <= 80


def test_the_parent_of_a_run_imports_no_models() -> None:
    """It only waits: what it does not import, nobody waits for twice."""
    script = "import sys, specli.cli.main; print(*sys.modules)"
    loaded = subprocess.run(python("-c", script), capture_output=True, check=True).stdout.decode().split()
    assert not {"llama_cpp", "numpy", "typer", "rich"} & set(loaded)


def test_spellings_and_environment_of_llama_cpp(run: Run, sampled: dict) -> None:
    models = ("-m", "target.gguf", "-md", "draft.gguf")
    for spelling in ("--spec-draft-n-max", "--draft-max"):
        document = _document(run(*models, spelling, 2, "-n", 9, "-s", 7, "--format", "json", "hello", plain=True))
        assert document["settings"]["n_max"] == 2 and len(document["drafted_by_position"]) == 2
    document = _document(run("-fa", "1", "-s", 0xFFFFFFFF, "-l", "40+1e-3", "-n", 2, "--format", "json", "hello"))
    told = document["settings"]
    assert told["target"]["context"]["flash_attn"] == "on" and told["logit_bias"] == [[40, 1e-3]]
    assert told["seed"] != 0xFFFFFFFF  # means, as in llama.cpp, any
    environ = {"LLAMA_ARG_N_PREDICT": "11", "LLAMA_ARG_SPEC_DRAFT_N_MAX": "3"}
    document = _document(run("-s", 7, "--format", "json", "hello", **environ))
    assert document["tokens"] == 11 and document["settings"]["n_max"] == 3
    assert _document(run("-n", 5, "--format", "json", "hello", **environ))["tokens"] == 5
