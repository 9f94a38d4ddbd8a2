"""llama.cpp's own server as the other side of a comparison: started, asked, and always ended."""

import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specli.errors import SpecliError

_START_SECONDS = 300
_STOP_SECONDS = 20


@dataclass(frozen=True)
class Run:
    """One answer, as the one who asked for it saw it arrive.

    Attributes:
        text: The answer.
        n_tokens: Its tokens.
        n_first: How many of them came at once as the first.
        first_seconds: From the request to the first of them.
        seconds: From the request to the last.
        drafted: Tokens proposed.
        accepted: How many of them stayed.
        rounds: Target forward passes after the prompt's.
        round_tokens: Tokens that came out of those.
        token_ids: The tokens, where they are known.
        llama_seconds: Time inside llama.cpp, where it is known.
    """

    text: str
    n_tokens: int
    n_first: int
    first_seconds: float
    seconds: float
    drafted: int
    accepted: int
    rounds: int
    round_tokens: int
    token_ids: tuple[int, ...] = ()
    llama_seconds: float = 0.0

    @property
    def decode_speed(self) -> float:
        """Tokens per second after the first arrival: what came with it counts no more than the wait for it."""
        return (self.n_tokens - self.n_first) / (self.seconds - self.first_seconds)

    @property
    def request_speed(self) -> float:
        """Tokens per second of the whole request."""
        return self.n_tokens / self.seconds


class PeerServer:
    """A llama-server that drafts, for one request at a time.

    Args:
        program: llama-server.
        target: The target's file.
        drafting: Its flags of what drafts, and how.
        ctx_size: Size of the context.
        threads: Threads of all models.
    """

    def __init__(self, program: Path, target: Path, drafting: Sequence[str], *, ctx_size: int, threads: int) -> None:
        self.flags = ["-m", str(target), *drafting]
        self.flags += ["-c", str(ctx_size), "-t", str(threads), "-np", "1", "--cache-ram", "0"]
        self._program = program

    @property
    def version(self) -> str:
        """What the program calls itself, without the commit: cmake takes that of whatever repository is around it."""
        shown = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"^version: ([^(\n]*)", shown.stdout + shown.stderr, re.MULTILINE)
        return found[1].strip() if found else "unknown"

    @property
    def shown_command(self) -> str:
        """The command that starts it, with files by name only."""
        return " ".join(["llama-server", *(Path(flag).name for flag in self.flags)])

    def __enter__(self) -> "PeerServer":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._log = tempfile.TemporaryFile()
        command = [str(self._program), *self.flags, "--host", "127.0.0.1", "--port", str(self._port)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_ARG_")}
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise SpecliError(f"{self._program.name} ended with {self._process.returncode}:\n{self._log_tail()}")
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
            try:
                connection.request("GET", "/health")
                if connection.getresponse().status == http.HTTPStatus.OK:
                    return
            except OSError:
                pass  # it does not listen yet
            finally:
                connection.close()
            time.sleep(0.2)
        raise SpecliError(f"{self._program.name} was not ready after {_START_SECONDS} s:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        self._log.seek(0)
        return b"".join(self._log.readlines()[-20:]).decode(errors="replace")

    def ask(self, prompt: list[int], n_predict: int, sampling: Mapping[str, Any]) -> Run:
        """Let it answer, never ending before ``n_predict`` tokens.

        Args:
            prompt: Token ids.
            n_predict: How many tokens to generate.
            sampling: Its sampling fields.
        """
        request = {"prompt": prompt, "n_predict": n_predict, "ignore_eos": True, "cache_prompt": False, "stream": True}
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        started = time.perf_counter()
        try:
            connection.request("POST", "/completion", json.dumps({**request, **sampling}))
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise SpecliError(f"{self._program.name}: {response.read().decode(errors='replace')}")
            return read_run(_events(response), started)
        except (OSError, http.client.HTTPException) as error:
            raise SpecliError(f"{self._program.name}: {error!r}\n{self._log_tail()}") from error
        finally:
            connection.close()


def read_run(events: Iterable[tuple[float, dict[str, Any]]], started: float) -> Run:
    """Make a run of what the server streams: an event a token, then one with its counts.

    A token that ends in the middle of a character has no event of its own; the next one shows that it was there.
    """
    text = ""
    arrivals: dict[int, float] = {}
    event: dict[str, Any] = {}
    for at, event in events:
        text += event["content"]
        arrivals.setdefault(event["tokens_predicted"], at - started)
    if not event.get("stop"):
        raise SpecliError("the server's answer broke off")
    n_tokens = event["tokens_predicted"]
    n_first = min(arrivals)
    accepted = event["timings"].get("draft_n_accepted", 0)
    return Run(
        text=text,
        n_tokens=n_tokens,
        n_first=n_first,
        first_seconds=arrivals[n_first],
        seconds=arrivals[n_tokens],
        drafted=event["timings"].get("draft_n", 0),
        accepted=accepted,
        rounds=n_tokens - 1 - accepted,  # its first token comes from the prompt's pass, then each pass adds one
        round_tokens=n_tokens - 1,
    )


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[float, dict[str, Any]]]:
    """Server-sent events and when they arrived."""
    for line in response:
        if line.startswith(b"data: "):
            yield time.perf_counter(), json.loads(line[len(b"data: ") :])
