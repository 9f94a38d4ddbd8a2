"""A progress bar that only appears when there is something to wait for."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column


class DelayedBar:
    """A bar that is drawn from the first report after a delay, and leaves nothing behind.

    Args:
        console: Where.
        label: What is being waited for.
        delay: Seconds before the bar is worth showing.
    """

    def __init__(self, console: Console, label: str, delay: float) -> None:
        self._console = console
        self._label = label
        self._appears = time.monotonic() + delay
        self._progress: Progress | None = None
        self._task: Any = None
        self._closed = False

    def update(self, fraction: float, label: str | None = None) -> None:
        """Report the fraction done, 0 to 1, perhaps of something else than before."""
        if self._closed or time.monotonic() < self._appears:
            return
        if self._progress is None:
            column = TextColumn("{task.description}", markup=False, table_column=_ELLIPSIS)
            self._progress = Progress(
                column, BarColumn(bar_width=24), TaskProgressColumn(), console=self._console, transient=True
            )
            self._task = self._progress.add_task(self._label, total=1.0)
            self._progress.start()
        self._progress.update(self._task, completed=fraction, description=label)

    def close(self) -> None:
        """Erase the bar; later reports are ignored."""
        self._closed = True
        if self._progress:
            self._progress.stop()
            self._progress = None


_ELLIPSIS = Column(no_wrap=True, overflow="ellipsis", ratio=1)
