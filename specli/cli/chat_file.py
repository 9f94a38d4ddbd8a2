"""Conversations in files: ``specli.chat/1``, which docs/formats.md describes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specli.cli.failures import of_system
from specli.cli.text_files import read_text, without_surrogates
from specli.decoding.conversation import Conversation, conversation_of
from specli.errors import SpecliError
from specli.whole_file import write_whole

_SCHEMA = "specli.chat/1"


def save_conversation(path: Path, conversation: Conversation, facts: Mapping[str, Any]) -> None:
    """Write a conversation; what is there is replaced only if it is one, too.

    Args:
        path: The file.
        conversation: All of it, with what the model does not see any more.
        facts: What else is to be known of it.

    Raises:
        SpecliError: The file is something else, or cannot be written.
    """
    document = {"schema": _SCHEMA, "messages": conversation.messages, **facts}
    try:
        if path.is_file() and path.stat().st_size:
            _check_replaceable(path)
        write_whole(path, without_surrogates(json.dumps(document, ensure_ascii=False, indent=1)) + "\n")
    except OSError as error:
        raise of_system(error) from error


def load_conversation(path: Path) -> Conversation:
    """Read a conversation.

    Raises:
        SpecliError: There is none, or it is damaged.
    """
    document = _read(path)
    try:
        messages = [{"role": str(one["role"]), "content": _text(one["content"])} for one in document["messages"]]
        return conversation_of(messages)
    except (KeyError, TypeError, ValueError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise SpecliError(f"{path}: a damaged conversation: {why}") from error


def _check_replaceable(path: Path) -> None:
    try:
        _read(path)
    except SpecliError as error:
        raise SpecliError(f"{error.message}; it is not replaced", "Choose another name.") from error


def _read(path: Path) -> dict[str, Any]:
    """What a file holds that claims to be a conversation.

    Raises:
        SpecliError: It cannot be read, or does not.
    """
    text = read_text(path)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecliError(f"{path}: not a conversation that /save wrote ({error})") from error
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise SpecliError(f"{path}: not a conversation that /save wrote (its schema is not {_SCHEMA})")
    return document


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a message that is not text")
    return without_surrogates(value)
