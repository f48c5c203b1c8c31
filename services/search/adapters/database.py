"""The search service's own database: what would be costly to make again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, LargeBinary, MetaData, String, Table, create_engine, event
from sqlalchemy.engine import URL, make_url

T = TypeVar("T")

metadata = MetaData()

embeddings = Table(
    "embeddings",
    metadata,
    Column("model", String(256), primary_key=True),
    Column("content_hash", LargeBinary(32), primary_key=True),
    Column("vector", LargeBinary, nullable=False),
)

_BUSY_SECONDS = 30


class Database:
    """A SQLite file or a PostgreSQL server. Its work runs in one thread, one transaction after the other."""

    def __init__(self, place: str) -> None:
        self.url = url_of(place)
        self._engine = create_engine(self.url, pool_pre_ping=True, **_options(self.url))
        if self.url.drivername == "sqlite":
            event.listen(self._engine, "connect", _write_ahead)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search-db")

    async def open(self) -> None:
        """Make what is not there: folder, file, tables."""
        await self.transaction(metadata.create_all)

    async def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in the database's thread, committed as a whole or not at all."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)

    async def close(self) -> None:
        """Finish what was begun and let go of the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.dispose)
        self._thread.shutdown(wait=True)

    def _run(self, work: Callable[[Connection], T]) -> T:
        with self._engine.begin() as connection:
            return work(connection)


def url_of(place: str) -> URL:
    """A database URL from a URL or from the name of a SQLite file."""
    if "://" not in place:
        return URL.create("sqlite", database=place)
    url = make_url(place)
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def _options(url: URL) -> dict[str, Any]:
    if url.drivername != "sqlite":
        return {"pool_size": 1, "max_overflow": 0}
    if url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    return {"connect_args": {"timeout": _BUSY_SECONDS}}


def _write_ahead(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
