"""Delete the snapshots of deleted playbooks, also of those that nobody follows here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from chassis.server.cpu import CpuPool
from services.search.domain.bullet import IndexedBullet
from services.search.domain.snapshot import Snapshots


class DeletionSource(Protocol):
    """The store of the playbooks."""

    async def list_deletions(self) -> Mapping[str, int]:
        """Return the revisions of the deletions of playbooks, by dataset. Raises `HanseiError`."""


async def drop_deleted_playbooks(source: DeletionSource, snapshots: Snapshots[IndexedBullet], pool: CpuPool) -> None:
    """Delete the snapshots of the playbooks that are deleted now. Raises `HanseiError`."""
    for dataset, revision in (await source.list_deletions()).items():
        await pool.run(snapshots.delete_before, dataset, revision)
