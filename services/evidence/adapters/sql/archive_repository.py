"""Archived trajectories in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from libs.storage.database import Database
from libs.storage.idempotency import IdempotencyKey
from libs.storage.timestamps import utc_now
from services.evidence.adapters.sql import archive_packs as packs
from services.evidence.adapters.sql import archive_queries as queries
from services.evidence.adapters.sql.archive_schema import archive_dataset
from services.evidence.adapters.sql.schema import requests
from services.evidence.domain.archive import ArchivedTrajectory, Retention, StoredUsage, TrajectoryKey
from services.evidence.domain.archive_errors import ArchiveFull
from services.evidence.usecases.archive_ports import (
    ArchiveTotals,
    NewPack,
    NewTrajectory,
    StoredBody,
    StoredPack,
    TrajectoryFilter,
)

BATCH = 100
"""Trajectories that are deleted in one transaction."""
UPLOAD_TIME = timedelta(hours=1)
"""An object whose trajectory is not inserted within this time is deleted."""


class ArchiveRepository:
    """Implements `ArchiveStore`; all writes on one dataset happen one after another."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def find(self, key: TrajectoryKey) -> ArchivedTrajectory | None:
        """Return a trajectory or its tombstone by id and content."""

        def work(connection: Connection) -> ArchivedTrajectory | None:
            archive = queries.select_dataset(connection, key.dataset)
            row = queries.select_by_content(connection, archive.id, key) if archive else None
            return queries.to_trajectory(key.dataset, row) if row else None

        return await self._database.read(work)

    async def add_facts(
        self, key: TrajectoryKey, learned: tuple[str, ...], usage: StoredUsage | None, learned_at: datetime
    ) -> None:
        """Add bullets that were learned from a stored trajectory, the usage of one that has none, and a later time."""

        def work(connection: Connection) -> None:
            archive = queries.lock_dataset(connection, key.dataset)
            row = queries.select_by_content(connection, archive.id, key)
            if row is not None and row.summary is not None:
                summary = queries.load_summary(row.summary).add_facts(learned, usage)
                queries.set_summary(connection, archive.id, row, summary, learned_at)

        await self._database.write(work, key=key.dataset)

    async def insert(self, new: NewTrajectory, max_bytes: int) -> bool:
        """Insert a trajectory; return whether it is new. Raises `ArchiveFull`."""
        now = self._clock()

        def work(connection: Connection) -> bool:
            archive = queries.lock_dataset(connection, new.key.dataset)
            if archive.deleted_at is not None and new.learned_at <= archive.deleted_at:
                return False
            if not queries.insert_trajectory(connection, archive.id, new, now):
                return False
            stored = queries.sum_bytes(connection)
            if stored + new.size > max_bytes:
                raise ArchiveFull(stored, new.size, max_bytes)
            queries.add_to_totals(connection, archive.id, 1, new.size)
            if new.object_key is not None:
                queries.delete_objects(connection, [new.object_key])
            return True

        return await self._database.write(work, key=new.key.dataset)

    async def read(self, dataset: str, trajectory_id: str, content_hash: str) -> StoredBody | None:
        """Return the last stored trajectory with an id, and a content hash if it is not empty; else a tombstone."""

        def work(connection: Connection) -> StoredBody | None:
            archive = queries.select_dataset(connection, dataset)
            rows = (
                queries.select_by_id(connection, archive.id, trajectory_id, content_hash, body=True) if archive else []
            )
            if not rows:
                return None
            body, span = packs.select_body(connection, rows[0])
            return StoredBody(queries.to_trajectory(dataset, rows[0]), body, rows[0].object_key, span)

        return await self._database.read(work)

    async def list_trajectories(
        self, dataset: str, filters: TrajectoryFilter, before: int | None, limit: int
    ) -> list[ArchivedTrajectory] | None:
        """Return at most `limit` trajectories, the last stored first; None for a dataset without archive."""

        def work(connection: Connection) -> list[ArchivedTrajectory] | None:
            archive = queries.select_dataset(connection, dataset)
            if archive is None:
                return None
            rows = queries.select_page(connection, archive.id, filters, before, limit)
            return [queries.to_trajectory(dataset, row) for row in rows]

        return await self._database.read(work)

    async def delete(self, dataset: str, trajectory_id: str) -> datetime | None:
        """Delete the trajectories with an id; return when, or when they were deleted before; None if there are none."""
        now = self._clock()

        def work(connection: Connection) -> datetime | None:
            archive = queries.select_dataset(connection, dataset, lock=True)
            rows = queries.select_by_id(connection, archive.id, trajectory_id) if archive else []
            if archive is None or not rows:
                return None
            readable = [row for row in rows if row.deleted_at is None]
            queries.replace_by_tombstones(connection, archive.id, readable, now)
            return now if readable else max(row.deleted_at for row in rows)

        return await self._database.write(work, key=dataset)

    async def delete_archive(self, dataset: str, deleted_at: datetime | None = None) -> int:
        """Delete the trajectories that a dataset learned until `deleted_at`; return the number.

        By default delete all that are stored, also if their times are later than now.
        """
        now = self._clock()
        until = deleted_at or now
        newest: list[int] = []

        def work(connection: Connection) -> tuple[int, bool]:
            archive = queries.select_dataset(connection, dataset, lock=True)
            if archive is None:
                return 0, True
            if archive.deleted_at is None or archive.deleted_at < until:
                queries.update_dataset(connection, archive.id, deleted_at=until)
            if deleted_at is None and not newest:
                newest.append(queries.select_newest_number(connection, archive.id))
            rows = queries.select_until(connection, archive.id, until, BATCH, *newest)
            queries.delete_rows(connection, archive.id, rows, now)
            return sum(row.deleted_at is None for row in rows), len(rows) < BATCH

        return await self._repeat(work, dataset)

    async def list_datasets(self, prefix: str = "") -> list[str]:
        """Return the datasets that have an archive."""
        name = archive_dataset.c.dataset
        query = select(name).where(name.startswith(prefix, autoescape=True)).order_by(name)
        return await self._database.read(lambda connection: list(connection.scalars(query)))

    async def find_totals(self, dataset: str) -> ArchiveTotals | None:
        """Return the retention and the size of an archive."""
        row = await self._database.read(queries.select_dataset, dataset)
        if row is None:
            return None
        return ArchiveTotals(Retention(row.max_age_days, row.max_bytes), row.trajectories, row.bytes)

    async def set_retention(self, key: IdempotencyKey, dataset: str, retention: Retention) -> None:
        """Set the retention of a dataset. Raises RequestIdReused."""

        def work(connection: Connection) -> None:
            archive = queries.lock_dataset(connection, dataset)
            queries.update_dataset(
                connection, archive.id, max_age_days=retention.max_age_days, max_bytes=retention.max_bytes
            )

        await requests.write_once(self._database, key, self._clock(), work, dataset)

    async def delete_expired(self, dataset: str, default: Retention) -> int:
        """Delete the trajectories beyond the retention of a dataset; return their number."""
        now = self._clock()

        def work(connection: Connection) -> tuple[int, bool]:
            archive = queries.select_dataset(connection, dataset, lock=True)
            if archive is None:
                return 0, True
            applied = Retention(archive.max_age_days, archive.max_bytes).fill(default)
            oldest = now - timedelta(days=applied.max_age_days)
            expired = queries.select_oldest(connection, archive.id, BATCH, stored_before=oldest)
            if len(expired) < BATCH:
                excess = archive.bytes - applied.max_bytes - sum(row.bytes for row in expired)
                numbers = {row.number for row in expired}
                for row in queries.select_oldest(connection, archive.id, BATCH):
                    if excess <= 0 or len(expired) == BATCH:
                        break
                    if row.number not in numbers:
                        expired.append(row)
                        excess -= row.bytes
            queries.delete_rows(connection, archive.id, expired, now)
            return len(expired), len(expired) < BATCH

        return await self._repeat(work, dataset)

    async def list_unpacked(self, dataset: str, limit: int) -> list[tuple[int, bytes]]:
        """Return the number and the body of at most `limit` trajectories that are in no pack, the oldest first."""

        def work(connection: Connection) -> list[tuple[int, bytes]]:
            archive = queries.select_dataset(connection, dataset)
            return packs.select_unpacked(connection, archive.id, limit) if archive else []

        return await self._database.read(work)

    async def find_small_pack(self, dataset: str, max_bytes: int) -> StoredPack | None:
        """Return the last pack if it has at most `max_bytes` before compression."""

        def work(connection: Connection) -> StoredPack | None:
            archive = queries.select_dataset(connection, dataset)
            return packs.select_small(connection, archive.id, max_bytes) if archive else None

        return await self._database.read(work)

    async def list_stale_packs(self, dataset: str) -> list[StoredPack]:
        """Return the packs that hold bodies of deleted trajectories."""

        def work(connection: Connection) -> list[StoredPack]:
            archive = queries.select_dataset(connection, dataset)
            return packs.select_stale(connection, archive.id) if archive else []

        return await self._database.read(work)

    async def write_packs(self, dataset: str, new: Sequence[NewPack], replaced: Sequence[int]) -> bool:
        """Move bodies into packs, and delete the packs `replaced`; return whether it was done.

        It is not if a member was deleted or packed by somebody else meanwhile.
        """

        def work(connection: Connection) -> bool:
            archive = queries.select_dataset(connection, dataset, lock=True)
            if archive is None or not packs.can_be_moved(connection, archive.id, new, replaced):
                return False
            added = packs.insert_packs(connection, archive.id, new)
            packs.delete_packs(connection, archive.id, replaced)
            queries.add_to_totals(connection, archive.id, 0, added)
            return True

        return await self._database.write(work, key=dataset)

    async def add_object(self, object_key: str) -> None:
        """Note an object before it is written, so that it is deleted if its trajectory is never inserted."""
        unused_from = self._clock() + UPLOAD_TIME
        await self._database.write(lambda connection: queries.upsert_object(connection, object_key, unused_from))

    async def list_unused_objects(self) -> list[str]:
        """Return the keys of objects that belong to no trajectory."""
        now = self._clock()
        return await self._database.read(queries.select_unused_objects, now, BATCH)

    async def forget_objects(self, object_keys: list[str]) -> None:
        """Delete the entries of objects that were deleted."""
        await self._database.write(lambda connection: queries.delete_objects(connection, object_keys))

    async def _repeat(self, work: Callable[[Connection], tuple[int, bool]], dataset: str) -> int:
        """Run work in transactions of its own until it is done; return the sum of its numbers."""
        total, is_done = 0, False
        while not is_done:
            count, is_done = await self._database.write(work, key=dataset)
            total += count
        return total
