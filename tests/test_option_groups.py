"""Groups of options: what a command line gave them, told again as a command line."""

import shlex

import pytest
import typer
from typer.testing import CliRunner

from specli.cli.draft_options import DraftFlags
from specli.cli.groups import given, takes_options
from specli.cli.lookup_options import LookupFlags
from specli.cli.target_options import TargetFlags


def parse(words):
    """The groups a command is called with."""
    called = []

    @takes_options
    def command(target: TargetFlags, draft: DraftFlags, lookups: LookupFlags) -> None:
        called.append((target, draft, lookups))

    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return called[0]


LINES = [
    "",
    "-ngl 9 -dev CUDA0 -cmoe -t 4 -ctk q8_0 -ctv q8_0 -c 4096 -fa on",
    "-nkvo --no-mmap --override-kv a=int:1 --override-kv b=str:x -ot 'a b=CPU'",
    "-ngld 0 -cmoed -ctkd q8_0 -td 2 --draft-ctx-size 512",
    "--corpus 'a b.txt' --corpus c.txt --spec-ngram-mod-n-match 12",
]


@pytest.mark.parametrize("line", LINES)
def test_given_words_are_parsed_to_the_same_options(line):
    groups = parse(shlex.split(line))
    words = [word for group in groups for word in given(group)]
    assert parse(words) == groups
    assert len(words) == len(shlex.split(line))


def test_what_llama_cpp_does_not_have_can_be_left_out():
    _, draft, lookups = parse(shlex.split("-ngld 0 --draft-ctx-size 512 --corpus c.txt --spec-ngram-mod-n-match 12"))
    assert given(draft, ours=False) == ["-ngld", "0"]
    assert given(lookups, ours=False) == ["--spec-ngram-mod-n-match", "12"]
