"""A progress bar with rate and remaining time, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console


class RateColumn(ProgressColumn):
    """The recent number of items a second."""

    def render(self, task: Task) -> Text:
        """Return the current rate."""
        return Text(f"{task.speed:.1f}/s" if task.speed else "", "dim")


@contextmanager
def progress_bar(label: str, total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """Show a bar for the length of the block, and yield a function that sets the number of completed items.

    Text that is printed on the same console appears above the bar.
    """
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda completed: bar.update(task, completed=completed)
