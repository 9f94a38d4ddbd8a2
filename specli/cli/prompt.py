"""The prompt: where it comes from, and how it becomes tokens."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from specli.cli.groups import OURS, option
from specli.cli.option_values import switch
from specli.errors import SpecliError, UsageError
from specli.llama.chat import apply_chat_template, chat_template
from specli.llama.model import Model

_PANEL = "Prompt"


@dataclass(frozen=True)
class PromptFlags:
    """The prompt, its chat template and system message."""

    argument: Annotated[
        str | None, typer.Argument(metavar="PROMPT", show_default=False, help="What to ask. Default: standard input.")
    ] = None
    prompt: Annotated[str | None, option(_PANEL, "-p --prompt", "What to ask, as an option.", metavar="TEXT")] = None
    file: Annotated[Path | None, option(_PANEL, "-f --file", "Read the prompt from a file.", metavar="FILE")] = None
    system: Annotated[
        str | None, option(_PANEL, "-sys --system-prompt --system", "The system message.", metavar="TEXT")
    ] = None
    system_file: Annotated[
        Path | None,
        option(_PANEL, "-sysf --system-prompt-file", "Read the system message from a file.", metavar="FILE"),
    ] = None
    raw: Annotated[bool, option(_PANEL, "--raw", f"Continue the text as it is, without a chat template. {OURS}")] = (
        False
    )
    template: Annotated[
        str | None,
        option(
            _PANEL,
            "--chat-template",
            "A chat template to use in place of the model's own.",
            metavar="JINJA",
            env="LLAMA_ARG_CHAT_TEMPLATE",
        ),
    ] = None
    template_file: Annotated[
        Path | None,
        option(
            _PANEL,
            "--chat-template-file",
            "Read the chat template from a file.",
            metavar="FILE",
            env="LLAMA_ARG_CHAT_TEMPLATE_FILE",
        ),
    ] = None
    reasoning: Annotated[
        str,
        option(
            _PANEL,
            "-rea --reasoning",
            "Thinking, where the template has it; auto: as the template likes.",
            metavar="on|off|auto",
            env="LLAMA_ARG_REASONING",
        ),
    ] = "auto"

    def system_message(self) -> str | None:
        """The system message, if there is one."""
        return self.system if self.system_file is None else _read(self.system_file)

    def chat_template(self) -> str | None:
        """The template to use in place of the model's own, if there is one."""
        return self.template if self.template_file is None else _read(self.template_file)


def read_prompt(flags: PromptFlags) -> str:
    """Return the prompt's text from the one place that was named, else from standard input.

    Raises:
        UsageError: More than one place was named, or options that exclude each other.
        SpecliError: A file that cannot be read, or an empty prompt.
    """
    places = {"PROMPT": flags.argument, "-p": flags.prompt, "-f": flags.file}
    named = [name for name, value in places.items() if value is not None]
    if len(named) > 1:
        raise UsageError(f"the prompt is given more than once: {' and '.join(named)}")
    _check(flags)
    if flags.file is not None:
        text = _read(flags.file).removesuffix("\n")  # as llama.cpp does: it ends the file's last line
    elif (given := flags.argument if flags.argument is not None else flags.prompt) is not None:
        text = given
    else:
        text = _ask() if sys.stdin.isatty() else _decoded(sys.stdin.buffer.read(), "standard input")
        text = text.removesuffix("\n")
    if not text.strip():
        raise UsageError("the prompt is empty", "Give it as an argument, with -p, -f FILE, or on standard input.")
    return text


def prompt_tokens(model: Model, flags: PromptFlags, text: str) -> list[int]:
    """Apply the chat template, if there is one to apply, and tokenise.

    Raises:
        UsageError: Options that exclude each other.
        SpecliError: The template refuses the messages.
    """
    thinking = {"on": True, "off": False, "auto": None}[switch("--reasoning", flags.reasoning)]
    system = flags.system_message()
    template = None if flags.raw else flags.chat_template() or chat_template(model)
    if template is None:
        if system is not None:
            raise UsageError(
                f"{model.path.name} has no chat template to put a system message in", "Name one with --chat-template."
            )
        return model.vocab.tokenize(text, add_special=True, parse_special=not flags.raw)
    messages = [{"role": "system", "content": system}] if system is not None else []
    messages.append({"role": "user", "content": text})
    return model.vocab.tokenize_chat(apply_chat_template(model, template, messages, thinking=thinking))


def _check(flags: PromptFlags) -> None:
    """Refuse options of which one would be ignored."""
    system = {"-sys": flags.system, "-sysf": flags.system_file}
    template = {"--chat-template": flags.template, "--chat-template-file": flags.template_file}
    for group in (system, template):
        if len(given := [name for name, value in group.items() if value is not None]) > 1:
            raise UsageError(f"{' and '.join(given)} exclude each other")
    if flags.template is not None and "{" not in flags.template:
        raise UsageError(
            f"--chat-template {flags.template}: not a Jinja template",
            "Give the template's text, or its file with --chat-template-file.",
        )
    reasoning = {"--reasoning": None if switch("--reasoning", flags.reasoning) == "auto" else flags.reasoning}
    for name, value in {**system, **template, **reasoning}.items():
        if flags.raw and value is not None:
            raise UsageError(f"--raw uses no chat template, so {name} would do nothing", "Leave out one of them.")


def _read(path: Path) -> str:
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise SpecliError(f"{path}: cannot be read: {error.strerror}") from error


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecliError(f"{name}: not text in UTF-8 (byte {error.start})", "Convert it first, with iconv.") from error


def _ask() -> str:
    """Ask for a prompt on the terminal; end of input is an empty one."""
    print("Prompt: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()
