"""What begins with a slash in a conversation."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from specli.cli.chat_file import load_conversation, save_conversation
from specli.cli.chat_session import Session
from specli.cli.chat_settings import SETTINGS
from specli.decoding.conversation import Conversation
from specli.errors import SpecliError
from specli.report.chat_report import print_stats
from specli.report.plain import plain


class Left(Exception):
    """The conversation is over."""


class Command(NamedTuple):
    """A command.

    Attributes:
        arguments: In words; empty: it takes none.
        help: What it does.
        run: Does it.
    """

    arguments: str
    help: str
    run: Callable[[Session, str], None]


def is_command(message: str) -> bool:
    """Whether a message is a command; two slashes begin a message with one."""
    return message.startswith("/") and not message.startswith("//")


def run_command(session: Session, line: str) -> None:
    """Run a command.

    Raises:
        SpecliError: There is no such command, or it could not be done.
        Left: The conversation is over.
    """
    name, _, rest = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        close = difflib.get_close_matches(name, COMMANDS, 1, 0.0)
        raise SpecliError(
            f"{name}: no such command",
            f"The closest is {close[0]}; /help lists all. A message that begins with a slash is written with two.",
        )
    if rest.strip() and not command.arguments:
        raise SpecliError(f"{name} takes nothing after it: {rest.strip()}")
    command.run(session, rest.strip())


def _help(session: Session, _rest: str) -> None:
    table = _table()
    for name, command in COMMANDS.items():
        table.add_row(plain(f"{name} {command.arguments}".strip()), plain(command.help))
    session.console.print(table)
    session.console.print(plain(_KEYS), highlight=False)


_KEYS = """
Alt-Enter, or Esc and Enter, begins a new line; so does Enter after a backslash at a line's end. Up brings back what \
was said before, Tab completes commands. Ctrl-C stops an answer, Ctrl-D leaves. A message that begins with / is \
written with //."""


def _system(session: Session, text: str) -> None:
    conversation = session.conversation
    if text:
        conversation.system = None if text == '""' else text
    elif conversation.system is None:
        session.console.print("no system message")
    else:
        session.console.print(plain(conversation.system), highlight=False)


def _save(session: Session, name: str) -> None:
    path = _path("/save", name)
    pair = session.pair
    facts = {
        "target": pair.target.model.path.name,
        "draft": pair.draft.model.path.name if pair.draft else None,
        "settings": {setting.name: setting.shown(session.options) for setting in SETTINGS.values()},
    }
    save_conversation(path, session.conversation, facts)
    _say(session, f"saved {_counted(session)} to {path}")


def _load(session: Session, name: str) -> None:
    session.begin(load_conversation(_path("/load", name)))
    _say(session, f"loaded {_counted(session)}")


def _retry(session: Session, _rest: str) -> None:
    session.retry()


def _clear(session: Session, _rest: str) -> None:
    session.begin(Conversation(session.conversation.system))
    _say(session, "all turns are forgotten; the system message stays")


def _stats(session: Session, _rest: str) -> None:
    print_stats(session.console, session.answers, session.n_used, session.pair.target.n_ctx)


def _set(session: Session, rest: str) -> None:
    name, _, value = rest.partition(" ")
    if value:
        session.change_setting(name, value.strip())
        return
    if name and name not in SETTINGS:
        session.change_setting(name, "")
    table = _table()
    for setting in SETTINGS.values():
        if name in ("", setting.name):
            table.add_row(setting.name, setting.shown(session.options), plain(setting.accepts))
    session.console.print(table, highlight=False)


def _quit(_session: Session, _rest: str) -> None:
    raise Left


COMMANDS = {
    "/help": Command("", "show this", _help),
    "/system": Command("[TEXT]", 'show or set the system message, from the next answer on; "" removes it', _system),
    "/save": Command("FILE", "write the conversation to a file (JSON)", _save),
    "/load": Command("FILE", "go on with a saved conversation, its system message included", _load),
    "/retry": Command("", "answer the last message again, by other draws", _retry),
    "/clear": Command("", "forget all turns", _clear),
    "/stats": Command("", "accepted tokens, speed and context used, so far", _stats),
    "/set": Command("[NAME [VALUE]]", "show the settings, or change one from the next answer on", _set),
    "/quit": Command("", "leave; so does Ctrl-D", _quit),
}
"""All of them by name."""


def _path(command: str, name: str) -> Path:
    if not name:
        raise SpecliError(f"{command}: which file?", f"{command} FILE")
    try:
        return Path(name).expanduser().resolve()
    except (OSError, ValueError, RuntimeError) as error:  # links in a circle, a NUL, ~nobody
        raise SpecliError(f"{command} {name}: {error}") from error


def _counted(session: Session) -> str:
    n_turns = len(session.conversation.turns)
    return "1 turn" if n_turns == 1 else f"{n_turns} turns"


def _say(session: Session, text: str) -> None:
    session.console.print(plain(text), highlight=False)


def _table() -> Table:
    return Table.grid(padding=(0, 2))
