"""Text that others wrote, for rich: no markup is read in it, and nothing in it moves the cursor."""

from rich.text import Text

from specli.report.text_cursor import printable


def plain(text: str) -> Text:
    """The text as it is."""
    return Text(printable(text))
