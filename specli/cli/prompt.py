"""The prompt: where it comes from, and how it becomes tokens."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from specli.errors import SpecliError, UsageError
from specli.llama.chat import apply_chat_template, chat_template
from specli.llama.model import Model

_PANEL = "Prompt"


@dataclass(frozen=True)
class PromptFlags:
    """The prompt, its chat template and system message."""

    argument: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", show_default=False, help="What to ask. Default: standard input.")
    ] = None
    prompt: Annotated[
        str | None, typer.Option("-p", "--prompt", rich_help_panel=_PANEL, metavar="TEXT", help="The same.")
    ] = None
    file: Annotated[
        Path | None, typer.Option("-f", "--file", rich_help_panel=_PANEL, metavar="FILE", help="Read it from a file.")
    ] = None
    system: Annotated[
        str | None,
        typer.Option(
            "-sys", "--system-prompt", "--system", rich_help_panel=_PANEL, metavar="TEXT", help="The system message.",
        ),
    ] = None  # fmt: skip
    system_file: Annotated[
        Path | None,
        typer.Option(
            "-sysf", "--system-prompt-file", rich_help_panel=_PANEL, metavar="FILE", help="Read it from a file.",
        ),
    ] = None  # fmt: skip
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", rich_help_panel=_PANEL,
            help="Continue the text as it is, without a chat template. [dim](specli’s own)[/]",
        ),
    ] = False  # fmt: skip
    template: Annotated[
        str | None,
        typer.Option(
            "--chat-template", envvar="LLAMA_ARG_CHAT_TEMPLATE", rich_help_panel=_PANEL, metavar="JINJA",
            help="A chat template to use in place of the model's own.",
        ),
    ] = None  # fmt: skip
    template_file: Annotated[
        Path | None,
        typer.Option(
            "--chat-template-file", envvar="LLAMA_ARG_CHAT_TEMPLATE_FILE", rich_help_panel=_PANEL, metavar="FILE",
            help="Read it from a file.",
        ),
    ] = None  # fmt: skip
    reasoning: Annotated[
        str,
        typer.Option(
            "-rea", "--reasoning", envvar="LLAMA_ARG_REASONING", rich_help_panel=_PANEL, metavar="on|off|auto",
            help="Thinking, where the template has it; auto: as the template likes.",
        ),
    ] = "auto"  # fmt: skip


def read_prompt(flags: PromptFlags) -> str:
    """Return the prompt's text from the one place that was named, else from standard input.

    Raises:
        UsageError: More than one place was named.
        SpecliError: A file that cannot be read, or an empty prompt.
    """
    named = [name for name, value in (("PROMPT", flags.argument), ("-p", flags.prompt), ("-f", flags.file)) if value is not None]  # fmt: skip
    if len(named) > 1:
        raise UsageError(f"the prompt is given more than once: {' and '.join(named)}")
    if flags.file is not None:
        text = _read(flags.file)
    elif (given := flags.argument if flags.argument is not None else flags.prompt) is not None:
        text = given
    else:
        text = _ask() if sys.stdin.isatty() else sys.stdin.buffer.read().decode("utf-8", errors="replace")
    if not text.strip():
        raise UsageError("the prompt is empty", "Give it as an argument, with -p, -f FILE, or on standard input.")
    return text


def prompt_tokens(model: Model, flags: PromptFlags, text: str) -> list[int]:
    """Apply the chat template, if there is one to apply, and tokenise.

    Raises:
        UsageError: Options that exclude each other.
        SpecliError: The template refuses the messages.
    """
    if flags.reasoning not in ("on", "off", "auto"):
        raise UsageError(f"--reasoning: {flags.reasoning!r} is not one of on, off, auto")
    thinking = {"on": True, "off": False, "auto": None}[flags.reasoning]
    system = flags.system if flags.system_file is None else _read(flags.system_file)
    template = None if flags.raw else _template(flags) or chat_template(model)
    if template is None:
        if system is not None:
            raise UsageError("--system needs a chat template", "Leave out --raw, or name one with --chat-template.")
        return model.vocab.tokenize(text, add_special=True, parse_special=not flags.raw)
    messages = [{"role": "system", "content": system}] if system is not None else []
    messages.append({"role": "user", "content": text})
    return model.vocab.tokenize_chat(apply_chat_template(model, template, messages, thinking=thinking))


def _template(flags: PromptFlags) -> str | None:
    if flags.template_file is not None:
        return _read(flags.template_file)
    if flags.template is not None and "{" not in flags.template:
        raise UsageError(
            f"--chat-template {flags.template}: not a Jinja template",
            "Give the template's text, or its file with --chat-template-file.",
        )
    return flags.template


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SpecliError(f"{path}: cannot be read: {error.strerror}") from error


def _ask() -> str:
    """Ask for a prompt on the terminal; end of input is an empty one."""
    print("Prompt: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()
