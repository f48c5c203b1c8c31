"""The order in which the workers of pytest-xdist get test files."""

from __future__ import annotations

from typing import Any

from xdist.scheduler.loadfile import LoadFileScheduling  # type: ignore[import-untyped]


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Gives files to workers, also after one of them crashed.

    pytest-xdist 3.8 puts all files of a crashed worker back into the queue. A worker that gets a finished one has
    nothing to run and never asks for more, so that in the end all wait for each other.
    """

    def remove_node(self, node: Any) -> str | None:
        """Return the test that a crashed worker ran, and queue the files that it had not finished."""
        files = self.assigned_work[node]
        self.assigned_work[node] = {file: tests for file, tests in files.items() if not all(tests.values())}
        crashed: str | None = super().remove_node(node)
        return crashed
