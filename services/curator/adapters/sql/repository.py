"""The playbook store on SQL, with a cache of the newest snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from cachetools import LRUCache
from sqlalchemy import Connection

from libs.embedding.store import TableStore
from libs.storage.database import Database
from libs.storage.engines import display_name
from libs.storage.errors import StoreCorrupt
from libs.storage.idempotency import IdempotencyKey, find_scope
from services.curator.adapters.sql import queries, schema
from services.curator.adapters.sql.dataset_transaction import SqlDatasetTransaction
from services.curator.adapters.sql.notifications import listen
from services.curator.adapters.sql.unused_embeddings import delete_unused_embeddings
from services.curator.domain.evidence import Evidence
from services.curator.domain.log import Revision, RevisionKind
from services.curator.domain.playbook import utc_now, validate_dataset_name
from services.curator.domain.policy import Policy
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.ports import Dataset, DatasetHead, DatasetTransaction, LogPosition

T = TypeVar("T")
P = ParamSpec("P")

CACHED_SNAPSHOTS = 16
"""Snapshots in memory, one for each dataset; 10,000 bullets take some 15 MB."""

_EDITS = frozenset({RevisionKind.CURATE, RevisionKind.APPLY, RevisionKind.UPKEEP})
"""The revisions that change nothing of a dataset but its bullets and the time of its change."""

DROPPED_AT_ONCE = 1_000
"""Revisions dropped in one transaction."""


class SqlPlaybookStore:
    """Playbooks in the database at `database_url` (`sqlite:///FILE` or `postgresql://…`). Implements `PlaybookStore`.

    `on_commit` is called on the event loop with each revision after it is on disk. `clock` returns aware UTC times.
    """

    def __init__(
        self,
        database_url: str,
        *,
        policy: Policy | None = None,
        clock: Callable[[], datetime] = utc_now,
        on_commit: Callable[[Revision], None] = lambda revision: None,
    ) -> None:
        self.database = Database(database_url, schema.MIGRATIONS, service="curator", store="playbook store")
        self.name = display_name(self.database.url)
        self._policy = policy or Policy()
        self._clock = clock
        self._on_commit = on_commit
        self._snapshots: LRUCache[str, Snapshot] = LRUCache(CACHED_SNAPSHOTS)

    async def open(self) -> None:
        """Bring the schema up to date and start the threads. Raises the errors of `libs.storage.errors`."""
        await self.database.open()

    async def close(self) -> None:
        """Finish accepted writes and give the connections back."""
        await self.database.close()

    @property
    def notifies(self) -> bool:
        """Return True if the database itself reports the commits of other processes."""
        return self.database.is_postgresql

    async def listen(self, on_commit: Callable[[str, int], None]) -> None:
        """Call `on_commit(dataset, revision)` for every commit of any process, forever."""
        await listen(self.database.url, on_commit)

    async def write(self, dataset: str, work: Callable[[DatasetTransaction], T]) -> T:
        """Run `work` in a transaction on `dataset`; roll back when it raises."""
        validate_dataset_name(dataset)

        def run_in_transaction(connection: Connection) -> tuple[T, list[Revision]]:
            transaction = SqlDatasetTransaction(connection, dataset, self._clock(), self._policy)
            return work(transaction), transaction.revisions

        with _add_dataset_to_errors(dataset):
            result, _ = await self.database.write(run_in_transaction, dataset, self._publish)
        return result

    async def find_response(self, key: IdempotencyKey) -> bytes | None:
        """Return the stored response of a request that is done. Raises RequestIdReused."""
        return await self._read(schema.requests.find_response, key)

    async def find_request(self, dataset: str, request_id: str, method: str) -> tuple[bytes, bytes] | None:
        """Return the payload and the response of a request of a dataset's tenant that is done, else None."""
        return await self._read(schema.requests.find_request, request_id, method, find_scope(dataset))

    async def delete_responses(self, older_than: timedelta) -> int:
        """Delete responses stored longer ago than `older_than`, and return their number."""
        limit = self._clock() - older_than
        return await self.database.write(lambda connection: schema.requests.delete_older(connection, limit))

    async def drop_old_revisions(self, older_than: timedelta) -> int:
        """Drop revisions that were committed longer ago than `older_than` from the log, and return their number.

        The newest revision stays, and every snapshot from the first retained revision on stays exact.
        """
        dropped = 0
        for dataset, last in await self._read(queries.find_first_revisions, self._clock() - older_than):
            head = await self._read(queries.select_head, dataset)
            first: int = head.first_revision if head else last
            while first < last:
                first = min(last, first + DROPPED_AT_ONCE)
                work = partial(queries.drop_revisions, dataset=dataset, first_revision=first)
                dropped += await self.database.write(work, dataset)
            self._snapshots.pop(dataset, None)
        return dropped

    async def delete_unused_embeddings(self, pause: float = 0.0) -> int:
        """Delete the vectors of texts that are in no playbook and in no waiting change, and return their number.

        After each page of rows this sleeps `pause` times as long as the page took.
        """
        return await delete_unused_embeddings(self.database, pause)

    async def erase_deleted_rows(self) -> None:
        """Remove the contents of deleted datasets from the files of the database, unless that is done."""
        deletions = await self._read(queries.select_unerased_datasets)
        if deletions:
            await self.delete_unused_embeddings()
            await self.database.vacuum()
            await self.database.write(partial(queries.mark_erased, deletions=deletions))

    async def expire_pending(self) -> int:
        """Mark overdue pending changes as expired and return their number."""
        return await self.database.write(lambda connection: queries.expire_pending(connection, self._clock()))

    async def count_pending_changes(self) -> dict[PendingState, int]:
        """Return the number of pending changes in each state, over all datasets."""
        return await self._read(queries.count_pending)

    async def load(self, dataset: str, revision: int | None = None) -> Snapshot:
        """Return the bullets as of a revision (None = the newest). Raises RevisionAhead beyond the newest."""
        cached = self._snapshots.get(validate_dataset_name(dataset))
        usable = cached if cached is not None and (revision is None or cached.revision <= revision) else None
        with _add_dataset_to_errors(dataset):
            loaded = await self._read(queries.read_snapshot, dataset, revision, usable)
        return loaded if revision is not None else self._cache_newest(loaded)

    async def load_with_request(
        self, dataset: str, request_id: str, method: str
    ) -> tuple[Snapshot, tuple[bytes, bytes] | None]:
        """Return the newest bullets, and payload and response of a request if it is done, from one read."""
        cached = self._snapshots.get(validate_dataset_name(dataset))

        def read_with_request(connection: Connection) -> tuple[Snapshot, tuple[bytes, bytes] | None]:
            stored = schema.requests.find_request(connection, request_id, method, find_scope(dataset))
            return queries.read_snapshot(connection, dataset, None, cached), stored

        with _add_dataset_to_errors(dataset):
            loaded, stored = await self.database.read(read_with_request)
        return self._cache_newest(loaded), stored

    async def load_with_evidence(
        self, dataset: str, operations: Sequence[str]
    ) -> tuple[Snapshot, Mapping[str, Evidence]]:
        """Return the newest bullets, and the records of evidence of these operations, by operation, from one read."""
        cached = self._snapshots.get(validate_dataset_name(dataset))

        def read_with_evidence(connection: Connection) -> tuple[Snapshot, Mapping[str, Evidence]]:
            snapshot = queries.read_snapshot(connection, dataset, None, cached)
            return snapshot, queries.select_evidence(connection, dataset, operations)

        with _add_dataset_to_errors(dataset):
            loaded, evidence = await self.database.read(read_with_evidence)
        return self._cache_newest(loaded), evidence

    async def find_revision_at(self, dataset: str, at: datetime) -> int:
        """Return the newest revision committed at or before `at`, 0 if none."""
        return await self._read(queries.find_revision, validate_dataset_name(dataset), at)

    async def list_datasets(self, after: str, limit: int, *, deleted: bool = False) -> list[Dataset]:
        """Return datasets with a revision, or those that were deleted, whose name sorts after `after`, by name."""
        return await self._read(queries.list_datasets, after, limit, deleted=deleted)

    async def require(self, *datasets: str) -> None:
        """Raise DatasetNotFound, with similar names, unless the datasets exist."""
        await self._read(queries.require_datasets, [validate_dataset_name(dataset) for dataset in datasets])

    async def load_head(self, dataset: str) -> DatasetHead:
        """Return the newest state of a dataset without its bullets."""
        return await self._read(queries.read_dataset_head, validate_dataset_name(dataset), self._policy)

    async def find_position(self, dataset: str, revision: int) -> LogPosition:
        """Return the ends of the log of a dataset, and when `revision` was committed."""
        return await self._read(queries.find_position, validate_dataset_name(dataset), revision)

    async def list_heads(self) -> dict[str, int]:
        """Return the newest revision of every dataset."""
        return await self._read(queries.select_heads)

    async def list_revisions(self, dataset: str, before: int | None, limit: int) -> list[Revision]:
        """Return revisions below `before` (None = all), newest first."""
        return await self._read(queries.select_history, validate_dataset_name(dataset), before, limit)

    async def list_bullet_revisions(self, dataset: str, bullet_id: str) -> list[Revision]:
        """Return the revisions that changed a bullet, oldest first, each with only that bullet's changes."""
        return await self._read(queries.select_bullet_history, validate_dataset_name(dataset), bullet_id)

    async def list_revisions_after(self, dataset: str, revision: int, limit: int) -> list[Revision]:
        """Return revisions after `revision`, oldest first."""
        return await self._read(queries.select_revisions_after, validate_dataset_name(dataset), revision, limit)

    async def load_policy(self, dataset: str) -> Policy:
        """Return the policy of a dataset, defaults filled in."""
        return await self._read(queries.read_policy, validate_dataset_name(dataset)) or self._policy

    async def list_pending_changes(
        self, dataset: str, states: Sequence[PendingState], after: str, limit: int
    ) -> list[PendingChange]:
        """Return pending changes in these states, oldest first, after the one with id `after` (empty = all)."""
        return await self._read(queries.select_pending, validate_dataset_name(dataset), states, after, limit)

    def create_embedding_store(self) -> TableStore:
        """Return the store of embeddings."""
        return TableStore(schema.embeddings, self.database.read, self.database.write)

    def _cache_newest(self, loaded: Snapshot) -> Snapshot:
        """Cache a snapshot of the newest revision, unless a later one is cached, and return it."""
        cached = self._snapshots.get(loaded.dataset)
        if loaded.revision >= (cached.revision if cached else 1):
            self._snapshots[loaded.dataset] = loaded
        return loaded

    def _publish(self, outcome: tuple[object, list[Revision]]) -> None:
        for revision in outcome[1]:
            if revision.origin.kind is RevisionKind.DELETE:
                self._snapshots.pop(revision.dataset, None)
                schema.BULLET_BODY.clear_cache()
            elif revision.origin.kind in _EDITS:
                self._advance_cached(revision)
            self._on_commit(revision)

    def _advance_cached(self, revision: Revision) -> None:
        """Apply a revision to the cached snapshot of its dataset, which the next read then need not do."""
        cached = self._snapshots.get(revision.dataset)
        if cached is not None and cached.deleted_revision < cached.revision == revision.number - 1:
            self._snapshots[revision.dataset] = cached.advance(revision.number, revision.changes, revision.stamp.at)

    async def _read(self, query: Callable[Concatenate[Connection, P], T], *arguments: P.args, **options: P.kwargs) -> T:
        return await self.database.read(lambda connection: query(connection, *arguments, **options))


@contextmanager
def _add_dataset_to_errors(dataset: str) -> Iterator[None]:
    """Name the dataset in the error of a damaged store (C-74)."""
    try:
        yield
    except StoreCorrupt as error:
        raise StoreCorrupt(f"Playbook file is corrupt: {dataset}. {error.message}", metadata=error.metadata) from error
