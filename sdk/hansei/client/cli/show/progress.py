"""A progress bar with rate and remaining time, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class Rate(ProgressColumn):
    """Items a second, over the last ones."""

    def render(self, task: Task) -> Text:
        """The rate as it is now."""
        return Text(f"{task.speed:.1f}/s" if task.speed else "", "dim")


@contextmanager
def progress(label: str, total: int, console: Console) -> Iterator[Callable[[], None]]:
    """A bar over `total` items while the block lasts; gives what moves it on by one.

    Text that is printed on the same console meanwhile appears above the bar.
    """
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)
