"""A record of effects outside of the process, and a process that dies at a chosen point."""

from __future__ import annotations

import os
import signal
from pathlib import Path


class World:
    """Each effect is a line in a file. The process gets SIGKILL at its n-th point: before and after each effect."""

    def __init__(self, folder: Path, kill_at: int = 0) -> None:
        self._file = folder / "effects"
        self._left = kill_at

    def perform(self, key: str) -> None:
        """Perform an effect, whether or not it was performed before."""
        self._point()
        with self._file.open("a") as file:
            file.write(f"{key}\n")
        self._point()

    def performed_keys(self) -> list[str]:
        """Return the keys of the performed effects, in order."""
        return self._file.read_text().split() if self._file.exists() else []

    def _point(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
