"""The validator's database: one engine, one thread, transactions that are tried again (V-72)."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from services.validator.domain.errors import LeaderboardCorrupt, LeaderboardUnavailable

T = TypeVar("T")

RETRY_PAUSES = (1.0, 2.0, 4.0)
SQLITE_BUSY_SECONDS = 5
POSTGRES_CONNECT_SECONDS = 5
POSTGRES_LIMITS = "-c lock_timeout=5000 -c statement_timeout=10000"
"""Milliseconds. There is one thread: a statement that waits for ever would hold up every other call."""

_MIGRATION_LOCK = 0x76616C69646174  # any constant: replicas that start together take turns

log = logging.getLogger("hansei.validator")


class Database:
    """Runs transactions on its own thread, because drivers block; at most one at a time."""

    def __init__(
        self,
        location: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        busy_seconds: float = SQLITE_BUSY_SECONDS,
    ) -> None:
        """`location` is a file name for SQLite or a database URL; SQLite waits `busy_seconds` for another writer."""
        self._url = _url_of(location)
        self._busy_seconds = busy_seconds
        self._sleep = sleep
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leaderboard")
        self._engine: Engine | None = None

    async def open(self) -> None:
        """Opens the database and brings it to the present schema. Raises LeaderboardCorrupt, LeaderboardUnavailable."""
        await self._on_thread(self._opened)

    async def close(self) -> None:
        """Closes all connections."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, engine.dispose)
        self._thread.shutdown(wait=False)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """The result of `work` in one transaction. Raises LeaderboardCorrupt, LeaderboardUnavailable."""
        return await self._on_thread(lambda: self._transaction(work))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, tried again after 1, 2 and 4 seconds while the database fails (V-72)."""
        for pause in RETRY_PAUSES:
            try:
                return await self.read(work)
            except LeaderboardUnavailable as error:
                log.warning("leaderboard write failed, again in %.0f s: %s", pause, error)
            await self._sleep(pause)
        return await self.read(work)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (DBAPIError, PoolTimeout, sqlite3.Error, OSError) as error:
            raise self._translated(error) from error

    def _opened(self) -> None:
        if self._url.drivername == "sqlite" and self._url.database:
            Path(self._url.database).parent.mkdir(parents=True, exist_ok=True)
        self._engine = _engine(self._url, self._busy_seconds)
        _migrate(self._engine)

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        if self._engine is None:
            raise LeaderboardUnavailable("the leaderboard is closed")
        with self._engine.begin() as connection:
            return work(connection)

    def _translated(self, error: Exception) -> LeaderboardCorrupt | LeaderboardUnavailable:
        """The text of the driver stays in the log: it may hold what was written."""
        name = self._url.database if self._url.drivername == "sqlite" else self._url.render_as_string()
        code = getattr(getattr(error, "orig", error), "sqlite_errorname", "")
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return LeaderboardCorrupt(
                f"leaderboard {name} is corrupt. Nothing was changed. Stop the service, keep a copy of the file, "
                "put back a backup or remove it, and start again"
            )
        return LeaderboardUnavailable(f"leaderboard {name} does not answer ({code or type(error).__name__})")


def _url_of(location: str) -> URL:
    if "://" not in location:
        return URL.create("sqlite", database=location)
    url = make_url(location)
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def _engine(url: URL, busy_seconds: float) -> Engine:
    if url.drivername != "sqlite":
        return create_engine(
            url,
            pool_size=1,
            pool_pre_ping=True,
            connect_args={"connect_timeout": POSTGRES_CONNECT_SECONDS, "options": POSTGRES_LIMITS},
        )
    engine = create_engine(url, pool_size=1, max_overflow=0, connect_args={"timeout": busy_seconds})

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transaction control is off; the listener below begins them.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _migrate(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
