"""The workplace of one script: an empty directory, a clean environment and an orders API of its own."""

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from examples.recorder.orders_api import OrdersApi

COMMAND_SECONDS = 60
FIXED_DATE = "2026-01-05T09:00:00Z"
# Python draws `~~~^^^` under the failing expression, differently in each version.
MARKER_LINES = re.compile(r"^[ ~^]*[~^][ ~^]*\n", re.MULTILINE)
# Progress that a terminal would have overwritten: everything up to the last carriage return, or an erased line.
OVERWRITTEN = re.compile(r"^.*(?:\r|\x1b\[K)(?!\n)", re.MULTILINE)


@dataclass(frozen=True)
class FinishedCommand:
    """A finished command: its exit code and its output, standard output and standard error together."""

    exit_code: int
    output: str


class Workplace:
    """A directory to work in (`directory`), its surroundings (`root`) and the orders API (`orders`).

    Commands see no configuration, name or clock of the machine they run on, so that a recording can be repeated.
    Use as a context manager; leaving it stops the API.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.directory = self.root / "work"
        self.directory.mkdir()
        self.orders = OrdersApi()

    def __enter__(self) -> Self:
        self.orders.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.orders.stop()

    def path(self, name: str) -> Path:
        """Return the path of `name` inside the working directory. Raises ValueError for a path outside."""
        path = (self.directory / name).resolve()
        if not path.is_relative_to(self.directory):
            raise ValueError(f"path {name!r} leads out of the working directory")
        return path

    def write(self, name: str, text: str, encoding: str = "utf-8") -> None:
        """Write a text file, with the folders above it."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding=encoding)

    def run(self, command: str, within: str = "") -> FinishedCommand:
        """Run a `git` or `python` command line (no shell) in `root/within`, by default the working directory."""
        words = shlex.split(command)
        if words[0] not in ("git", "python"):
            raise ValueError(f"command {words[0]!r} must be git or python")
        if words[0] == "python":
            words[0] = sys.executable
        done = subprocess.run(
            words,
            cwd=self.root / within if within else self.directory,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return FinishedCommand(done.returncode, self._without_the_machine(done.stdout.decode(errors="replace")))

    def setup(self, *commands: str, within: str = "") -> None:
        """Run commands that prepare a task. Raises RuntimeError with the output of a failed one."""
        for command in commands:
            finished = self.run(command, within)
            if finished.exit_code:
                raise RuntimeError(f"{command}: exit code {finished.exit_code}\n{finished.output}")

    def rows(self, database: str, sql: str) -> list[tuple[object, ...]]:
        """Return the rows of a query over a connection of its own, which reads only committed data."""
        with closing(sqlite3.connect(self.path(database))) as connection:
            return connection.execute(sql).fetchall()

    def create_database(self, database: str, script: str) -> None:
        """Create a SQLite file from an SQL script."""
        with closing(sqlite3.connect(self.path(database))) as connection:
            connection.executescript(script)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.root),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "NO_COLOR": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_DEFAULT_HASH": "sha1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_DATE": FIXED_DATE,
            "GIT_COMMITTER_DATE": FIXED_DATE,
        }

    def _without_the_machine(self, output: str) -> str:
        output = OVERWRITTEN.sub("", MARKER_LINES.sub("", output))
        return output.replace(f"{self.directory}/", "").replace(str(self.root), "..").strip("\n")
