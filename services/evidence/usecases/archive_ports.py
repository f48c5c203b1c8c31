"""The ports of the archive, and the values that pass through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from libs.storage.idempotency import IdempotencyKey
from services.evidence.domain.archive import (
    ArchivedTrajectory,
    MarkKind,
    Retention,
    StoredUsage,
    TrajectoryKey,
    TrajectorySummary,
)
from services.evidence.domain.overview import DayKey, TrajectoryCounts


class PreparedTrajectory(NamedTuple):
    """A summary and a masked body; both take processor time to make."""

    summary: TrajectorySummary
    body: bytes


@dataclass(frozen=True, slots=True)
class IncomingTrajectory:
    """A trajectory to store. `prepare` masks its secrets."""

    key: TrajectoryKey
    prepare: Callable[[], PreparedTrajectory]
    steps: int
    size: int
    created_at: datetime | None
    learned_at: datetime | None
    learned: tuple[str, ...] = ()
    usage: StoredUsage | None = None


@dataclass(frozen=True, slots=True)
class NewTrajectory:
    """A trajectory as it is written; a body is in the row or, under `object_key`, in the object store."""

    key: TrajectoryKey
    summary: TrajectorySummary
    created_at: datetime
    learned_at: datetime
    size: int
    body: bytes | None
    object_key: str | None = None


class PackMember(NamedTuple):
    """The span of a trajectory in a pack before compression."""

    number: int
    start: int
    length: int


class StoredBody(NamedTuple):
    """A stored trajectory with its body, or the key of its object; a packed body is at `span` of its pack."""

    trajectory: ArchivedTrajectory
    body: bytes | None
    object_key: str | None
    span: PackMember | None = None


class StoredPack(NamedTuple):
    """Bodies that are compressed together; `members` are those that can still be read."""

    number: int
    body: bytes
    members: tuple[PackMember, ...]


class NewPack(NamedTuple):
    """A pack to be written."""

    body: bytes
    members: tuple[PackMember, ...]


@dataclass(frozen=True, slots=True)
class TrajectoryFilter:
    """The conditions under which trajectories of a dataset are listed."""

    status: int = 0
    marks: tuple[tuple[MarkKind, str], ...] = ()
    error_text: str = ""
    created_from: datetime | None = None
    created_before: datetime | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveTotals:
    """The retention of a dataset as it was set, and its size."""

    retention: Retention = field(default_factory=Retention)
    trajectories: int = 0
    size: int = 0


class ArchiveStore(Protocol):
    """Stores rows of trajectories."""

    async def find(self, key: TrajectoryKey) -> ArchivedTrajectory | None:
        """Return a trajectory or its tombstone by id and content."""

    async def add_facts(
        self, key: TrajectoryKey, learned: tuple[str, ...], usage: StoredUsage | None, learned_at: datetime
    ) -> None:
        """Add bullets that were learned from a stored trajectory, the usage of one that has none, and a later time.

        A dataset that was deleted may learn a trajectory again before the old rows are erased, which have older times.
        """

    async def insert(self, new: NewTrajectory, max_bytes: int) -> bool:
        """Insert a trajectory; return whether it is new. Raises `ArchiveFull`."""

    async def read(self, dataset: str, trajectory_id: str, content_hash: str) -> StoredBody | None:
        """Return the last stored trajectory with an id, and a content hash if it is not empty; else a tombstone."""

    async def list_trajectories(
        self, dataset: str, filters: TrajectoryFilter, before: int | None, limit: int
    ) -> list[ArchivedTrajectory] | None:
        """Return at most `limit` trajectories, the last stored first; None for a dataset without archive."""

    async def delete(self, dataset: str, trajectory_id: str) -> datetime | None:
        """Delete the trajectories with an id; return when, or when they were deleted before; None if there are none."""

    async def delete_archive(self, dataset: str, deleted_at: datetime | None = None) -> int:
        """Delete the trajectories that a dataset stored until `deleted_at`, by default now; return the number."""

    async def list_datasets(self, prefix: str = "") -> list[str]:
        """Return the datasets that have an archive."""

    async def find_totals(self, dataset: str) -> ArchiveTotals | None:
        """Return the retention and the size of an archive."""

    async def set_retention(self, key: IdempotencyKey, dataset: str, retention: Retention) -> None:
        """Set the retention of a dataset."""

    async def delete_expired(self, dataset: str, default: Retention) -> int:
        """Delete the trajectories beyond the retention of a dataset; return their number."""

    async def list_unpacked(self, dataset: str, limit: int) -> list[tuple[int, bytes]]:
        """Return the number and the body of at most `limit` trajectories that are in no pack, the oldest first."""

    async def find_small_pack(self, dataset: str, max_bytes: int) -> StoredPack | None:
        """Return the last pack if it has at most `max_bytes` before compression."""

    async def list_stale_packs(self, dataset: str) -> list[StoredPack]:
        """Return the packs that hold bodies of deleted trajectories."""

    async def write_packs(self, dataset: str, packs: Sequence[NewPack], replaced: Sequence[int]) -> bool:
        """Move bodies into packs, and delete the packs `replaced`; return whether it was done.

        It is not if a member was deleted or packed by somebody else meanwhile.
        """

    async def add_object(self, object_key: str) -> None:
        """Note an object before it is written, so that it is deleted if its trajectory is never inserted."""

    async def list_unused_objects(self) -> list[str]:
        """Return the keys of objects that belong to no trajectory."""

    async def forget_objects(self, object_keys: list[str]) -> None:
        """Delete the entries of objects that were deleted."""


class OverviewStore(Protocol):
    """Reads the sums of trajectories by day and agent."""

    async def list_groups(self, dataset: str, days: int) -> list[tuple[DayKey, TrajectoryCounts]]:
        """Return the sums of the newest days with trajectories."""


class BodyStore(Protocol):
    """Stores large bodies under a key."""

    async def put(self, object_key: str, body: bytes) -> None:
        """Store an object. Raises `ObjectStoreUnavailable`."""

    async def get(self, object_key: str) -> bytes:
        """Return an object. Raises `ObjectStoreUnavailable`."""

    async def delete(self, object_keys: list[str]) -> None:
        """Delete objects; those that do not exist are deleted, too. Raises `ObjectStoreUnavailable`."""
