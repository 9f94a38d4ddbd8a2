"""Commands that load models run in a child process, so that a crash inside llama.cpp is worded, not dumped.

The child owns everything, the terminal included. The parent waits, passes signals on, and puts the terminal back when
the child dies of one.
"""

import os
import signal
import subprocess
import sys
import time
from types import FrameType

from specli.cli.line_settings import line_settings, set_line_settings

_MARK = "SPECLI_CHILD"
_COMMANDS = {"run", "chat", "sweep", "verify", "inspect"}
_GOES_ON = "chat"  # after an interruption, at a terminal
_HELP = {"-h", "--help"}
_PASSED_ON = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
_ANSWERED = getattr(signal, "SIGUSR1", None)  # what the child says when it has answered all interruptions
_IMPATIENCE = 1.0  # seconds after which another Ctrl-C is another, and not the same

_DEATHS = {
    "SIGKILL": (
        "the process was killed, most likely because memory ran out",
        "Use a smaller context (-c), a quantised KV cache (-ctk q8_0 -ctv q8_0) or a smaller model.",
    ),
    "SIGABRT": (
        "llama.cpp gave up",
        "Most often memory ran out (a smaller context, -c, takes less) or the model file is damaged; --verbose tells "
        "its last words.",
    ),
    "SIGILL": (
        "llama.cpp was built with instructions that this CPU or compiler gets wrong",
        "Build it again: make rebuild (it works around GCC's miscompilation of AMX).",
    ),
}
_CRASH = (
    "llama.cpp crashed",
    "specli doctor tests whether it computes; run and sweep tell its last words with --verbose. A damaged model file "
    "can do this, or a model too new for this build.",
)


def wanted(arguments: list[str]) -> bool:
    """Whether a command line is one that should run in a child process, and does not yet."""
    return _MARK not in os.environ and arguments[:1] != [] and arguments[0] in _COMMANDS and not _HELP & set(arguments)


def run(arguments: list[str]) -> int:
    """Run a command line in a child process and return its exit code."""
    terminal = line_settings()
    goes_on = arguments[0] == _GOES_ON and terminal is not None
    interrupts: list[float] = []  # when

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            now = time.monotonic()
            if not interrupts or now - interrupts[-1] > _IMPATIENCE:
                interrupts.append(now)
                if goes_on and len(interrupts) == 2:
                    print("specli: still computing; Ctrl-C again ends the conversation", file=sys.stderr)
        if len(interrupts) > 1 + goes_on:
            started.kill()
        elif started.poll() is None and not (number == signal.SIGINT and goes_on):  # which the terminal sends to both
            started.send_signal(number)

    if _ANSWERED:
        signal.signal(_ANSWERED, lambda _number, _frame: interrupts.clear())
    started = _start([sys.executable, "-m", "specli", *arguments])
    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    code = started.wait()
    if code >= 0:
        return code
    _restore(terminal)
    if -code == signal.SIGINT or interrupts:
        return 130
    if -code in _PASSED_ON:
        return 128 - code
    name = signal.Signals(-code).name
    what, hint = _DEATHS.get(name, _CRASH)
    print(f"specli: error: {what} ({name})\n{hint}", file=sys.stderr)
    return 1


def _start(command: list[str]) -> "subprocess.Popen[bytes]":
    """Start the child with interruptions held back until ``let_interrupt``: Python itself would answer with traces."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(command, env={**os.environ, _MARK: str(os.getpid())})
    finally:
        let_interrupt()


def let_interrupt() -> None:
    """Let interruptions through that were held back when this process was started."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def say_answered() -> None:
    """Tell the parent that this process does not hang: all interruptions until now have been answered."""
    if _ANSWERED and os.environ.get(_MARK) == str(os.getppid()):
        os.kill(os.getppid(), _ANSWERED)


def _restore(settings: list[object] | None) -> None:
    """Put the terminal back: line settings, colours, cursor, and nothing below it."""
    if settings is not None:
        set_line_settings(settings)
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[0m\x1b[?25h\x1b[J\n")
