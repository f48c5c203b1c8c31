"""The files that were learned from this machine, so that a folder is read incrementally.

A file is known by its path, size and time of change, for each server and dataset. Nothing depends on this list: the
server recognises learned trajectories by their content. It saves sending and parsing thousands of transcripts again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

_TABLE = """
CREATE TABLE IF NOT EXISTS learned_files (
    server TEXT, option TEXT, path TEXT, size INTEGER, changed_ns INTEGER, datasets TEXT,
    PRIMARY KEY (server, option, path)
)
"""
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LearnedState:
    """A file at a moment: its path, size and time of change."""

    path: str
    size: int
    changed_ns: int


def read_state(file: str) -> LearnedState:
    """Return the state of a file. Raises OSError."""
    status = Path(file).stat()
    return LearnedState(str(Path(file).resolve()), status.st_size, status.st_mtime_ns)


def _name_lives(datasets: Mapping[str, int]) -> set[str]:
    """Return names that a dataset does not share with an earlier one of its name, which was deleted: `coding@7`."""
    return {f"{name}@{deleted_revision}" for name, deleted_revision in datasets.items()}


class LearnedFiles:
    """The files that were learned at one server, with one `--dataset`."""

    def __init__(self, directory: Path, server: str, dataset: str) -> None:
        """`directory` is the data directory; it is created when the first file is added."""
        self._file = directory / "learned-files.sqlite"
        self._key = (server, dataset)

    def list_unchanged(self, states: Iterable[LearnedState], existing: Mapping[str, int]) -> set[str]:
        """Return the paths of files that did not change since they were learned.

        A file counts only while all its datasets are among the `existing` ones of the server, and were not deleted
        since: each has the same `deleted_revision`.
        """
        if not self._file.exists():
            return set()
        with self._connect() as connection:
            query = "SELECT path, size, changed_ns, datasets FROM learned_files WHERE server = ? AND option = ?"
            learned = {path: state for path, *state in connection.execute(query, self._key)}
        present = _name_lives(existing)
        return {
            state.path
            for state in states
            if (found := learned.get(state.path)) is not None
            and found[:2] == [state.size, state.changed_ns]
            and set(found[2].split()) <= present
        }

    def add(self, learned: Mapping[LearnedState, Mapping[str, int]]) -> None:
        """Store the files that were learned, each with its datasets and their `deleted_revision`."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            (*self._key, state.path, state.size, state.changed_ns, " ".join(sorted(_name_lives(datasets))))
            for state, datasets in learned.items()
        ]
        with self._connect() as connection:
            connection.executemany("INSERT OR REPLACE INTO learned_files VALUES (?, ?, ?, ?, ?, ?)", rows)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=_SECONDS)) as connection, connection:
            connection.execute(_TABLE)  # also for a file of a command that was killed before it made the table
            yield connection
