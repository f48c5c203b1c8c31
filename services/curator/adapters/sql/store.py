"""The playbook store on SQL: one writing thread, a few reading threads, and what was read last kept at hand."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, delete

from libs.sql.engines import engine_for, shown, url_of
from libs.sql.migrations import Migrations, upgrade
from services.curator.adapters.sql import queries, schema
from services.curator.adapters.sql.codec import microseconds
from services.curator.adapters.sql.failures import translated
from services.curator.adapters.sql.notices import listen
from services.curator.adapters.sql.transaction import Transaction, stored_answer
from services.curator.adapters.sql.writer import Writer
from services.curator.domain.errors import RevisionAhead, StoreCorrupt
from services.curator.domain.log import Change, Revision
from services.curator.domain.playbook import checked_dataset, utc_now
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.rules import Policy
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.ports import Dataset, Ticket, Writing

T = TypeVar("T")
APPLICATION = "hansei-curator"
MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), schema.VERSION_TABLE, 0x68616E736569)
READING_THREADS = 4
# Snapshots kept in memory, one per dataset; a playbook of 10,000 bullets takes some 15 MB.
KEPT_SNAPSHOTS = 16

_log = logging.getLogger(__name__)


class SqlPlaybookStore:
    """Playbooks in the database at `database_url` (`sqlite:///FILE` or `postgresql://…`). Implements `PlaybookStore`.

    `committed` is called on the event loop with each revision after it is on disk. `clock` gives aware UTC times.
    """

    def __init__(
        self,
        database_url: str,
        *,
        policy: Policy | None = None,
        clock: Callable[[], datetime] = utc_now,
        committed: Callable[[Revision], None] = lambda revision: None,
    ) -> None:
        self.url = url_of(database_url)
        self._policy = policy or Policy()
        self._clock = clock
        self._committed = committed
        self.writing_engine = engine_for(self.url, APPLICATION, writes=True)
        self._read_engine = engine_for(self.url, APPLICATION, writes=False, connections=READING_THREADS)
        self._writer = Writer(self.writing_engine, self._translated)
        self._readers = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="playbook-reader")
        self._snapshots: OrderedDict[str, Snapshot] = OrderedDict()

    @property
    def name(self) -> str:
        """The database as messages name it, without a password."""
        return shown(self.url)

    async def open(self) -> None:
        """Brings the schema up to date and starts the threads. Raises StoreCorrupt and its siblings."""
        await self._threaded(lambda: upgrade(self.writing_engine, MIGRATIONS))
        self._writer.start()

    @property
    def gives_notice(self) -> bool:
        """Whether the database tells of other processes' commits by itself."""
        return self.url.drivername.startswith("postgresql")

    async def listen(self, reached: Callable[[str, int], None]) -> None:
        """Calls `reached(dataset, revision)` for every commit of any process, forever."""
        await listen(self.url, reached)

    async def close(self) -> None:
        """Finishes accepted writes and gives the connections back."""
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        self.writing_engine.dispose()
        self._read_engine.dispose()

    async def write(self, dataset: str, work: Callable[[Writing], T]) -> T:
        """Runs `work` in a transaction on `dataset`; nothing of it stays when it raises."""
        checked_dataset(dataset)

        def job(connection: Connection) -> tuple[T, list[Revision]]:
            transaction = Transaction(connection, dataset, self._clock(), self._policy)
            return work(transaction), transaction.revisions

        try:
            result, _ = await self._writer.run(dataset, job, self._announce)
        except StoreCorrupt as error:
            raise error.of_dataset(dataset) from error
        return result

    async def answer(self, ticket: Ticket) -> bytes | None:
        """The stored answer of a request that is done. RequestIdReused when it had another payload."""
        return await self._read(lambda connection: stored_answer(connection, ticket))

    async def done(self, request_id: str, method: str) -> tuple[bytes, bytes] | None:
        """Payload and answer of a request that is done, None when none is known."""
        return await self._read(lambda connection: queries.done(connection, request_id, method))

    async def forget_answers(self, older_than: timedelta) -> int:
        """Deletes answers stored longer ago than `older_than`; their requests could be done again."""
        limit = microseconds(self._clock() - older_than)

        def job(connection: Connection) -> int:
            return connection.execute(delete(schema.request).where(schema.request.c.answered < limit)).rowcount

        return await self._writer.run("", job, lambda _: None)

    async def expire_pending(self) -> int:
        """Marks the pending changes that nobody decided in time; how many."""

        def job(connection: Connection) -> int:
            return queries.expire_pending(connection, self._clock())

        return await self._writer.run("", job, lambda _: None)

    async def pending_counts(self) -> dict[PendingState, int]:
        """How many pending changes are in each state, over all datasets."""
        return await self._read(queries.pending_counts)

    async def load(self, dataset: str, revision: int | None = None) -> Snapshot:
        """The bullets as of a revision (None = the newest). RevisionAhead beyond the newest."""
        checked_dataset(dataset)
        known = self._snapshots.get(dataset)
        usable = known if known is not None and (revision is None or known.revision <= revision) else None
        try:
            loaded = await self._read(lambda connection: queries.snapshot(connection, dataset, revision, usable))
        except StoreCorrupt as error:
            raise error.of_dataset(dataset) from error
        if revision is None and loaded.revision >= (known.revision if known else 1):
            self._keep(loaded)
        return loaded

    async def revision_at(self, dataset: str, at: datetime) -> int:
        """The newest revision committed at or before `at`, 0 if none."""
        return await self._read(lambda connection: queries.revision_at(connection, checked_dataset(dataset), at))

    async def datasets(self, after: str, limit: int) -> list[Dataset]:
        """Datasets with a revision whose name sorts after `after`, by name."""
        return await self._read(lambda connection: queries.datasets(connection, after, limit))

    async def heads(self) -> dict[str, int]:
        """The newest revision of every dataset."""
        return await self._read(queries.heads)

    async def history(self, dataset: str, before: int | None, limit: int) -> list[Revision]:
        """Revisions below `before` (None = all), newest first."""
        checked_dataset(dataset)
        return await self._read(lambda connection: queries.history(connection, dataset, before, limit))

    async def bullet_history(self, dataset: str, bullet_id: str) -> list[Revision]:
        """The revisions that changed a bullet, oldest first, each with only that bullet's changes."""
        checked_dataset(dataset)
        return await self._read(lambda connection: queries.bullet_history(connection, dataset, bullet_id))

    async def changes_between(self, dataset: str, low: int, high: int) -> list[Change]:
        """The changes of the revisions in (low, high], in log order. RevisionAhead beyond the newest."""
        checked_dataset(dataset)

        def read(connection: Connection) -> list[Change]:
            head = queries.head_of(connection, dataset)
            newest = head.revision if head else 0
            if max(low, high) > newest:
                raise RevisionAhead(dataset, max(low, high), newest)
            return queries.changes_between(connection, dataset, low, high)

        return await self._read(read)

    async def revisions_after(self, dataset: str, revision: int, limit: int) -> list[Revision]:
        """Revisions after `revision`, oldest first."""
        checked_dataset(dataset)
        return await self._read(lambda connection: queries.revisions_after(connection, dataset, revision, limit))

    async def policy(self, dataset: str) -> Policy:
        """The rules of a dataset, defaults filled in."""
        checked_dataset(dataset)
        return await self._read(lambda connection: queries.policy_of(connection, dataset)) or self._policy

    async def pending(
        self, dataset: str, states: Sequence[PendingState], after: str, limit: int
    ) -> list[PendingChange]:
        """Pending changes in these states, oldest first, behind the one with id `after` (empty = from the start)."""
        checked_dataset(dataset)
        return await self._read(lambda connection: queries.pending(connection, dataset, states, after, limit))

    def _announce(self, written: tuple[object, list[Revision]]) -> None:
        for revision in written[1]:
            self._committed(revision)

    def _keep(self, snapshot: Snapshot) -> None:
        self._snapshots[snapshot.dataset] = snapshot
        self._snapshots.move_to_end(snapshot.dataset)
        while len(self._snapshots) > KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)

    async def _read(self, query: Callable[[Connection], T]) -> T:
        def read() -> T:
            with self._read_engine.begin() as connection:
                return query(connection)

        return await self._threaded(read)

    async def _threaded(self, work: Callable[[], T]) -> T:
        def translating() -> T:
            try:
                return work()
            except Exception as error:
                raise self._translated(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._readers, translating)

    def _translated(self, error: Exception) -> Exception:
        known = translated(error, self.url)
        if known is not error:
            _log.warning("the playbook store %s failed", self.name, exc_info=error)
        return known
