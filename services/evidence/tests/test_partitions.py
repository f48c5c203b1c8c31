"""Each statement on the servings or the archive of a dataset touches one partition of PostgreSQL."""

from __future__ import annotations

from hansei.evidence.v1 import archive_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.policy import TrialPolicy
from services.evidence.tests.archives import DATASET, list_ids, make_trajectory, open_archive, read, store
from services.evidence.tests.test_store import NOW, run_sessions, start_key
from services.evidence.usecases.ports import OutcomeReport
from tests.conftest import postgres
from tests.support.postgres_server import PostgresServer
from tests.support.touched_partitions import find_unpruned, record_partitions

__all__ = ["postgres"]

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
    with record_partitions(*ARCHIVE) as statements:
        async with open_archive(EvidenceRepository(postgres.database())) as (servicer, archive, _):
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
