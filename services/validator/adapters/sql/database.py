"""The validator's database: transactions that are tried again (V-72)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from libs.sql.engines import shown, sqlite_code, url_of
from libs.sql.migrations import Migrations
from libs.sql.transactions import NotOpen, Transactions
from services.validator.adapters.sql.schema import VERSION_TABLE
from services.validator.domain.errors import LeaderboardCorrupt, LeaderboardUnavailable

T = TypeVar("T")

RETRY_PAUSES = (1.0, 2.0, 4.0)
LOCK_SECONDS = 5
STATEMENT_SECONDS = 10.0
"""There is one thread: a statement that waits for ever would hold up every other call."""

_MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), VERSION_TABLE, 0x76616C69646174)

log = logging.getLogger("hansei.validator")


class Database:
    """Runs transactions on its own thread, because drivers block; at most one at a time."""

    def __init__(
        self,
        location: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        """`location` is a file name for SQLite or a database URL; SQLite waits `lock_seconds` for another writer."""
        self.url = url_of(location)
        self._sleep = sleep
        self._transactions = Transactions(
            self.url,
            "hansei-validator",
            _MIGRATIONS,
            self._translated,
            statement_seconds=STATEMENT_SECONDS,
            lock_seconds=lock_seconds,
        )

    async def open(self) -> None:
        """Opens the database and brings it to the present schema. Raises LeaderboardCorrupt, LeaderboardUnavailable."""
        await self._transactions.open()

    async def close(self) -> None:
        """Closes all connections."""
        await self._transactions.close()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """The result of `work` in one transaction. Raises LeaderboardCorrupt, LeaderboardUnavailable."""
        return await self._transactions.run(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, tried again after 1, 2 and 4 seconds while the database fails (V-72)."""
        for pause in RETRY_PAUSES:
            try:
                return await self.read(work)
            except LeaderboardUnavailable as error:
                log.warning("leaderboard write failed, again in %.0f s: %s", pause, error)
            await self._sleep(pause)
        return await self.read(work)

    def _translated(self, error: Exception) -> LeaderboardCorrupt | LeaderboardUnavailable:
        if isinstance(error, NotOpen):
            return LeaderboardUnavailable("the leaderboard is closed")
        name, code = shown(self.url), sqlite_code(error)
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return LeaderboardCorrupt(
                f"leaderboard {name} is corrupt. Nothing was changed. Stop the service, keep a copy of the file, "
                "put back a backup or remove it, and start again"
            )
        return LeaderboardUnavailable(f"leaderboard {name} does not answer ({code or type(error).__name__})")
