"""Short transactions one after the other on a thread of their own, because drivers block."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from libs.sql.engines import LOCK_SECONDS, engine_for
from libs.sql.migrations import Migrations, upgrade

T = TypeVar("T")


class NotOpen(OSError):
    """The database was not opened, or is closed again."""


class Transactions:
    """One database, one connection, one thread.

    `translated` makes the owner's error of what a driver raises; given back as it is, that error is raised itself. It
    must not repeat the driver's text, which may hold what was written.
    """

    def __init__(
        self,
        url: URL,
        application: str,
        migrations: Migrations,
        translated: Callable[[Exception], Exception],
        *,
        statement_seconds: float,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        """A statement that waits for ever would hold up all that come after it, hence `statement_seconds`."""
        self._url = url
        self._application = application
        self._migrations = migrations
        self._translated = translated
        self._seconds = (statement_seconds, lock_seconds)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{application}-db")
        self._engine: Engine | None = None

    async def open(self) -> None:
        """Open the database, unless it is, and bring it to the newest schema. Raises the owner's errors."""
        await self._on_thread(self._opened)

    async def close(self) -> None:
        """Close all connections."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, engine.dispose)
        self._thread.shutdown(wait=False)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, committed as a whole or not at all. Raises the owner's errors."""

        def transaction() -> T:
            if self._engine is None:
                raise NotOpen
            with self._engine.begin() as connection:
                return work(connection)

        return await self._on_thread(transaction)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (DBAPIError, PoolTimeout, sqlite3.Error, OSError) as error:
            own = self._translated(error)
            if own is error:
                raise
            raise own from error

    def _opened(self) -> None:
        if self._engine is not None:
            return
        statement, lock = self._seconds
        engine = engine_for(self._url, self._application, writes=True, statement_seconds=statement, lock_seconds=lock)
        try:
            upgrade(engine, self._migrations)
        except BaseException:
            engine.dispose()
            raise
        self._engine = engine
