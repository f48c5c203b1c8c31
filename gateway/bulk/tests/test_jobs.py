"""Jobs of bulk learning: taken whole or not at all, once, within bounds; looked after, cancelled, forgotten."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import InvalidArgument, RequestIdReused
from gateway.bulk.adapters.sql.repository import REQUEUE_AFTER
from gateway.bulk.domain.attempts import TrajectoryCommit
from gateway.bulk.domain.batches import MAX_BATCH, learn_request_id, split_positions
from gateway.bulk.domain.errors import JobNotFound, QueueFull
from gateway.bulk.domain.job import JobState, JobTotals, NewJob, QueueCapacity
from gateway.bulk.tests.bulk_system import NOW, BulkSystem, ScriptedLearner, item, messages
from gateway.bulk.usecases.submit_job import submit_job
from hansei.gateway.v1 import bulk_service_pb2 as service


async def test_an_interrupted_submission_stores_nothing(system: BulkSystem) -> None:
    job_id = str(uuid.uuid4())

    async def fail() -> AsyncIterator[service.SubmitTrajectoriesRequest]:
        async for message in messages(3, job_id):
            yield message
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await submit_job(system.jobs, fail())

    with pytest.raises(JobNotFound):
        await system.jobs.find(job_id)
    assert not await system.batches.has_waiting()
    assert (await system.submit(3, job_id))[0] == job_id


async def test_the_same_file_is_the_same_job_and_another_file_is_another_job(system: BulkSystem) -> None:
    job_id = str(uuid.uuid4())
    first, later = item(0), item(0)
    first.trajectory.steps.add(content="done")
    later.trajectory.steps.add(content="done", source="messages[0]")
    later.trajectory.created_at.FromDatetime(NOW)
    await submit_job(system.jobs, messages(0, job_id, items=[first]))

    assert await submit_job(system.jobs, messages(0, job_id, items=[later])) == (job_id, None)
    with pytest.raises(RequestIdReused):
        await submit_job(system.jobs, messages(0, job_id, items=[item(1)]))


async def test_two_submissions_of_one_job_at_once_are_one_job(system: BulkSystem) -> None:
    job_id = str(uuid.uuid4())

    found = await asyncio.gather(*(system.submit(30, job_id, size=5) for _ in range(4)))

    assert sum(bool(key) for _, key in found) == 1
    assert (await system.jobs.find(job_id)).total == 30


async def test_capacity_is_bounded_in_trajectories_and_in_bytes(tmp_path: Path) -> None:
    for capacity in (QueueCapacity(10, 10_000), QueueCapacity(1000, 500)):
        system = BulkSystem(tmp_path / str(capacity.bytes), capacity)
        await system.database.open()
        with pytest.raises(QueueFull) as refused:
            await system.submit(100, size=3)
        assert refused.value.retry_after
        assert not await system.batches.has_waiting()
        _, key = await system.submit(10)
        await system.learn(key, ScriptedLearner())
        await system.submit(10)  # learned trajectories free capacity
        await system.database.close()


async def test_cancel_and_retry_happen_once_per_request(system: BulkSystem) -> None:
    job_id, key = await system.submit(4)
    dead = ScriptedLearner([InvalidArgument("no")] * 2)
    await system.learn(key, dead)
    again, cancelled = str(uuid.uuid4()), str(uuid.uuid4())

    assert (await system.retry(job_id, again)).waiting == 2
    assert (await system.cancel(job_id, cancelled)).dropped == 2
    assert (await system.retry(job_id, again)).state == JobState.CANCELLED
    with pytest.raises(JobNotFound):
        await system.cancel(str(uuid.uuid4()), cancelled)


async def test_tenants_choose_ids_of_requests_independently_of_each_other(system: BulkSystem) -> None:
    jobs = [(await system.submit(2, dataset=dataset))[0] for dataset in ("acme--d", "other--d", "acme--e")]
    request_id = str(uuid.uuid4())
    for job_id in jobs[:2]:
        assert (await system.cancel(job_id, request_id)).dropped == 2
    with pytest.raises(RequestIdReused):
        await system.cancel(jobs[2], request_id)


async def test_a_cancelled_job_finishes_what_it_had_started_after_a_crash_too(system: BulkSystem) -> None:
    job_id, key = await system.submit(4)
    learned, book = TrajectoryCommit(1, 0, 1, changed=True), ScriptedLearner()
    await system.batches.start_trajectory(key, 0)
    await system.batches.save_learned(key, 0, learned)
    await system.batches.start_trajectory(key, 1)  # the curator commits it, and then the gateway dies

    cancelled = await system.cancel(job_id)
    assert (cancelled.state, cancelled.waiting, cancelled.dropped) == (JobState.RUNNING, 1, 2)
    assert await system.batches.start_trajectory(key, 2) is None
    assert await system.batches.list_overdue_jobs() == [(key, 0)]
    await system.learn(key, book)

    job = await system.jobs.find(job_id)
    assert [request.request_id for request in book.requests] == [learn_request_id(job_id, 1)]
    assert (job.state, job.learned, job.dropped, job.ended_at) == (JobState.CANCELLED, 2, 2, NOW)


async def test_a_dropped_trajectory_that_was_learned_counts_as_learned(system: BulkSystem) -> None:
    job_id, key = await system.submit(3)
    await system.cancel(job_id)

    await system.batches.save_learned(key, 1, TrajectoryCommit(1, 0, 4, changed=True))
    await system.batches.save_learned(key, 1, TrajectoryCommit(1, 0, 4, changed=True))

    job = await system.jobs.find(job_id)
    assert (job.state, job.learned, job.dropped) == (JobState.CANCELLED, 1, 2)


async def test_batches_that_were_never_queued_are_claimed_by_one_replica(system: BulkSystem) -> None:
    _, key = await system.submit(3)
    assert await system.batches.list_overdue_jobs() == []  # the replica that took it is about to
    system.clock.now += REQUEUE_AFTER

    assert await system.batches.list_overdue_jobs() == [(key, 0)]
    assert [await system.batches.start_generation(key, 0) for _ in range(3)] == [True, False, False]
    assert await system.batches.list_overdue_jobs() == []
    assert (await system.batches.list_batches(key))[0].batch_id.startswith(f"{key}/1/")


@pytest.mark.parametrize("moved", [timedelta(seconds=5), timedelta(0), timedelta(hours=-1)])
async def test_a_live_replica_changes_its_heartbeat_during_clock_jumps(system: BulkSystem, moved: timedelta) -> None:
    first, two = system.replica("one"), system.replica("two")
    await first.renew()
    await two.renew()
    before = {state.name: state for state in await first.list_states()}
    system.clock.now += moved
    await two.renew()
    after = {state.name: state for state in await first.list_states()}
    assert after["one"] == before["one"]
    assert after["two"] != before["two"]


async def test_the_row_of_a_replica_that_left_is_deleted_unless_it_returned(system: BulkSystem) -> None:
    first, other = system.replica("one"), system.replica("other")
    await first.renew()
    await first.release()
    (left,) = await other.list_states()
    assert left.owner is None
    await first.renew()
    await other.delete(left)  # it is available again
    (back,) = await other.list_states()
    assert back.owner == "one"
    await other.delete(back)
    assert await other.list_states() == []
    await first.renew()  # its lease was deleted while it worked
    assert [state.owner for state in await other.list_states()] == ["one"]


async def test_work_postponed_by_a_fast_clock_is_still_done(system: BulkSystem) -> None:
    system.clock.now += timedelta(hours=1)
    _, key = await system.submit(3)
    system.clock.now -= timedelta(hours=1)
    assert await system.batches.list_overdue_jobs() == [(key, 0)]
    assert await system.batches.start_generation(key, 0)
    assert await system.batches.list_overdue_jobs() == []


async def test_jobs_are_deleted_after_their_retention(system: BulkSystem) -> None:
    job_id, key = await system.submit(2)
    await system.learn(key, ScriptedLearner())
    system.clock.now += timedelta(hours=2)
    _, running = await system.submit(1)
    await system.jobs.begin("cut off", NewJob(job_id, "d", None))
    system.clock.now += timedelta(hours=2)
    assert await system.jobs.list_expired_keys(timedelta(hours=5), timedelta(hours=3)) == []
    assert sorted(await system.jobs.list_expired_keys(timedelta(hours=3), timedelta(hours=1))) == sorted(
        [key, "cut off"]
    )
    await system.jobs.discard(key)
    with pytest.raises(JobNotFound):
        await system.jobs.find(job_id)
    assert await system.batches.list_batches(running)


@given(count=st.integers(1, 3000), spread=st.integers(1, 64))
def test_batches_cover_a_job_and_small_jobs_are_spread(count: int, spread: int) -> None:
    cuts = split_positions(list(range(count)), spread)
    assert [position for batch in cuts for position in batch] == list(range(count))
    assert all(1 <= len(batch) <= MAX_BATCH for batch in cuts)
    assert len(cuts) >= min(count, 4 * spread)


async def test_totals_are_the_sums_of_the_jobs(system: BulkSystem) -> None:
    assert await system.jobs.count_totals() == JobTotals(
        dict.fromkeys(["running", "completed", "incomplete", "cancelled"], 0),
        dict.fromkeys(["waiting", "learned", "dead", "dropped"], 0),
    )
    for refused in ([], [InvalidArgument("no")], [InvalidArgument("no")] * 3):
        _, key = await system.submit(3)
        await system.learn(key, ScriptedLearner(refused))
    left, _ = await system.submit(4)
    await system.cancel(left)
    await system.submit(5)
    await system.jobs.begin("still arriving", NewJob(left, "d", None))

    assert await system.jobs.count_totals() == JobTotals(
        {"running": 1, "completed": 1, "incomplete": 2, "cancelled": 1},
        {"waiting": 5, "learned": 5, "dead": 4, "dropped": 4},
    )
