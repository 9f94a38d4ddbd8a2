"""``--help`` of every command ends with examples that can be copied."""

import re
import shlex

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from specli.cli.app import app
from specli.cli.examples import EXAMPLES

COMMANDS = get_command(app).commands
WIDTH = 80


def test_every_command_has_some():
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_ends_with_them(name):
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "40"}).output
    examples = shown.partition("\nExamples:\n")[2].splitlines()
    assert examples == [f"  {line}" for line in EXAMPLES[name].splitlines()]
    assert 2 <= len(examples) <= 4 and max(map(len, examples)) <= WIDTH


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines.splitlines()])
def test_they_say_what_there_is(line):
    words = shlex.split(line.partition(" < ")[0])
    assert words[0] == "specli"
    command = COMMANDS[words[1]]
    with command.make_context(words[1], words[2:], resilient_parsing=True) as context:
        assert not [word for word in context.args if re.match(r"--?\w", word)]
    spellings = {spelling for parameter in command.params for spelling in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= spellings
