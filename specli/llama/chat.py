"""Chat messages to prompt text, by the template in the model's file or one the user names."""

from collections.abc import Sequence
from typing import Any

import llama_cpp
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from specli.errors import SpecliError
from specli.llama.model import Model

Message = dict[str, str]
"""{'role': 'system' | 'user' | 'assistant', 'content': text}"""


def chat_template(model: Model) -> str | None:
    """Return the model's own chat template, or None."""
    template = llama_cpp.llama_model_chat_template(model.handle, None)
    return template.decode("utf-8", errors="replace") if template else None


def check_chat_template(template: str, name: str) -> None:
    """Refuse a template that does not parse.

    Raises:
        SpecliError: Beginning with the name.
    """
    try:
        Jinja2ChatFormatter(template, eos_token="", bos_token="")
    except Exception as error:
        raise SpecliError(f"{name}: not a Jinja template that can be used: {error}") from error


def apply_chat_template(model: Model, template: str, messages: list[Message], *, thinking: bool | None = None) -> str:
    """Render messages, ready for the assistant to answer.

    Args:
        model: The model whose BOS and EOS the template may print.
        template: A Jinja template, run in a sandbox.
        messages: The conversation so far.
        thinking: Passed as ``enable_thinking``, which templates of reasoning models look at; None: their default.

    Raises:
        SpecliError: The template refuses the messages or does not parse.
    """
    options: dict[str, Any] = {} if thinking is None else {"enable_thinking": thinking}
    try:
        formatter = Jinja2ChatFormatter(
            template, eos_token=_text(model, model.vocab.eos), bos_token=_text(model, model.vocab.bos)
        )
        return str(formatter(messages=messages, **options).prompt)
    except Exception as error:  # a template is a program: dividing by zero is its fault as much as bad syntax
        source = model.path.name if template == chat_template(model) else "--chat-template"
        raise SpecliError(
            f"{source}: the template does not take this prompt: {error}",
            "Give another template with --chat-template, or use --raw to continue the text as it is.",
        ) from error


def chat_tokens(model: Model, messages: Sequence[Message]) -> list[int]:
    """The tokens of a conversation in the model's own chat format; without a template, its texts line by line.

    Raises:
        SpecliError: The template refuses the messages.
    """
    template = chat_template(model)
    if template is None:
        text = "\n".join(message["content"] for message in messages)
        return model.vocab.tokenize(text, add_special=True, parse_special=False)
    return model.vocab.tokenize_chat(apply_chat_template(model, template, list(messages)))


def _text(model: Model, token: int) -> str:
    return model.vocab.raw_text(token).decode("utf-8", errors="replace")
