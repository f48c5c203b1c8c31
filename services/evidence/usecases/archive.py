"""Store trajectories, read and delete them, and delete those beyond the retention of their dataset."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from chassis.logging import get_logger
from services.evidence.domain.archive import FUTURE_TOLERANCE, ArchivedTrajectory, Retention
from services.evidence.domain.archive_errors import (
    ArchiveNotFound,
    ObjectStoreUnavailable,
    TrajectoryDeleted,
    TrajectoryNotFound,
    TrajectoryRefused,
)
from services.evidence.usecases.archive_ports import (
    ArchiveStore,
    ArchiveTotals,
    BodyStore,
    IncomingTrajectory,
    NewTrajectory,
    PreparedTrajectory,
)
from services.evidence.usecases.pack_bodies import PackBodies

INLINE_BYTES = 64 * 1024
"""Size of a trajectory up to which it is prepared on the event loop; a larger one takes a thread, if it is new."""
MAX_THREADS = 2
"""Large trajectories that are prepared at once.

More would take the threads of other calls, and the time of each other: none would be ready before its deadline.
"""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """The largest trajectory, before compression; the largest archive; the body that goes to the object store."""

    trajectory_bytes: int
    archive_bytes: int
    row_bytes: int
    retention: Retention


class Archive:
    """The trajectories of all datasets. `compress` and `decompress` convert bodies, `compress_pack` several as one."""

    def __init__(
        self,
        store: ArchiveStore,
        objects: BodyStore | None,
        limits: ArchiveLimits,
        *,
        compress: Callable[[bytes], bytes],
        compress_pack: Callable[[bytes], bytes],
        decompress: Callable[[bytes], bytes],
        now: Callable[[], datetime],
    ) -> None:
        self.store = store
        self.limits = limits
        self._objects = objects
        self._compress = compress
        self._decompress = decompress
        self._packs = PackBodies(store, compress=compress_pack, decompress=decompress)
        self._now = now
        self._threads = asyncio.Semaphore(MAX_THREADS)

    async def add(self, incoming: IncomingTrajectory) -> bool:
        """Store a trajectory; return whether it is new.

        Raises `TrajectoryRefused`, `ArchiveFull`, `ObjectStoreUnavailable`.
        """
        now = self._now()
        self._check(incoming, now)
        if incoming.size > INLINE_BYTES and await self._add_facts(incoming):
            return False
        prepared, body = await self._prepare(incoming)
        new = NewTrajectory(
            incoming.key,
            prepared.summary,
            incoming.created_at or now,
            _limit_to_present(incoming.learned_at, now),
            len(body),
            body,
        )
        if self._objects is not None and len(body) > self.limits.row_bytes:
            new = await self._put_object(new, body)
        if await self.store.insert(new, self.limits.archive_bytes):
            return True
        # Most trajectories are new, so that only those that are not cost a read.
        await self._add_facts(incoming)
        return False

    async def _add_facts(self, incoming: IncomingTrajectory) -> bool:
        """Return whether a trajectory or its tombstone is stored; add what a stored one lacks."""
        stored = await self.store.find(incoming.key)
        if stored is None:
            return False
        summary = stored.summary
        if summary is None:
            return True
        learned_at = max(stored.learned_at, _limit_to_present(incoming.learned_at, self._now()))
        if learned_at > stored.learned_at or summary.add_facts(incoming.learned, incoming.usage) != summary:
            await self.store.add_facts(incoming.key, incoming.learned, incoming.usage, learned_at)
        return True

    async def read(self, dataset: str, trajectory_id: str, content_hash: str = "") -> tuple[ArchivedTrajectory, bytes]:
        """Return a trajectory and its body. Raises `TrajectoryNotFound`, `TrajectoryDeleted`, errors of the stores."""
        found = await self.store.read(dataset, trajectory_id, content_hash)
        if found is None:
            raise TrajectoryNotFound(dataset, trajectory_id)
        if found.trajectory.deleted_at is not None:
            raise TrajectoryDeleted(dataset, trajectory_id, found.trajectory.deleted_at)
        body = found.body
        if body is None:
            if self._objects is None or found.object_key is None:
                raise ObjectStoreUnavailable("HANSEI_EVIDENCE_OBJECT_STORE_URL is not set")
            body = await self._objects.get(found.object_key)
        whole = self._decompress(body)
        span = found.span
        return found.trajectory, whole if span is None else whole[span.start : span.start + span.length]

    async def delete(self, dataset: str, trajectory_id: str) -> datetime:
        """Delete the trajectories with an id; return when. Raises `TrajectoryNotFound`."""
        deleted_at = await self.store.delete(dataset, trajectory_id)
        if deleted_at is None:
            raise TrajectoryNotFound(dataset, trajectory_id)
        await self._packs.rewrite_stale(dataset)
        await self._try_delete_objects()
        return deleted_at

    async def delete_archive(self, dataset: str) -> int:
        """Delete all trajectories of a dataset; return their number."""
        count = await self.store.delete_archive(dataset)
        await self._packs.rewrite_stale(dataset)
        await self._try_delete_objects()
        return count

    async def delete_archives(self, prefix: str) -> tuple[int, int]:
        """Delete the trajectories of the datasets with a prefix; return the numbers of datasets and of trajectories."""
        datasets = await self.store.list_datasets(prefix)
        count = 0
        for dataset in datasets:
            count += await self.store.delete_archive(dataset)
            await self._packs.rewrite_stale(dataset)
        await self._try_delete_objects()
        return len(datasets), count

    async def erase(self, dataset: str, until: datetime) -> bool:
        """Delete the trajectories that a dataset learned until a time; return whether there were any."""
        count = await self.store.delete_archive(dataset, until)
        await self._packs.rewrite_stale(dataset)
        return bool(count)

    async def find_totals(self, dataset: str) -> ArchiveTotals:
        """Return the size of an archive with the retention that applies. Raises `ArchiveNotFound`."""
        totals = await self.store.find_totals(dataset)
        if totals is None:
            raise ArchiveNotFound(dataset)
        return ArchiveTotals(totals.retention.fill(self.limits.retention), totals.trajectories, totals.size)

    async def maintain(self) -> None:
        """Delete trajectories beyond their retention, pack bodies, and delete objects without a trajectory."""
        for dataset in await self.store.list_datasets():
            if count := await self.store.delete_expired(dataset, self.limits.retention):
                _log.info("trajectories beyond the retention deleted", dataset=dataset, trajectories=count)
            await self._packs.pack(dataset)
        await self._delete_objects()

    def _check(self, incoming: IncomingTrajectory, now: datetime) -> None:
        if not incoming.steps:
            raise TrajectoryRefused("trajectory.steps", "is empty: at least one step or reasoning step is required")
        if incoming.size > self.limits.trajectory_bytes:
            rule = f"has {incoming.size:,} bytes: the archive stores at most {self.limits.trajectory_bytes:,}"
            raise TrajectoryRefused("trajectory", f"{rule} (HANSEI_EVIDENCE_TRAJECTORY_MAX_BYTES)")
        for field, time in (("trajectory.created_at", incoming.created_at), ("learned_at", incoming.learned_at)):
            if time is not None and time > now + FUTURE_TOLERANCE:
                rule = f"is {time:%Y-%m-%d %H:%M:%S} UTC, in the future: for the service it is {now:%Y-%m-%d %H:%M:%S}"
                raise TrajectoryRefused(field, rule)

    async def _prepare(self, incoming: IncomingTrajectory) -> tuple[PreparedTrajectory, bytes]:
        def prepare() -> tuple[PreparedTrajectory, bytes]:
            prepared = incoming.prepare()
            return prepared, self._compress(prepared.body)

        if incoming.size <= INLINE_BYTES:
            return prepare()
        async with self._threads:
            return await asyncio.to_thread(prepare)

    async def _put_object(self, new: NewTrajectory, body: bytes) -> NewTrajectory:
        assert self._objects is not None
        # Unique, so that no deletion of an earlier object under the same name can meet this one.
        object_key = f"{new.key.dataset}/{new.key.content_hash}-{uuid.uuid4().hex[:12]}.zst"
        await self.store.add_object(object_key)
        await self._objects.put(object_key, body)
        return replace(new, body=None, object_key=object_key)

    async def _delete_objects(self) -> None:
        if self._objects is None:
            return
        if unused := await self.store.list_unused_objects():
            await self._objects.delete(unused)
            await self.store.forget_objects(unused)

    async def _try_delete_objects(self) -> None:
        """Delete objects without a trajectory; while the store is unavailable, leave them to the next maintenance."""
        try:
            await self._delete_objects()
        except ObjectStoreUnavailable as error:
            _log.warning("objects of deleted trajectories not deleted; trying again later", error=str(error))


def _limit_to_present(learned_at: datetime | None, now: datetime) -> datetime:
    """Return when a trajectory was learned; a writer whose clock is ahead must not place it after a later deletion."""
    return now if learned_at is None else min(learned_at, now)
