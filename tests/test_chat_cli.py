"""``specli chat`` as a person types it: real processes on real terminals, tiny models."""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminals import TIMEOUT, Emulator, environment, in_pty, python, read_until
from tiny_gguf import write_model

ASCII_ONLY = [word for token in range(128, 256) for word in ("-l", f"{token}-inf")]  # texts that are what they say
PROMPT = b"\x1b[?2004h"  # pasting is marked from here on: the prompt is there
CTRL_C, CTRL_D, QUIT, ENTER, ALT_ENTER, UP, TAB = b"\x03", b"\x04", b"\x1c", b"\r", b"\x1b\r", b"\x1b[A", b"\t"
MARK = 1  # the token that stands for </think> in thinking.gguf
LETTERS_ONLY = [word for token in range(2, 256) if not 97 <= token < 123 for word in ("-l", f"{token}-inf")]
WITHOUT_WAITING = (
    "from specli.cli import child, main; child._IMPATIENCE = 0.0; main.main()"  # every Ctrl-C counts as another
)


@pytest.fixture(scope="module")
def models(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    for name in ("target", "draft"):
        shutil.copy(tiny / f"{name}.gguf", folder)
    write_model(folder / "long.gguf", n_ctx=1 << 17)
    write_model(folder / "untemplated.gguf", chat_template=None)
    write_model(folder / "thinking.gguf", rename={MARK: "</think>"})
    return folder


def command(*arguments: object) -> list[str]:
    """The tiny pair, and its context in full, unless other arguments say otherwise."""
    pair = ("--target", "target.gguf", "--draft", "draft.gguf")
    return python("-m", "specli", "chat", *pair, "-t", 1, "-s", 3, *ASCII_ONLY, *arguments)


def impatient(command: list[str]) -> list[str]:
    return python("-c", WITHOUT_WAITING, *command[3:])


class Talk:
    """A conversation on a terminal.

    Attributes:
        screen: What the terminal shows.
        data: All that was written to it.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", master: int, columns: int) -> None:
        self.process = process
        self.screen = Emulator(columns)
        self.data = b""
        self._master = master
        self._n_prompts = 0
        self.wait_for_prompt()

    def wait_for_prompt(self) -> None:
        self._n_prompts += 1
        self.wait(lambda: self.data.count(PROMPT) >= self._n_prompts)

    def wait(self, condition) -> None:
        def enough(data: bytes) -> bool:
            self._take(data[len(taken) :])
            taken.extend(data[len(taken) :])
            return condition()

        taken = bytearray()
        read_until(self._master, enough)
        assert condition(), self.data[-2000:]

    def _take(self, data: bytes) -> None:
        self.data += data
        self.screen.receive(data)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def begin(self, text: str = "hello") -> int:
        """Type a line and wait until it is being answered; returns where in the data that is."""
        before = len(self.data)
        self.type(text.encode() + ENTER)
        self.wait(lambda: b"tok/s" in self.data[before:])
        return before

    def interrupted(self, text: str = "hello") -> str:
        """Type a line, stop its answer, and return what came of it up to the next prompt."""
        before = self.begin(text)
        self.type(CTRL_C)
        self.wait_for_prompt()
        return plainly(self.data[before:]).replace("\n", " ")

    def say(self, text: str) -> bytes:
        """Type a line, and return what came of it up to the next prompt."""
        before = len(self.data)
        self.type(text.encode() + ENTER)
        self.wait_for_prompt()
        return self.data[before:]

    def end(self, keys: bytes = CTRL_D) -> int:
        self.type(keys)
        self._take(read_until(self._master))
        return self.process.wait(TIMEOUT)

    @property
    def settings(self) -> list:
        return termios.tcgetattr(self._master)


@contextlib.contextmanager
def talk(
    models: Path, *arguments: object, columns: int = 80, program=lambda words: words, **env: str
) -> Iterator[Talk]:
    with in_pty(program(command(*arguments)), columns, env=environment(**env), cwd=models) as (process, master):
        yield Talk(process, master, columns)


def saved(file: Path) -> list[tuple[str, str]]:
    document = json.loads(file.read_text())
    assert document["schema"] == "specli.chat/1"
    return [(message["role"], message["content"]) for message in document["messages"]]


def plainly(data: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[78DM]", "", data.decode(errors="replace")).replace("\r", "")


def test_ten_turns_and_commands(models, tmp_path):
    with talk(models, "-m", "long.gguf", "-n", 12, "--ignore-eos", "-sys", "Be brief.") as chat:
        assert "long.gguf, drafts by draft.gguf" in " ".join(chat.screen.rows)
        for i in range(10):
            shown = plainly(chat.say(f"question {i}"))
            assert re.search(r"accepted \d+/\d+ .*tok/s", shown), shown
        table = plainly(chat.say("/stats"))
        whole, read = (int(re.search(rf"{label} +(\d+) ", table)[1]) for label in ("prompt tokens", "read anew"))
        assert whole > 300 and read < 60, "only what is new is read"
        assert int(re.search(r"context: (\d+) of", table)[1]) > whole

        first, second = tmp_path / "first.json", tmp_path / "second.json"
        assert "saved 10 turns" in plainly(chat.say(f"/save {first}"))
        messages = saved(first)
        assert [role for role, _ in messages] == ["system", *["user", "assistant"] * 10]
        assert all(text for _, text in messages)

        chat.say("/retry")
        chat.say(f"/save {second}")
        *same, (_, other) = saved(second)
        assert same == messages[:-1] and other != messages[-1][1]

        assert "Be brief." in plainly(chat.say("/system"))
        chat.say("/system Be quick.")
        assert "stays" in plainly(chat.say("/clear"))
        assert "context: 0 of" in plainly(chat.say("/stats"))
        chat.say(f"/save {second}")
        assert saved(second) == [("system", "Be quick.")]
        assert "loaded 10 turns" in plainly(chat.say(f"/load {first}"))
        for file in (tmp_path / "missing.json", models / "target.gguf"):
            assert "error: " in plainly(chat.say(f"/load {file}"))
        chat.say(f"/save {second}")
        assert saved(second) == messages, "what could not be loaded changes nothing"

        chat.say("/set temp 0")
        assert "--n-max 99" in plainly(chat.say("/set n-max 99")).replace("\n", " ")
        chat.say("/set n-max 2")
        table = plainly(chat.say("/set"))
        assert re.search(r"temp +0\.0 ", table) and re.search(r"n-max +2 ", table)
        assert "0: always the most likely" in plainly(chat.say("/set temp warm")).replace("\n", "")
        assert "will be the same" in plainly(chat.say("/retry"))
        assert "n-max 2" in plainly(chat.say("question"))
        chat.say("/set drafter ngram-simple")
        assert "--corpus" in plainly(chat.say("/set drafter corpus"))
        assert "ngram-simple" in plainly(chat.say("/set drafter"))

        unknown = plainly(chat.say("/sav x.json"))
        assert "/sav: no such command" in unknown and "/save" in unknown
        chat.say("//etc/hosts")
        chat.say(f"/save {second}")
        assert saved(second)[-2] == ("user", "/etc/hosts")
        assert chat.end() == 0


def test_ctrl_c(models, tmp_path):
    file = tmp_path / "talk.json"
    with talk(models, "-m", "long.gguf", "-c", 1 << 16, "--ignore-eos", program=impatient) as chat:
        for turn in (1, 2, 3):
            assert "interrupted; what is there" in chat.interrupted()
            chat.say(f"/save {file}")
            messages = saved(file)
            roles = [role for role, text in messages if text]
            assert roles == ["user", "assistant"] * turn, "what was said of the answer is kept"
        assert "the answer from before stays" in chat.interrupted("/retry")
        chat.say(f"/save {file}")
        assert saved(file) == messages
        before = len(chat.data)
        chat.type(CTRL_C)
        chat.wait_for_prompt()
        assert "Ctrl-D or /quit leaves" in plainly(chat.data[before:])
        chat.type(b"away with this" + CTRL_C + f"/save {file}".encode() + ENTER)
        chat.wait_for_prompt()
        assert len(saved(file)) == 6
        assert chat.end(b"/quit" + ENTER) == 0


@pytest.mark.parametrize("key, code", [(CTRL_C, 130), (QUIT, 131)])
def test_what_hangs_can_be_left(models, key, code):
    """By Ctrl-C again and again, or by Ctrl-\\; the terminal is as it was."""
    with in_pty(impatient(command("--ignore-eos")), env=environment(), cwd=models) as (process, master):
        before = termios.tcgetattr(master)
        chat = Talk(process, master, 80)
        chat.begin()
        assert termios.tcgetattr(master) != before
        child = int(subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, check=True).stdout)
        os.kill(child, signal.SIGSTOP)
        chat.type(key)
        if key == QUIT:
            os.kill(child, signal.SIGCONT)  # only what goes on can be ended so
        shown = b""
        while process.poll() is None:
            chat.type(key)
            with contextlib.suppress(OSError):  # the program has gone
                while select.select([master], [], [], 0.05)[0]:  # what is unread the next Ctrl-C throws away
                    shown += os.read(master, 1 << 16)
        assert (b"still computing" in shown + read_until(master)) is (key == CTRL_C)
        assert process.wait(TIMEOUT) == code
        assert termios.tcgetattr(master) == before


def test_keys_typed_ahead(models, tmp_path):
    """They wait for the prompt, as many as there are, and what ends a line or the input means nothing before."""
    file = tmp_path / "talk.json"
    with talk(models, "-m", "long.gguf", "-c", 1 << 15, "-n", 600, "--ignore-eos") as chat:
        before = chat.begin()
        long = "x" * 5000
        chat.type(long.encode() + b"\x7fy" + ENTER)
        chat.wait_for_prompt()
        assert long[:20].encode() not in chat.data[before:].partition(PROMPT)[0]
        chat.wait_for_prompt()
        chat.say(f"/save {file}")
        assert saved(file)[2] == ("user", f"{long[:-1]}y")
        assert chat.end() == 0


def test_output_that_cannot_be_written(models, tmp_path):
    """Loses an answer, and nothing else."""
    file = tmp_path / "talk.json"
    arguments = {"env": environment(), "cwd": models}
    with Path("/dev/full").open("wb") as full, in_pty(command("-n", 8), stdout=full, **arguments) as (process, master):
        chat = Talk(process, master, 80)
        assert "No space left" in plainly(chat.say("hello"))
        assert "has no answer" in plainly(chat.say("again"))
        chat.say(f"/save {file}")
        assert saved(file) == [("user", "again")]
        chat.end()


def test_a_context_that_fills_up(models, tmp_path):
    file = tmp_path / "talk.json"
    with talk(models, "-c", 256, "-n", 16, "--ignore-eos", "-sys", "Be brief.") as chat:
        shown = "".join(plainly(chat.say(f"a question of some length, {i}")) for i in range(6))
        assert "the model no longer sees the oldest" in shown
        chat.say("/set n-predict -1")
        assert "the context is full, so the answer ends here" in plainly(chat.say("go on")).replace("\n", " ")
        assert "has no answer" not in plainly(chat.data)
        chat.say(f"/save {file}")
        messages = saved(file)
        assert len(messages) == 1 + 2 * 7
        refused = plainly(chat.say("x" * 300))
        assert "the context holds 256" in refused and "-c" in refused
        chat.say("/set n-predict 4")
        shown = plainly(chat.say("again")).replace("\n", " ")
        assert "tok/s" in shown and "has no answer" in shown
        assert "after 4 tokens; /set n-predict -1" in shown
        chat.say(f"/save {file}")
        assert saved(file)[:-2] == messages and saved(file)[-2] == ("user", "again")
        assert chat.end() == 0


def test_forty_columns_and_many_lines(models, tmp_path):
    file = tmp_path / "talk.json"
    with talk(models, "-n", 4, columns=40) as chat:
        chat.type(b"one" + ALT_ENTER + b"two\\" + ENTER + b"three" + ENTER)
        chat.wait_for_prompt()
        chat.type(b"\x1b[200~pasted\nas it is\x1b[201~" + ENTER)
        chat.wait_for_prompt()
        chat.type(UP + UP + UP + ENTER)  # through the two lines of the latest, to the one before
        chat.wait_for_prompt()
        chat.type(b"/sa" + TAB + b" " + str(file).encode() + ENTER)
        chat.wait_for_prompt()
        said = [text for role, text in saved(file) if role == "user"]
        assert said[:2] == ["one\ntwo\nthree", "pasted\nas it is"]
        assert said[2] in said[:2], "what was said before comes back"
        chat.say("/help")
        rows = chat.screen.rows
        assert any(re.match(r"accepted \d+/\d+ · .*tok/s$", row) for row in rows)
        assert any(row.startswith("/retry") for row in rows) and all(len(row) <= 40 for row in rows)
        assert chat.end() == 0


def test_reasoning_is_dimmed_and_nothing_coloured_where_that_is_not_wanted(models, tmp_path):
    """What the prompt has begun is reasoning, too; it is saved with its mark, and read but once."""
    file = tmp_path / "talk.json"
    arguments = ("-m", "thinking.gguf", "-n", 40, "--ignore-eos", *LETTERS_ONLY, "-l", f"{MARK}+3", "--reasoning", "on")
    with talk(models, *arguments, columns=200, NO_COLOR="1") as chat:
        data = chat.say("why?")
        chat.say(f"/save {file}")
        reasoning, mark, answer = saved(file)[1][1].partition("</think>")
        assert reasoning.startswith("<think>") and len(reasoning) > 10 and mark and len(answer) > 3
        text = re.sub(rb"\x1b7.*?\x1b8", b"", data, flags=re.DOTALL).decode()  # without the status line
        dimmed = "".join(re.findall(r"\x1b\[2m(.*?)\x1b\[0m", text))
        plain = re.sub(r"\x1b\[2m.*?\x1b\[0m", "", text)
        assert f"{reasoning}{mark}".removeprefix("<think>") in dimmed and answer not in dimmed
        assert answer in plainly(plain.encode())
        assert not re.search(rb"\x1b\[[\d;]*(3\d|9\d)[\d;]*m", data)
        chat.say("and?")
        read = re.search(r"read anew +(\d+) ", plainly(chat.say("/stats")))
        assert int(read[1]) < 70, "the answer is not read again"
        assert chat.end() == 0


def test_a_dumb_terminal(models):
    env = environment(TERM="dumb")
    with in_pty(command("-n", 8), env=env, cwd=models) as (process, master):
        read_until(master, lambda data: data.endswith(b"> "))
        os.write(master, b"hello" + ENTER)
        shown = read_until(master, lambda data: data.endswith(b"> "))
        assert b"tok/s" in shown and b"\x1b" not in shown
        os.write(master, b"/quit" + ENTER)  # Ctrl-D might come before the prompt reads keys
        read_until(master)
        assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
@pytest.mark.parametrize("answering", [False, True])
def test_an_end_that_was_asked_for(models, term, answering):
    env = environment(TERM=term)
    with in_pty(command("-m", "long.gguf", "--ignore-eos"), env=env, cwd=models) as (process, master):
        before = termios.tcgetattr(master)
        data = read_until(master, lambda data: PROMPT in data or data.endswith(b"> "))
        if answering:
            os.write(master, b"hello" + ENTER)
            read_until(master, lambda data: len(data) > 50)
        process.send_signal(signal.SIGTERM)
        data += read_until(master)
        assert process.wait(TIMEOUT) == 130 and b"Traceback" not in data
        assert termios.tcgetattr(master) == before


def piped(models: Path, text: str | bytes, *arguments: object, **env: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        command(*arguments),
        input=text if isinstance(text, bytes) else text.encode(),
        capture_output=True,
        cwd=models,
        env=environment(**env),
        timeout=TIMEOUT,
        check=False,
    )


def test_messages_from_a_pipe(models, tmp_path):
    """A message a line; the same seed says the same, and what was learnt is remembered."""
    file = tmp_path / "talk.json"
    text = f"hello\n\nsecond\\\nline\n/save {file}\n"
    done = piped(models, text, "-n", 12, "--temp", 0)
    assert done.returncode == 0, done.stderr
    messages = saved(file)
    assert [said for role, said in messages if role == "user"] == ["hello", "second\nline"]
    answers = "".join(said if said.endswith("\n") else f"{said}\n" for role, said in messages if role == "assistant")
    assert done.stdout.decode() == answers
    assert done.stderr.decode().count("tok/s") == 2 and b"\x1b" not in done.stderr

    arguments = ("-n", 12, "--temp", 0, "--n-max", "auto", "-s", -1)
    learning = piped(models, "hello\n/set seed 7\nhello\n", *arguments, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert learning.returncode == 0
    (file,) = (tmp_path / "cache").rglob("pairs/*.json")
    assert json.loads(file.read_text())["calibrations"], "what was learnt before there was a seed"


@pytest.mark.parametrize("seed", [-1, 7])
def test_a_cleared_conversation_is_another(models, tmp_path, seed):
    """Unless a seed was asked for."""
    files = [tmp_path / "one.json", tmp_path / "other.json"]
    text = f"hello\n/save {files[0]}\n/clear\nhello\n/save {files[1]}\n"
    assert piped(models, text, "-n", 40, "--temp", 2, "--ignore-eos", "-s", seed).returncode == 0
    one, other = map(saved, files)
    assert (one == other) is (seed == 7)


def test_errors_in_a_pipe(models, tmp_path):
    """Each is said, and the rest is answered all the same."""
    deep, file = tmp_path / "deep.json", tmp_path / "talk.json"
    deep.write_text("[" * 100_000)
    lines = [b"/nonsense", f"/load {deep}".encode(), b"/load ~nouser/x", b"/save a\0b", b"caf\xe9", b"hello"]
    lines += [f"/save {file}".encode(), f"/save {models / 'target.gguf'}".encode()]
    done = piped(models, b"\n".join(lines), "-n", 4, "-sys", "caf\udce9")
    assert done.returncode == 1
    said = done.stderr.decode()
    assert said.count("error: ") == 6 and "Traceback" not in said
    for words in ("/nonsense: no such command", "deep.json", "~nouser", "null byte", "line 5: not text", "target.gguf"):
        assert words in said
    assert done.stdout.strip()
    assert saved(file)[:2] == [("system", "caf\ufffd"), ("user", "hello")]


def test_errors_before_anything_is_loaded(models):
    for option in ("--chat-template-file", "-sysf"):
        missing = piped(models, "", "-m", "missing.gguf", option, "missing.jinja")
        assert missing.returncode == 1 and b"missing.jinja: cannot be read" in missing.stderr
    wrong = piped(models, "", "-m", "missing.gguf", "--chat-template", "{% if %}")
    assert wrong.returncode == 1 and b"--chat-template: not a Jinja template" in wrong.stderr
    untemplated = piped(models, "hello\n", "--target", "untemplated.gguf")
    assert untemplated.returncode == 1 and b"no chat template" in untemplated.stderr
    excluding = piped(models, "", "--exact", "--verification", "block")
    assert excluding.returncode == 2


def test_an_interruption_ends_a_pipe(models):
    arguments = command("-m", "long.gguf", "-c", 1 << 16, "--ignore-eos")
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, cwd=models, env=environment()) as process:
        process.stdin.write(b"hello\nand more\n")
        process.stdin.flush()
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 130
        assert b"interrupted" in said and b"Traceback" not in said and said.count(b"tok/s") == 1


def test_exact_answers_are_plain_decodings(models):
    """In every turn, whatever was drafted."""
    answers = {piped(models, "hello\nagain\n", "--exact", "-n", 16, "--n-max", n).stdout for n in (0, 4)}
    assert len(answers) == 1 and len(answers.pop()) > 16
