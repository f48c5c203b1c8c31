"""Partitions of PostgreSQL: statements on servings and the archive touch one; old sessions go by whole ones."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import Connection, Engine, event, func, select

from hansei.evidence.v1 import archive_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2
from libs.storage.idempotency import IdempotencyKey
from libs.storage.partitions import PERIOD
from services.evidence.adapters.sql.guard_repository import GuardRepository
from services.evidence.adapters.sql.guard_schema import guard_event, guard_session
from services.evidence.adapters.sql.guard_trial_repository import GuardTrialRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.guard_sessions import SessionText
from services.evidence.domain.policy import TrialPolicy
from services.evidence.tests.archives import DATASET, Clock, list_ids, make_trajectory, open_archive, read, store
from services.evidence.tests.test_store import NOW, run_sessions, start_key
from services.evidence.usecases.ports import OutcomeReport
from tests.conftest import create_database, database_location, postgres
from tests.support.postgres_server import PostgresServer
from tests.support.touched_partitions import find_unpruned, record_partitions

__all__ = ["create_database", "database_location", "postgres"]

ARCHIVE = ("archive_trajectory", "archive_mark")


async def test_statements_on_servings_touch_one_partition(postgres: PostgresServer) -> None:
    trials = EvidenceRepository(postgres.database(), clock=lambda: NOW)
    await trials.database.open()
    try:
        with record_partitions("serving") as statements:
            await trials.start(start_key(), DATASET, TrialPolicy(0.2, 0.1))
            serving_ids = await run_sessions(trials, range(12), lambda served: float(bool(served)))
            corrected = await trials.report(DATASET, OutcomeReport(serving_ids[0], 0.5, True))
            assert corrected.outcome == 0.5
            assert await trials.erase(DATASET, NOW)
    finally:
        await trials.database.close()
    assert find_unpruned(statements) == []
    assert any(partitions for _, partitions in statements)


async def test_statements_on_the_archive_touch_one_partition(postgres: PostgresServer) -> None:
    async with open_archive(EvidenceRepository(postgres.database())) as (servicer, archive, _):
        with record_partitions(*ARCHIVE) as statements:
            for number in range(12):
                await store(servicer, f"t-{number}")
            learned = pb.StoreTrajectoryRequest(
                dataset=DATASET, trajectory=make_trajectory(), ground_truth="done", learned_bullet_ids=["b-9"]
            )
            await servicer.StoreTrajectory(learned, None)
            failed = trajectory_pb2.TRAJECTORY_STATUS_FAILURE
            assert len(await list_ids(servicer, status=failed, error="push")) == 12
            assert (await read(servicer)).trajectory.id == "t-1"
            await archive.store.delete(DATASET, "t-2")
            assert await archive.store.delete_archive(DATASET) == 11
    assert find_unpruned(statements) == []
    assert {name.rpartition("_")[0] for _, partitions in statements for name in partitions} == set(ARCHIVE)


async def test_old_sessions_are_dropped_by_whole_partitions(database_location: str) -> None:
    clock = Clock()
    evidence = EvidenceRepository(database_location)
    await evidence.database.open()
    guards, trials = GuardRepository(evidence.database, clock), GuardTrialRepository(evidence.database, clock)
    try:
        for _ in range(6):
            for number in range(3):
                await append(guards, f"{clock.now:%d}-{number}")
                assert (await trials.report_session(DATASET, f"{clock.now:%d}-{number}", True)).is_counted
                assert not (await trials.report_session(DATASET, f"{clock.now:%d}-{number}", True)).is_counted
            clock.now += PERIOD
        assert await evidence.database.read(count_rows) == {"guard_event": 36, "guard_session": 18}
        deleted: list[str] = []

        def note_deletion(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if statement.startswith("DELETE"):
                deleted.append(statement)

        event.listen(Engine, "before_cursor_execute", note_deletion)
        try:
            await guards.delete_older(3 * PERIOD - timedelta(hours=6))
        finally:
            event.remove(Engine, "before_cursor_execute", note_deletion)
        assert bool(deleted) != evidence.database.is_postgresql
        # Of the week in which the limit is, PostgreSQL keeps everything.
        weeks = 3 if evidence.database.is_postgresql else 2
        assert await evidence.database.read(count_rows) == {"guard_event": 6 * weeks, "guard_session": 3 * weeks}
        assert len(await guards.load_events(DATASET, f"{clock.now - PERIOD:%d}-0", 0)) == 2
        assert await guards.load_events(DATASET, "25-0", 0) == []
    finally:
        await evidence.database.close()


async def test_replicas_number_the_events_of_a_session_one_after_another(database_location: str) -> None:
    replicas = [EvidenceRepository(database_location) for _ in range(2)]
    for replica in replicas:
        await replica.database.open()
    guards = [GuardRepository(replica.database, Clock()) for replica in replicas]
    try:
        counts = await asyncio.gather(*(append(guards[number % 2], "s") for number in range(40)))
        assert sorted(counts) == list(range(2, 82, 2))
        assert len(await guards[0].load_events(DATASET, "s", 0)) == 80
    finally:
        for replica in replicas:
            await replica.database.close()


async def append(guards: GuardRepository, session_id: str) -> int:
    """Add two events to a session; return their number in all."""
    key = IdempotencyKey(str(uuid4()), "ReportCall", b"")
    return await guards.append_events(key, DATASET, session_id, [SessionText("hello"), SessionText("again")])


def count_rows(connection: Connection) -> dict[str, int]:
    tables = (guard_event, guard_session)
    return {table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables}
