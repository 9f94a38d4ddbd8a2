"""llama.cpp's options of what goes around a prompt: system message, chat template, reasoning."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from specli.cli.groups import option
from specli.cli.option_values import switch
from specli.cli.text_files import read_text, without_surrogates
from specli.errors import UsageError
from specli.llama.chat import check_chat_template

PANEL = "Prompt"


@dataclass(frozen=True)
class TemplateFlags:
    """The chat template and the system message."""

    system: Annotated[
        str | None, option(PANEL, "-sys --system-prompt --system", "The system message.", metavar="TEXT")
    ] = None
    system_file: Annotated[
        Path | None, option(PANEL, "-sysf --system-prompt-file", "Read the system message from a file.", metavar="FILE")
    ] = None
    template: Annotated[
        str | None,
        option(
            PANEL,
            "--chat-template",
            "A chat template to use in place of the model's own.",
            metavar="JINJA",
            env="LLAMA_ARG_CHAT_TEMPLATE",
        ),
    ] = None
    template_file: Annotated[
        Path | None,
        option(
            PANEL,
            "--chat-template-file",
            "Read the chat template from a file.",
            metavar="FILE",
            env="LLAMA_ARG_CHAT_TEMPLATE_FILE",
        ),
    ] = None
    reasoning: Annotated[
        str,
        option(
            PANEL,
            "-rea --reasoning",
            "Thinking, where the template has it; auto: as the template likes.",
            metavar="on|off|auto",
            env="LLAMA_ARG_REASONING",
        ),
    ] = "auto"

    def system_message(self) -> str | None:
        """The system message, if there is one."""
        return _given(self.system, self.system_file)

    def chat_template(self) -> str | None:
        """The template to use in place of the model's own, if there is one."""
        return _given(self.template, self.template_file)

    def thinking(self) -> bool | None:
        """Whether the template is told to let the model think; None: as it likes."""
        return {"on": True, "off": False, "auto": None}[switch("--reasoning", self.reasoning)]

    def check_template(self) -> None:
        """Refuse options of which one would be ignored, files that cannot be read, and what is no template.

        Raises:
            UsageError: Naming them.
            SpecliError: Naming the file or the option.
        """
        system = {"-sys": self.system, "-sysf": self.system_file}
        template = {"--chat-template": self.template, "--chat-template-file": self.template_file}
        for group in (system, template):
            if len(given := [name for name, value in group.items() if value is not None]) > 1:
                raise UsageError(f"{' and '.join(given)} exclude each other")
        if self.template is not None and "{" not in self.template:
            raise UsageError(
                f"--chat-template {self.template}: not a Jinja template",
                "Give the template's text, or its file with --chat-template-file.",
            )
        if (jinja := self.chat_template()) is not None:
            file = self.template_file
            check_chat_template(jinja, "--chat-template" if file is None else f"--chat-template-file {file}")
        self.system_message()
        self.thinking()


_read_once = cache(read_text)  # it may be a pipe


def _given(text: str | None, file: Path | None) -> str | None:
    if file is not None:
        return _read_once(file)
    return None if text is None else without_surrogates(text)
