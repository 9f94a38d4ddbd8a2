"""Where the messages of a conversation come from: a terminal, or a pipe that has one on each line."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from specli.cli.child import say_answered
from specli.cli.failures import end_is_asked, forget_interrupts, hold_interrupts, interrupt_once, note, raise_held
from specli.cli.text_files import decoded, without_surrogates

_WATCHING = 0.1  # seconds between two looks whether the end was asked for


class Messages(Protocol):
    """Gives one message after the other."""

    def read(self) -> str | None:
        """The next message; None: there are no more."""


class PipedMessages:
    """A message a line; a backslash at its end goes on with the next one."""

    def __init__(self) -> None:
        self._n_lines = 0

    def read(self) -> str | None:
        """The next message that says something.

        Raises:
            SpecliError: A line of it is no text; what follows can be read all the same.
        """
        interrupt_once()  # waiting for a line must not hold an interruption back
        try:
            raise_held()
            while lines := self._lines():
                if message := "\n".join(lines).strip():
                    return message
            return None
        finally:
            hold_interrupts()

    def _lines(self) -> list[str]:
        """The lines of the next message; none at the end."""
        lines: list[bytes] = []
        while line := sys.stdin.buffer.readline():
            line = line.rstrip(b"\r\n")
            lines.append(line.removesuffix(b"\\"))
            if not line.endswith(b"\\"):
                break
        first = self._n_lines + 1
        self._n_lines += len(lines)
        return [decoded(line, f"standard input, line {number}") for number, line in enumerate(lines, first)]


class TypedMessages:
    """A prompt on the terminal, with editing, history and completion.

    Args:
        commands: To be completed, each with what can follow it.
    """

    def __init__(self, commands: Mapping[str, Iterable[str]]) -> None:
        self._session = _prompt_session(commands)

    def read(self) -> str | None:
        """Ask for a message until there is one."""
        while True:
            if _is_dumb():
                interrupt_once(signal.SIGTERM)  # the prompt there has no ``pre_run``
            _go_on()
            try:
                message = self._session.prompt("> ", pre_run=self._begin_to_watch)
            except EOFError:
                return None
            except _Interrupted:
                note("Ctrl-D or /quit leaves")
                continue
            finally:
                hold_interrupts()  # the prompt leaves none of them as it was
            _go_on()  # what came just before the prompt was no answer to it
            if message := without_surrogates(message).strip():
                return message

    def _begin_to_watch(self) -> None:
        """Let SIGTERM end the prompt, too; the loop's own handlers would lose one that comes as it ends."""
        app = self._session.app

        async def watch() -> None:
            while not end_is_asked():
                await asyncio.sleep(_WATCHING)
            if not app.is_done:
                app.exit(exception=KeyboardInterrupt)

        app.create_background_task(watch())


def _go_on() -> None:
    """Forget interruptions, here and in the process that waits for this one."""
    forget_interrupts()
    say_answered()


class _Interrupted(Exception):
    """Ctrl-C where there was nothing to clear."""


def _is_dumb() -> bool:
    from prompt_toolkit.utils import is_dumb_terminal

    return is_dumb_terminal()


def _prompt_session(commands: Mapping[str, Iterable[str]]) -> Any:
    """prompt_toolkit's session; only here is it imported, for it takes a while."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.output import create_output
    from prompt_toolkit.output.vt100 import Vt100_Output
    from prompt_toolkit.shortcuts import CompleteStyle

    output = create_output(sys.stdout if sys.stdout.isatty() else sys.stderr)
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False  # terminals that do not answer would be complained about
    with create_app_session(output=output):  # given to the prompt itself, it would not look whether it is a dumb one
        return PromptSession(
            history=InMemoryHistory(),
            multiline=True,
            prompt_continuation="  ",
            key_bindings=_keys(),
            completer=_completer(commands),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            enable_suspend=True,
        )


def _keys() -> Any:
    from prompt_toolkit.enums import DEFAULT_BUFFER
    from prompt_toolkit.filters import has_focus
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)  # not while searching the history

    @keys.add("enter", filter=typing)
    def _enter(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    def _alt_enter(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=typing)
    @keys.add("<sigint>")
    def _ctrl_c(event: Any) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=_Interrupted)

    return keys


def _completer(commands: Mapping[str, Iterable[str]]) -> Any:
    from prompt_toolkit.completion import Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document

    class CommandCompleter(Completer):
        """Commands, then what can follow them: words, or else a file."""

        def get_completions(self, document: Document, complete_event: Any) -> Iterator[Completion]:
            name, space, rest = document.text_before_cursor.partition(" ")
            if space and name in files:
                yield from PathCompleter(expanduser=True).get_completions(Document(rest), complete_event)
                return
            words, start = (commands.get(name, ()), rest) if space else (commands, name)
            if start or space:
                yield from (Completion(word, -len(start)) for word in words if word.startswith(start))

    files = {"/save", "/load"}
    return CommandCompleter()
