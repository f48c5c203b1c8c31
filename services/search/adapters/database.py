"""The search service's own database: what would be costly to make again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Column, Connection, LargeBinary, MetaData, String, Table

from libs.sql.engines import engine_for, url_of

T = TypeVar("T")

metadata = MetaData()

embeddings = Table(
    "embeddings",
    metadata,
    Column("model", String(256), primary_key=True),
    Column("content_hash", LargeBinary(32), primary_key=True),
    Column("vector", LargeBinary, nullable=False),
)


class Database:
    """A SQLite file or a PostgreSQL server. Its work runs in one thread, one transaction after the other."""

    def __init__(self, place: str) -> None:
        self.url = url_of(place)
        self._engine = engine_for(self.url, "hansei-search", writes=True, durable=False)
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
