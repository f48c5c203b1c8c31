"""The database of the jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError

from gateway.bulk.errors import JobsCorrupt, JobsUnavailable
from gateway.bulk.schema import VERSION_TABLE
from libs.sql.engines import shown, sqlite_code
from libs.sql.migrations import Migrations
from libs.sql.transactions import Transactions

T = TypeVar("T")

STATEMENT_SECONDS = 30.0
_MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), VERSION_TABLE, 0x62756C6B)


class JobsDatabase:
    """Runs transactions one after the other on its own thread."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._transactions = Transactions(
            url,
            "hansei-gateway",
            _MIGRATIONS,
            self._translated,
            statement_seconds=STATEMENT_SECONDS,
        )

    async def open(self) -> None:
        """Open the database, unless it is, and bring it to the present schema. Raises JobsCorrupt, JobsUnavailable."""
        await self._transactions.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._transactions.close()

    async def transaction(self, work: Callable[[Connection], T]) -> T:
        """The result of `work` in one transaction. Raises JobsCorrupt, JobsUnavailable, IntegrityError."""
        return await self._transactions.run(work)

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, IntegrityError):
            return error
        name, code = shown(self._url), sqlite_code(error)
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return JobsCorrupt(
                f"the database of the jobs, {name}, is corrupt. Stop the gateway, keep a copy of the file, put back a "
                "backup or remove it, and start again: submitting a job again learns nothing twice"
            )
        return JobsUnavailable(f"the database of the jobs, {name}, does not answer ({code or type(error).__name__})")
