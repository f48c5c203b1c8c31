"""Test targets on the archived trajectories of a dataset whose outcome is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from chassis.targets.target import Target
from libs.guards.backtest import Backtest, backtest
from libs.guards.guard_trajectory import GuardTrajectory
from services.evidence.domain.archive import ArchivedTrajectory
from services.evidence.domain.archive_errors import ArchiveNotFound, TrajectoryDeleted, TrajectoryNotFound
from services.evidence.usecases.archive import Archive
from services.evidence.usecases.archive_ports import TrajectoryFilter

PAGE_SIZE = 200
MAX_TRAJECTORIES = 5_000
"""The last stored trajectories of an archive that a whole backtest reads."""


@dataclass(frozen=True, slots=True)
class BacktestPage:
    """The backtest on a page of an archive; `next_cursor` is None on the last one.

    `skipped` trajectories have no outcome beyond the agent's own word.
    """

    backtest: Backtest
    skipped: int
    next_cursor: int | None


class BacktestArchive:
    """Reads archived trajectories and tests targets on them.

    `decode_trajectory` decodes a stored body; it returns None without an outcome.
    """

    def __init__(
        self, archive: Archive, decode_trajectory: Callable[[ArchivedTrajectory, bytes], GuardTrajectory | None]
    ) -> None:
        self._archive = archive
        self._decode_trajectory = decode_trajectory

    async def test_page(self, target: Target, dataset: str, before: int | None, size: int) -> BacktestPage:
        """Return the firings of a target in a page of the archive, the last stored trajectories first.

        Raises `ArchiveNotFound`, and the errors of the stores.
        """
        found = await self._archive.store.list_trajectories(dataset, TrajectoryFilter(), before, size + 1)
        if found is None:
            raise ArchiveNotFound(dataset)
        result, skipped = Backtest(), 0
        async for _, trajectory in self._read_trajectories(dataset, found[:size]):
            if trajectory is None:
                skipped += 1
            else:
                result = result.add(await asyncio.to_thread(backtest, target, [trajectory]))
        return BacktestPage(result, skipped, found[size - 1].number if len(found) > size else None)

    async def test(self, target: Target, dataset: str) -> Backtest:
        """Return the firings of a target in the last stored trajectories. Raises as `test_page` does."""
        result, cursor, remaining = Backtest(), None, MAX_TRAJECTORIES
        while remaining > 0:
            page = await self.test_page(target, dataset, cursor, min(PAGE_SIZE, remaining))
            result, cursor, remaining = result.add(page.backtest), page.next_cursor, remaining - PAGE_SIZE
            if cursor is None:
                break
        return result

    async def read_since(self, dataset: str, after: int, until: int) -> AsyncIterator[tuple[int, GuardTrajectory]]:
        """Yield the trajectories with an outcome that were stored after a number, each with its number, the last first.

        Of many trajectories only the last ones are read. Raises the errors of the stores.
        """
        before, remaining = until + 1, MAX_TRAJECTORIES
        while remaining > 0:
            found = await self._archive.store.list_trajectories(dataset, TrajectoryFilter(), before, PAGE_SIZE)
            listed = [trajectory for trajectory in found or () if trajectory.number > after]
            async for number, trajectory in self._read_trajectories(dataset, listed):
                if trajectory is not None:
                    yield number, trajectory
            if len(listed) < PAGE_SIZE:
                break
            before, remaining = listed[-1].number, remaining - PAGE_SIZE

    async def _read_trajectories(
        self, dataset: str, listed: list[ArchivedTrajectory]
    ) -> AsyncIterator[tuple[int, GuardTrajectory | None]]:
        """Yield each trajectory with its number, None without an outcome; a content that was replaced is left out."""
        for trajectory in listed:
            try:
                newest, body = await self._archive.read(dataset, trajectory.key.trajectory_id)
            except (TrajectoryNotFound, TrajectoryDeleted):  # it was deleted meanwhile
                continue
            if newest.key == trajectory.key:
                yield trajectory.number, await asyncio.to_thread(self._decode_trajectory, trajectory, body)
