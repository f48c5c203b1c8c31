"""Lock the directories of SQLite files, so that a second process does not serve the same data.

Services cache what they store and assume that no other process writes to a SQLite file. The operating system releases
a lock when its process dies; the file of the lock stays. On Windows, nothing is locked (docs/adr/252).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import ArgumentError

import chassis
from allinone.databases import find_database_url
from chassis.logging import get_logger
from chassis.settings import DATA_DIRECTORY_VARIABLE
from libs.storage.engines import is_sqlite, parse_location

LOCK_FILE = "hansei.lock"
_HOLDER_BYTES = 200

if sys.platform != "win32":
    import fcntl

_log = get_logger(__name__)


def build_lock_service(settings: Iterable[chassis.ServiceSettings]) -> chassis.Service:
    """Return a service that holds the locks of the directories with the SQLite files of these settings.

    Its start raises BadSetting, which names the directory and the process that holds its lock.
    """
    directories = [] if sys.platform == "win32" else list_data_directories(settings)
    descriptors: list[int] = []

    async def start() -> None:
        for directory in directories:
            descriptor = _open_lock_file(directory)
            if descriptor is not None:
                descriptors.append(descriptor)
                _take_lock(directory, descriptor)

    async def close() -> None:
        while descriptors:
            os.close(descriptors.pop())

    return chassis.Service("data locks", registrations=(), start=start, close=close)


def list_data_directories(settings: Iterable[chassis.ServiceSettings]) -> list[Path]:
    """Return the directories with the SQLite files of these settings, each once, also if links lead to it."""
    files = (_find_file(database) for item in settings if (database := find_database_url(item)) is not None)
    return sorted({file.resolve().parent for file in files if file is not None})


def _find_file(database: str) -> Path | None:
    """Return the SQLite file of a location; None for a server, memory, and what the service itself will refuse."""
    try:
        url = parse_location(database)
    except (ArgumentError, ValueError):
        return None
    name = url.database or ""
    return Path(name) if is_sqlite(url) and name and not name.startswith((":memory:", "file:")) else None


def _open_lock_file(directory: Path) -> int | None:
    """Return the descriptor of the lock file; None if it cannot be opened, as then the databases cannot either."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        _log.warning("data directory could not be locked", directory=str(directory), error=error.strerror)
        return None


def _take_lock(directory: Path, descriptor: int) -> None:
    """Lock a file until its descriptor is closed, and write into it who holds the lock. Raises BadSetting."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").strip() or "another process"
        remedy = f"stop that process, or choose another directory with {DATA_DIRECTORY_VARIABLE}"
        raise chassis.BadSetting(f"the data directory {directory} is in use by {holder}: {remedy}") from None
    except OSError as error:  # of a file system without locks
        _log.warning("data directory could not be locked", directory=str(directory), error=error.strerror)
        return
    with suppress(OSError):  # of a full disk: only the message of another process lacks the holder
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} ({Path(sys.argv[0]).name})".encode()[:_HOLDER_BYTES], 0)
