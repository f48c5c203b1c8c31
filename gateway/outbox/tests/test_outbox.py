"""Trajectories on their way to the archive: on disk before Learn ends, delivered after any outage of the archive."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chassis.errors import HanseiError, Internal, InvalidArgument, ResourceExhausted, Unavailable
from chassis.retry import RetryPolicy
from gateway.outbox.adapters.sql.repository import OutboxRepository
from gateway.outbox.adapters.sql.schema import MIGRATIONS
from gateway.outbox.usecases.deliver_trajectories import DeliveryResult, TrajectoryOutbox
from hansei.evidence.v1 import archive_service_pb2 as archive_pb
from hansei.reflector.v1 import trajectory_pb2
from libs.storage.database import Database

AT_ONCE = RetryPolicy(attempts=None, first_pause=0)
NOW = datetime(2026, 11, 25, tzinfo=UTC)


@dataclass
class ScriptedArchive:
    """An archive that raises `failures` in turn, then stores; `faults` are further failures of a trajectory, by id."""

    failures: list[HanseiError] = field(default_factory=list)
    faults: dict[str, list[HanseiError]] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)

    async def StoreTrajectory(self, request: archive_pb.StoreTrajectoryRequest) -> archive_pb.StoreTrajectoryResponse:
        if self.failures:
            raise self.failures.pop(0)
        if self.faults.get(request.trajectory.id):
            raise self.faults[request.trajectory.id].pop(0)
        self.stored.append(request.trajectory.id)
        return archive_pb.StoreTrajectoryResponse(stored=True)


@dataclass
class OutboxSystem:
    """An outbox with a scripted archive, and the results that it counts."""

    archive: ScriptedArchive
    database: Database
    repository: OutboxRepository
    outbox: TrajectoryOutbox
    results: Counter[DeliveryResult]
    finished: asyncio.Semaphore

    async def deliver(self, count: int) -> None:
        """Run the delivery until this number of further trajectories is delivered or refused."""
        running = asyncio.create_task(self.outbox.run())
        async with asyncio.timeout(30):
            for _ in range(count):
                await self.finished.acquire()
            while await self.repository.list_entries(10):
                pass
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


@asynccontextmanager
async def open_outbox(
    folder: Path,
    *failures: HanseiError,
    max_bytes: int = 10_000,
    max_message_bytes: int = 10_000,
    executor: str = "one",
    now: datetime = NOW,
    gather_seconds: float = 0.0,
    policy: RetryPolicy = AT_ONCE,
) -> AsyncIterator[OutboxSystem]:
    database = Database(str(folder / "gateway.db"), MIGRATIONS, service="gateway", store="outbox")
    repository = OutboxRepository(database, executor, lambda: now)
    archive, results = ScriptedArchive(list(failures)), Counter[DeliveryResult]()
    finished = asyncio.Semaphore(0)

    def count(result: DeliveryResult) -> None:
        results[result] += 1
        if result is not DeliveryResult.NOT_STORED:
            finished.release()

    outbox = TrajectoryOutbox(
        repository,
        archive,
        max_bytes,
        max_message_bytes=max_message_bytes,
        count=count,
        policy=policy,
        gather_seconds=gather_seconds,
    )
    await database.open()
    await outbox.count_waiting_bytes()
    try:
        yield OutboxSystem(archive, database, repository, outbox, results, finished)
    finally:
        await database.close()


def make_request(trajectory_id: str, query: str = "q") -> archive_pb.StoreTrajectoryRequest:
    trajectory = trajectory_pb2.Trajectory(id=trajectory_id, dataset="d", query=query)
    return archive_pb.StoreTrajectoryRequest(dataset="d", trajectory=trajectory)


async def test_trajectories_are_delivered_in_order(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        for number in range(40):
            await system.outbox.add(make_request(f"t-{number}"))
        assert system.archive.stored == []
        await system.deliver(40)
        assert system.archive.stored == [f"t-{number}" for number in range(40)]
        assert await system.repository.sum_bytes() == 0


async def test_whoever_learns_one_at_a_time_finds_it_in_the_archive(tmp_path: Path) -> None:
    async with open_outbox(tmp_path, gather_seconds=20.0) as system:
        running = asyncio.create_task(system.outbox.run())
        async with asyncio.timeout(10):  # the pause after one trajectory is a tenth of the longest one
            for number in range(2):
                await system.outbox.add(make_request(f"t-{number}"))
                await system.finished.acquire()
        running.cancel()
        assert system.archive.stored == ["t-0", "t-1"]


async def test_trajectories_wait_while_the_archive_is_unavailable_or_full(tmp_path: Path) -> None:
    away = [Unavailable("away"), ResourceExhausted("the archive is full"), Unavailable("away"), Internal("fault")]
    async with open_outbox(tmp_path, *away) as system:
        await system.outbox.add(make_request("t-1"))
        await system.deliver(1)
        assert system.archive.stored == ["t-1"]
        assert system.results == {DeliveryResult.DELIVERED: 1}


async def test_undelivered_trajectories_are_delivered_after_a_restart(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        await system.outbox.add(make_request("t-1"))
    async with open_outbox(tmp_path) as system:
        await system.deliver(1)
        assert system.archive.stored == ["t-1"]


async def test_a_replica_delivers_the_trajectories_of_a_dead_one(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        await system.outbox.add(make_request("t-1"))
    async with open_outbox(tmp_path, executor="two") as system:
        assert await system.repository.list_entries(10) == []
    async with open_outbox(tmp_path, executor="two", now=NOW + timedelta(minutes=2)) as system:
        await system.deliver(1)
        assert system.archive.stored == ["t-1"]


async def test_a_refused_trajectory_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        system.archive.faults = {"refused": [InvalidArgument("too large")], "faulty": [Internal("fault")] * 10}
        for name in ("refused", "faulty", "good"):
            await system.outbox.add(make_request(name))
        await system.deliver(3)
        assert system.archive.stored == ["good"]
        assert system.results == {DeliveryResult.REFUSED: 2, DeliveryResult.DELIVERED: 1}


async def test_a_trajectory_that_is_larger_than_a_message_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with open_outbox(tmp_path, max_message_bytes=100) as system:
        await system.outbox.add(make_request("large", query="x" * 100))
        assert system.results == {DeliveryResult.REFUSED: 1}
        assert await system.repository.list_entries(10) == []


async def deliver_good_and_later(system: OutboxSystem) -> list[str]:
    """Run the outbox until two trajectories are finished, the second of which is added after the first."""
    running = asyncio.create_task(system.outbox.run())
    async with asyncio.timeout(20):
        await system.finished.acquire()
        await system.outbox.add(make_request("later"))
        await system.finished.acquire()
    running.cancel()
    return system.archive.stored


async def test_trajectories_that_fail_for_good_delay_no_others(tmp_path: Path) -> None:
    slowly = RetryPolicy(attempts=None, first_pause=600.0, longest_pause=600.0, is_exact=True)
    async with open_outbox(tmp_path, policy=slowly) as system:
        faulty = [f"faulty-{number}" for number in range(40)]
        system.archive.faults = {name: [Internal("fault")] * 10 for name in faulty}
        for name in (*faulty, "good"):
            await system.outbox.add(make_request(name))
        assert await deliver_good_and_later(system) == ["good", "later"]
        assert system.results == {DeliveryResult.DELIVERED: 2}


async def test_a_stored_trajectory_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        await system.repository.add(b"\xff")
        await system.outbox.add(make_request("good"))
        assert await deliver_good_and_later(system) == ["good", "later"]


async def test_an_archive_that_stores_nothing_loses_no_trajectory(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        system.archive.faults = {f"t-{number}": [Internal("fault")] * 15 for number in range(3)}
        for number in range(3):
            await system.outbox.add(make_request(f"t-{number}"))
        await system.deliver(3)
        assert system.results == {DeliveryResult.DELIVERED: 3}


async def test_only_the_trajectory_that_failed_is_delivered_again(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        system.archive.faults = {"t-1": [Unavailable("away"), Unavailable("away")]}
        for number in range(4):
            await system.outbox.add(make_request(f"t-{number}"))
        await system.deliver(4)
        assert sorted(system.archive.stored) == ["t-0", "t-1", "t-2", "t-3"]


async def test_a_full_outbox_stores_no_more_and_fails_no_learning(tmp_path: Path) -> None:
    async with open_outbox(tmp_path, max_bytes=100) as system:
        await system.outbox.add(make_request("t-1"))
        await system.outbox.add(make_request("t-2", query="x" * 100))
        assert system.results == {DeliveryResult.NOT_STORED: 1}
        await system.deliver(1)
        await system.outbox.add(make_request("t-3"))
        await system.deliver(1)
        assert system.archive.stored == ["t-1", "t-3"]


async def test_trajectories_that_are_added_at_once_do_not_exceed_the_limit_together(tmp_path: Path) -> None:
    async with open_outbox(tmp_path, max_bytes=100) as system:
        await asyncio.gather(*(system.outbox.add(make_request(f"t-{number}")) for number in range(10)))
        assert 0 < await system.repository.sum_bytes() <= 100
        assert system.results[DeliveryResult.NOT_STORED] == 10 - len(await system.repository.list_entries(10))


async def test_an_unavailable_database_fails_no_learning(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        await system.database.close()
        await system.outbox.add(make_request("t-1"))
        assert system.results == {DeliveryResult.NOT_STORED: 1}


async def test_a_process_that_ends_delivers_what_it_can(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as system:
        await system.outbox.add(make_request("t-1"))
        await system.outbox.drain()
        assert system.archive.stored == ["t-1"]
        system.archive.failures.append(Unavailable("away"))
        await system.outbox.add(make_request("t-2"))
        await system.outbox.drain()
        assert len(await system.repository.list_entries(10)) == 1
