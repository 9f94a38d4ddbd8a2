"""``--help`` in llama.cpp's plain shape: every spelling in full, whatever the terminal's width, under headings."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class _WithExamples:
    """Help that ends with command lines to copy, unwrapped (``examples.py``)."""

    epilog: str | None

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they are."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"  {line}\n")


class GroupedHelp(_WithExamples, TyperCommand):
    """A command whose options are listed under the headings they were given."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, heading by heading."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                is_argument = parameter.param_type_name == "argument"
                heading = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
                groups.setdefault(heading, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records, col_max=24)


class CommandGroup(_WithExamples, TyperGroup):
    """A command that has commands of its own."""
