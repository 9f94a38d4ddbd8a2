"""Groups of options that several commands share, as dataclasses."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import typer

OURS = "(specli's own)"
"""Marks options that llama.cpp does not have."""


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a Typer command take whole groups of options.

    A parameter annotated with a dataclass becomes one option for each of its fields, whose annotations are
    ``Annotated[type, typer.Option(...)]`` and whose defaults are the options'.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters = []
    for parameter in inspect.signature(command).parameters.values():
        if group := groups.get(parameter.name):
            parameters += _options(group)
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
        command(**values)

    del flat.__wrapped__  # else the original signature is what Typer sees
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _options(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(group)
    ]


def given(group: Any, *, ours: bool = True) -> list[str]:
    """The words of a command line that give a group its values, where these are not the defaults.

    Args:
        group: An instance of such a dataclass.
        ours: Whether options that llama.cpp does not have are among them.
    """
    hints = get_type_hints(type(group), include_extras=True)
    words: list[str] = []
    for field in dataclasses.fields(group):
        value, info = getattr(group, field.name), hints[field.name].__metadata__[0]
        if value == field.default or (not ours and info.help.endswith(OURS)):
            continue
        spelling = info.default  # where Typer keeps the first, in Annotated
        if isinstance(value, bool):
            words.append(spelling.split("/")[0 if value else 1])
        else:
            for one in value if isinstance(value, list) else [value]:
                words += [spelling, str(one)]
    return words


def option(
    panel: str, names: str, help: str, *, metavar: str | None = None, env: str | None = None, **more: Any
) -> Any:
    """An option under a heading of ``--help``.

    Args:
        panel: The heading.
        names: Its spellings, separated by spaces; llama.cpp's own are among them.
        help: One sentence.
        metavar: What stands for its value.
        env: llama.cpp's environment variable for it.
        **more: Anything else ``typer.Option`` takes.
    """
    return typer.Option(
        *names.split(), help=help, metavar=metavar, envvar=env, show_envvar=False, rich_help_panel=panel, **more
    )
