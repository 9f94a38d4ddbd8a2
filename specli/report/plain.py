"""Text that others wrote, for rich: no markup is read in it, and nothing in it moves the cursor."""

from rich.console import Console
from rich.text import Text

from specli.report.text_cursor import printable


class PipedConsole(Console):
    """stdout, which may be a pipe: who closes it has had enough, which is no failure."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command (rich would exit with 1)."""
        raise BrokenPipeError


def plain(text: str) -> Text:
    """The text as it is."""
    return Text(printable(text))
