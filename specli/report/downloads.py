"""Downloads as they go on: a bar a file, its rate and the time left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import TransferSpeedColumn as RateColumn

from specli.report.plain import plain
from specli.report.text_cursor import printable


@contextmanager
def download_view() -> Iterator[Callable[[str, int, int], None]]:
    """Show downloads on stderr; call the result with a file's name, its bytes so far and in all.

    Where stderr is no terminal, a file is announced when it begins.
    """
    console = Console(stderr=True)
    tasks: dict[str, TaskID] = {}
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        RateColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def show(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(printable(name))
                if not console.is_terminal:
                    console.print(plain(f"specli: downloading {name}"), soft_wrap=True)
            progress.update(tasks[name], completed=done, total=total or None)

        yield show
