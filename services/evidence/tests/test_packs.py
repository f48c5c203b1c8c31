"""Bodies of a dataset that are packed together, and packs that are written again after deletions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select

from hansei.evidence.v1 import archive_service_pb2 as pb
from services.evidence.adapters.bodies import decompress
from services.evidence.adapters.sql.archive_schema import archive_pack
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.archive_errors import TrajectoryDeleted
from services.evidence.rpc.servicer.archive import ArchiveServicer
from services.evidence.tests.archives import DATASET, LIMITS, make_trajectory, open_archive, read, store
from services.evidence.usecases.archive import Archive, ArchiveLimits
from services.evidence.usecases.archive_ports import NewPack, PackMember
from tests.conftest import create_database, database_location, postgres
from tests.support.touched_partitions import find_unpruned, record_partitions

__all__ = ["create_database", "database_location", "postgres"]


@asynccontextmanager
async def open_packs(
    database: str, limits: ArchiveLimits = LIMITS
) -> AsyncIterator[tuple[ArchiveServicer, Archive, Callable[[], Awaitable[int]]]]:
    """Open an archive in a database of either engine, whose packs can be counted.

    On PostgreSQL every statement must touch one partition of each table.
    """
    evidence = EvidenceRepository(database)
    query = select(func.count()).where(archive_pack.c.dataset_id == 1)

    async def count_packs() -> int:
        return await evidence.database.read(lambda connection: connection.execute(query).scalar_one())

    async with open_archive(evidence, limits) as (servicer, archive, _):
        with record_partitions("archive_trajectory", "archive_pack", "archive_mark") as statements:
            yield servicer, archive, count_packs
    assert find_unpruned(statements) == []
    assert bool(statements) == evidence.database.is_postgresql


@contextmanager
def record_moves() -> Iterator[list[str]]:
    """Yield the statements that move bodies into packs, which are added as they are executed."""
    moves: list[str] = []

    def record(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE archive_trajectory"):
            moves.append(statement)

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield moves
    finally:
        event.remove(Engine, "before_cursor_execute", record)


async def test_maintenance_packs_bodies_and_every_trajectory_stays_readable(database_location: str) -> None:
    async with open_packs(database_location) as (servicer, archive, _):
        for number in range(20):
            await store(servicer, f"t-{number}", query=f"push branch {number}")
        before = (await archive.find_totals(DATASET)).size
        with record_moves() as moves:
            await archive.maintain()
        assert len(moves) == 1
        totals = await archive.find_totals(DATASET)
        assert totals.size < before / 4
        assert await archive.store.list_unpacked(DATASET, 99) == []
        for number in range(20):
            found = await read(servicer, f"t-{number}")
            assert found.trajectory == make_trajectory(f"t-{number}", query=f"push branch {number}")
        assert sum([(await read(servicer, f"t-{number}")).summary.bytes for number in range(20)]) == totals.size


async def test_a_small_pack_grows_and_few_bodies_stay_alone(database_location: str) -> None:
    async with open_packs(database_location) as (servicer, archive, _):
        for batch in range(3):
            for number in range(8):
                await store(servicer, f"t-{batch}-{number}")
            await archive.maintain()
        small = await archive.store.find_small_pack(DATASET, 10**6)
        assert small is not None
        assert len(small.members) == 24
        await store(servicer, "alone")
        await archive.maintain()
        assert len(await archive.store.list_unpacked(DATASET, 99)) == 1


async def test_large_packs_are_left_alone(database_location: str) -> None:
    limits = replace(LIMITS, trajectory_bytes=1_000_000, row_bytes=10**6)
    async with open_packs(database_location, limits) as (servicer, archive, count_packs):
        for number in range(16):
            await store(servicer, f"t-{number}", query=f"{number} " + "x" * 50_000)
        await archive.maintain()
        assert await count_packs() == 4
        assert (await read(servicer, "t-15")).trajectory.query.startswith("15 ")


async def test_a_deleted_trajectory_leaves_its_pack(database_location: str) -> None:
    async with open_packs(database_location) as (servicer, archive, count_packs):
        for number in range(10):
            await store(servicer, f"t-{number}", query=f"branch-{number}")
        await archive.maintain()
        await servicer.DeleteTrajectory(pb.DeleteTrajectoryRequest(dataset=DATASET, trajectory_id="t-3"), None)
        assert await count_packs() == 1
        pack = await archive.store.find_small_pack(DATASET, 10**6)
        assert pack is not None
        assert len(pack.members) == 9
        assert b"branch-3" not in decompress(pack.body)
        with pytest.raises(TrajectoryDeleted):
            await read(servicer, "t-3")
        for number in {*range(10)} - {3}:
            assert (await read(servicer, f"t-{number}")).trajectory.query == f"branch-{number}"
        totals = await archive.find_totals(DATASET)
        assert (totals.trajectories, totals.size) == (9, len(pack.body))
        await servicer.DeleteArchive(pb.DeleteArchiveRequest(dataset=DATASET), None)
        assert await count_packs() == 0
        assert (await archive.find_totals(DATASET)).size == 0


async def test_a_deletion_while_bodies_are_packed_wins(database_location: str) -> None:
    async with open_packs(database_location) as (servicer, archive, count_packs):
        for number in range(8):
            await store(servicer, f"t-{number}")
        unpacked = await archive.store.list_unpacked(DATASET, 99)
        await servicer.DeleteTrajectory(pb.DeleteTrajectoryRequest(dataset=DATASET, trajectory_id="t-0"), None)
        members = tuple(PackMember(number, 0, 1) for number, _ in unpacked)
        assert not await archive.store.write_packs(DATASET, [NewPack(b"x", members)], [])
        assert await count_packs() == 0
        assert (await read(servicer, "t-1")).trajectory == make_trajectory("t-1")
