"""The prompt: where it comes from, and how it becomes tokens."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from specli.cli.groups import OURS, option
from specli.cli.template_options import PANEL, TemplateFlags
from specli.cli.text_files import decoded, read_text
from specli.errors import UsageError
from specli.llama.chat import apply_chat_template, chat_template
from specli.llama.model import Model


@dataclass(frozen=True)
class PromptFlags(TemplateFlags):
    """The prompt, its chat template and system message."""

    argument: Annotated[
        str | None, typer.Argument(metavar="PROMPT", show_default=False, help="What to ask. Default: standard input.")
    ] = None
    prompt: Annotated[str | None, option(PANEL, "-p --prompt", "What to ask, as an option.", metavar="TEXT")] = None
    file: Annotated[Path | None, option(PANEL, "-f --file", "Read the prompt from a file.", metavar="FILE")] = None
    raw: Annotated[bool, option(PANEL, "--raw", f"Continue the text as it is, without a chat template. {OURS}")] = False


def read_prompt(flags: PromptFlags, usual: str | None = None) -> str:
    """Return the prompt's text from the one place that was named, else from standard input.

    Args:
        flags: Where it is.
        usual: What it is where nobody gives one, on a terminal or with an empty standard input.

    Raises:
        UsageError: More than one place was named, or options that exclude each other.
        SpecliError: A file that cannot be read, or an empty prompt.
    """
    places = {"PROMPT": flags.argument, "-p": flags.prompt, "-f": flags.file}
    named = [name for name, value in places.items() if value is not None]
    if len(named) > 1:
        raise UsageError(f"the prompt is given more than once: {' and '.join(named)}")
    flags.check_template()
    _check_raw(flags)
    if flags.file is not None:
        text = read_text(flags.file).removesuffix("\n")  # as llama.cpp does: it ends the file's last line
    elif (given := flags.argument if flags.argument is not None else flags.prompt) is not None:
        text = given
    else:
        text = _from_input(asking=usual is None).removesuffix("\n")
        text = text if text.strip() else usual or ""
    if not text.strip():
        raise UsageError("the prompt is empty", "Give it as an argument, with -p, -f FILE, or on standard input.")
    return text


def prompt_tokens(model: Model, flags: PromptFlags, text: str) -> list[int]:
    """Apply the chat template, if there is one to apply, and tokenise.

    Raises:
        UsageError: Options that exclude each other.
        SpecliError: The template refuses the messages.
    """
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
    return model.vocab.tokenize_chat(apply_chat_template(model, template, messages, thinking=flags.thinking()))


def _check_raw(flags: PromptFlags) -> None:
    """Refuse what only a chat template would use."""
    of_template = {
        "-sys": flags.system,
        "-sysf": flags.system_file,
        "--chat-template": flags.template,
        "--chat-template-file": flags.template_file,
        "--reasoning": None if flags.thinking() is None else flags.reasoning,
    }
    for name, value in of_template.items():
        if flags.raw and value is not None:
            raise UsageError(f"--raw uses no chat template, so {name} would do nothing", "Leave out one of them.")


def _from_input(*, asking: bool) -> str:
    """What standard input gives: a line that is asked for on a terminal, if that is wanted; else all of it."""
    if not sys.stdin.isatty():
        return decoded(sys.stdin.buffer.read(), "standard input")
    if not asking:
        return ""
    print("Prompt: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()
