"""The search service's own database: document collections, and what would be costly to make again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine

from libs.sql.engines import engine_for, shown, url_of
from libs.sql.migrations import Migrations, upgrade
from services.search.adapters.schema import VERSION_TABLE

T = TypeVar("T")

APPLICATION = "hansei-search"
MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), VERSION_TABLE, 0x736561726368)
READING_THREADS = 2


class Database:
    """A SQLite file or a PostgreSQL server. One thread writes, one transaction after the other; others read."""

    def __init__(self, place: str) -> None:
        self.url = url_of(place)
        self._durable = engine_for(self.url, APPLICATION, writes=True)
        self._cache = engine_for(self.url, APPLICATION, writes=True, durable=False)
        self._reads = engine_for(self.url, APPLICATION, writes=False, connections=READING_THREADS)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="search-db")
        self._readers = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="search-db-read")

    @property
    def name(self) -> str:
        """The database as messages name it, without a password."""
        return shown(self.url)

    async def open(self) -> None:
        """Make what is not there: folder, file, the newest tables."""
        await self._in(self._writer, lambda: upgrade(self._durable, MIGRATIONS))

    async def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, committed as a whole or not at all; a power cut may take back what can be made again."""
        return await self._in(self._writer, lambda: _run(self._cache, work))

    async def durable(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, committed as a whole or not at all; what was committed survives a power cut."""
        return await self._in(self._writer, lambda: _run(self._durable, work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which sees one state of the database and waits for no writer."""
        return await self._in(self._readers, lambda: _run(self._reads, work))

    async def close(self) -> None:
        """Finish what was begun and let go of the file."""
        for thread in (self._writer, self._readers):
            await asyncio.to_thread(thread.shutdown)
        for engine in (self._durable, self._cache, self._reads):
            engine.dispose()

    async def _in(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, work)


def _run(engine: Engine, work: Callable[[Connection], T]) -> T:
    with engine.begin() as connection:
        return work(connection)
