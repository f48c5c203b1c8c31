"""The database of a service: one writer that commits in groups, and threads that read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from chassis.errors import HanseiError
from chassis.logging import get_logger
from libs.storage.engines import LOCK_SECONDS, create_database_engine, display_name, is_sqlite, parse_location
from libs.storage.errors import build_unavailable_error, translate_error
from libs.storage.group_commit import GroupCommitWriter
from libs.storage.migrations import Migrations, upgrade

P = ParamSpec("P")
T = TypeVar("T")

READER_THREADS = 4

_log = get_logger(__name__)


class Database:
    """A SQLite file or a PostgreSQL server.

    Work gets a connection inside a transaction and runs on a thread of the database, because drivers block: it must
    wait for nothing else. Its errors reach the caller; errors of drivers become those of `libs.storage.errors`.
    """

    def __init__(
        self,
        location: str | URL,
        *migrations: Migrations,
        service: str,
        store: str,
        reader_threads: int = READER_THREADS,
        lock_seconds: float = LOCK_SECONDS,
        statement_seconds: float = 0,
        durable: bool = True,
    ) -> None:
        """`location` is a URL or the name of a SQLite file; `store` names the contents in messages.

        Messages name a SQLite file, too, for the person who repairs it; the address of a server stays in the log.

        Stores of one process in one database share it, with the migrations of each: then one commit, and one disk
        flush, serves all of them, and none waits for the file lock of another.

        A statement that hangs delays all later ones: `statement_seconds` limits each on a server; 0 sets no limit. With
        `durable=False` a power cut may lose the last commits. Raises SQLAlchemy's ArgumentError, ImportError,
        OSError: see `libs.storage.startup.report_setting`.
        """
        self.url = parse_location(location) if isinstance(location, str) else location
        self.is_postgresql = not is_sqlite(self.url)
        self.name = store if self.is_postgresql else f"{store} {display_name(self.url)}"
        self._migrations = migrations
        create_engine = partial(
            create_database_engine,
            self.url,
            f"hansei-{service}",
            lock_seconds=lock_seconds,
            statement_seconds=statement_seconds,
        )
        self.write_engine = create_engine(writes=True, durable=durable)
        self._read_engine = create_engine(writes=False, connections=reader_threads)
        self._writer = GroupCommitWriter(self.write_engine, service, self._translate_error)
        self._readers = ThreadPoolExecutor(reader_threads, thread_name_prefix=f"{service}-reader")
        self._is_open = self._is_closed = False

    async def open(self) -> None:
        """Migrate the schema and start the writer; do nothing if it is open. Raises SchemaNewer and storage errors."""
        if not self._is_open:
            await self._run_on_reader(self._upgrade)
            if not self._is_open:  # another call may have opened it meanwhile
                self._writer.start()
                self._is_open = True

    async def close(self) -> None:
        """Finish the accepted work and give the connections back."""
        self._is_closed = True
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        self.write_engine.dispose()
        self._read_engine.dispose()

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **options: P.kwargs) -> T:
        """Return the result of `work`, which sees one state of the database and waits for no writer.

        `work` gets a connection and the further arguments.
        """
        self._require_open()

        def read_in_transaction() -> T:
            with self._read_engine.begin() as connection:
                return work(connection, *args, **options)

        return await self._run_on_reader(read_in_transaction)

    async def write(
        self, work: Callable[[Connection], T], key: str = "", on_commit: Callable[[T], None] | None = None
    ) -> T:
        """Return the result of `work` once it is on disk; nothing of it stays when it raises.

        `key` names the row that `work` locks, or its store if that locks several: units of work that are committed
        together run in the order of their keys.
        `on_commit` is called with the result on the caller's loop, also when the caller has stopped waiting. `work` may
        share its transaction with other units of work, so it must neither commit nor roll back.
        """
        self._require_open()
        return await self._writer.run(work, key, on_commit)

    async def vacuum(self) -> None:
        """Rewrite a SQLite file, so that neither it nor its log holds deleted rows; writers wait meanwhile.

        A PostgreSQL server does this itself, in its own time. Raises StoreUnavailable while readers
        use the write-ahead log.
        """
        self._require_open()
        if not self.is_postgresql:
            await self._run_on_reader(self._vacuum_file)

    def _vacuum_file(self) -> None:
        # The only connection of the writer, which therefore waits; it is not in a transaction.
        with contextlib.closing(self.write_engine.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            result = cursor.fetchone()
        if result is None or result[0]:
            raise build_unavailable_error(self.name, "has readers that prevent truncating its write-ahead log")

    def _require_open(self) -> None:
        if self._is_closed or not self._is_open:
            raise build_unavailable_error(self.name, "is closed")

    def _upgrade(self) -> None:
        for migrations in self._migrations:
            upgrade(self.write_engine, migrations)

    async def _run_on_reader(self, work: Callable[[], T]) -> T:
        if self._is_closed:
            raise build_unavailable_error(self.name, "is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, work)
        except HanseiError:
            raise
        except Exception as error:
            translated = self._translate_error(error)
            if translated is error:
                raise
            raise translated from error

    def _translate_error(self, error: Exception) -> Exception:
        translated = translate_error(error, self.name)
        if translated is not error:
            _log.warning("database error", store=self.name, database=display_name(self.url), exc_info=error)
        return translated
