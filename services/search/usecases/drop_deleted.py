"""Delete the snapshots of deleted playbooks, also of those that nobody follows here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from chassis.errors import HanseiError
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
    """Compares the snapshots with the deletions at the start and then every `seconds`, without end."""

    def __init__(
        self,
        source: DeletionSource,
        snapshots: Snapshots[IndexedBullet],
        pool: CpuPool,
        seconds: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._source = source
        self._snapshots = snapshots
        self._pool = pool
        self._seconds = seconds
        self._sleep = sleep

    async def __call__(self) -> None:
        """Run without end."""
        while True:
            try:
                for dataset, revision in (await self._source.list_deletions()).items():
                    await self._pool.run(self._snapshots.delete_before, dataset, revision)
            except HanseiError as error:
                log.info("list of deleted playbooks could not be read; trying again later", error=str(error))
            await self._sleep(self._seconds)
