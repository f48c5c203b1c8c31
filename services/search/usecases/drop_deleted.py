"""Delete the snapshots of deleted playbooks, also of those that nobody follows here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from chassis.logging import get_logger
from chassis.server.cpu import CpuPool
from services.search.domain.bullet import IndexedBullet
from services.search.domain.snapshot import Snapshots

log = get_logger(__name__)


class DeletionSource(Protocol):
    """The store of the playbooks."""

    async def list_deletions(self) -> Mapping[str, int]:
        """Return the revisions of the deletions of playbooks, by dataset. Raises `HanseiError`."""


class DropDeletedPlaybooks:
    """Compares the snapshots with the deletions of playbooks."""

    def __init__(
        self,
        source: DeletionSource,
        snapshots: Snapshots[IndexedBullet],
        pool: CpuPool,
    ) -> None:
        self._source = source
        self._snapshots = snapshots
        self._pool = pool

    async def __call__(self) -> None:
        """Delete the snapshots of the playbooks that are deleted now. Raises `HanseiError`."""
        for dataset, revision in (await self._source.list_deletions()).items():
            await self._pool.run(self._snapshots.delete_before, dataset, revision)
