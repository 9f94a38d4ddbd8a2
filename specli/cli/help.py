"""``--help`` in llama.cpp's plain shape: every spelling in full, whatever the terminal's width, under headings."""

from typing import Any

from typer.core import TyperCommand


class GroupedHelp(TyperCommand):
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
