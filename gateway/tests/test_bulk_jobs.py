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
from gateway.bulk.batch_queue import BatchQueue, Lanes
from gateway.bulk.bulk import BulkLearning, Upkeep
from gateway.bulk.errors import JobNotFound, JobsUnavailable, QueueFull
from gateway.bulk.jobs import REQUEUE_AFTER, Room
from gateway.bulk.learner import BatchLearner
from gateway.bulk.progress import GONE, MAX_BATCH, cut
from gateway.bulk.records import Learned, Stock
from gateway.bulk.submission import received
from gateway.tests.bulk_desk import AT_ONCE, NOW, Book, Desk, item, messages
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from libs.sql.engines import url_of


async def test_a_submission_that_breaks_off_leaves_nothing(desk: Desk) -> None:
    job_id = str(uuid.uuid4())

    async def broken() -> AsyncIterator[service.SubmitTrajectoriesRequest]:
        async for message in messages(3, job_id):
            yield message
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await received(desk.jobs, broken())

    with pytest.raises(JobNotFound):
        await desk.jobs.job(job_id)
    assert not await desk.progress.something_waits()
    assert (await desk.submit(3, job_id))[0] == job_id


async def test_a_file_that_is_read_again_is_the_same_job_and_another_one_is_not(desk: Desk) -> None:
    job_id = str(uuid.uuid4())
    later = item(0)
    later.trajectory.created_at.FromDatetime(NOW)
    await desk.submit(1, job_id)

    assert await received(desk.jobs, messages(0, job_id, items=[later])) == (job_id, None)
    with pytest.raises(RequestIdReused):
        await received(desk.jobs, messages(0, job_id, items=[item(1)]))


async def test_two_submissions_of_one_job_at_once_are_one_job(desk: Desk) -> None:
    job_id = str(uuid.uuid4())

    found = await asyncio.gather(*(desk.submit(30, job_id, size=5) for _ in range(4)))

    assert sum(bool(key) for _, key in found) == 1
    assert (await desk.jobs.job(job_id)).total == 30


async def test_room_is_bounded_in_trajectories_and_in_bytes(tmp_path: Path) -> None:
    for room in (Room(10, 10_000), Room(1000, 500)):
        desk = Desk(tmp_path / str(room.bytes), room)
        await desk.database.open()
        with pytest.raises(QueueFull) as refused:
            await desk.submit(100, size=3)
        assert refused.value.retry_after
        assert not await desk.progress.something_waits()
        _, key = await desk.submit(10)
        await desk.learn(key, Book())
        await desk.submit(10)  # what is learned makes room
        await desk.database.close()


async def test_cancel_and_retry_happen_once_per_request(desk: Desk) -> None:
    job_id, key = await desk.submit(4)
    dead = Book([InvalidArgument("no")] * 2)
    await desk.learn(key, dead)
    again, cancelled = str(uuid.uuid4()), str(uuid.uuid4())

    assert (await desk.jobs.retry(job_id, again)).waiting == 2
    assert (await desk.jobs.cancel(job_id, cancelled)).dropped == 2
    assert (await desk.jobs.retry(job_id, again)).state == bulk.JOB_STATE_CANCELLED
    with pytest.raises(JobNotFound):
        await desk.jobs.cancel(str(uuid.uuid4()), cancelled)


async def test_what_was_learned_although_it_was_dropped_counts(desk: Desk) -> None:
    job_id, key = await desk.submit(3)
    await desk.jobs.cancel(job_id, str(uuid.uuid4()))

    await desk.progress.learned(key, 1, Learned(1, 0, 4, changed=True))
    await desk.progress.learned(key, 1, Learned(1, 0, 4, changed=True))

    job = await desk.jobs.job(job_id)
    assert (job.state, job.learned, job.dropped) == (bulk.JOB_STATE_CANCELLED, 1, 2)


async def test_what_nobody_queued_is_looked_after_by_one(desk: Desk) -> None:
    _, key = await desk.submit(3)
    assert await desk.progress.to_look_after() == []  # whoever took it is about to
    desk.clock.now += REQUEUE_AFTER

    assert await desk.progress.to_look_after() == [(key, 0)]
    assert [await desk.progress.next_generation(key, 0) for _ in range(3)] == [True, False, False]
    assert await desk.progress.to_look_after() == []
    assert (await desk.progress.batches(key))[0].batch_id.startswith(f"{key}/1/")


@pytest.mark.parametrize("moved", [timedelta(seconds=5), timedelta(0), timedelta(hours=-1)])
async def test_a_replica_that_works_changes_its_mark_whatever_its_clock_does(desk: Desk, moved: timedelta) -> None:
    await desk.progress.alive("one")
    await desk.progress.alive("two")
    before = await desk.progress.replicas()
    desk.clock.now += moved
    await desk.progress.alive("two")
    after = await desk.progress.replicas()
    assert after["one"] == before["one"]
    assert after["two"] != before["two"]


async def test_a_replica_that_left_is_forgotten_unless_it_is_back(desk: Desk) -> None:
    await desk.progress.alive("one")
    await desk.progress.gone("one")
    assert await desk.progress.replicas() == {"one": GONE}
    await desk.progress.alive("one")
    await desk.progress.forget_replica("one", GONE)  # it is back
    (mark,) = (await desk.progress.replicas()).values()
    await desk.progress.forget_replica("one", mark)
    assert await desk.progress.replicas() == {}


async def test_what_a_clock_put_off_that_ran_ahead_is_looked_after(desk: Desk) -> None:
    desk.clock.now += timedelta(hours=1)
    _, key = await desk.submit(3)
    desk.clock.now -= timedelta(hours=1)
    assert await desk.progress.to_look_after() == [(key, 0)]
    assert await desk.progress.next_generation(key, 0)
    assert await desk.progress.to_look_after() == []


async def test_jobs_are_kept_for_their_retention(desk: Desk) -> None:
    job_id, key = await desk.submit(2)
    await desk.learn(key, Book())
    desk.clock.now += timedelta(hours=2)
    _, running = await desk.submit(1)
    await desk.jobs.begin("cut off", service.JobHead(request_id=job_id, dataset="d"))
    desk.clock.now += timedelta(hours=2)
    assert await desk.jobs.over(timedelta(hours=5), timedelta(hours=3)) == []
    assert sorted(await desk.jobs.over(timedelta(hours=3), timedelta(hours=1))) == sorted([key, "cut off"])
    await desk.jobs.discard(key)
    with pytest.raises(JobNotFound):
        await desk.jobs.job(job_id)
    assert await desk.progress.batches(running)


@given(count=st.integers(1, 3000), spread=st.integers(1, 64))
def test_batches_cover_a_job_and_small_jobs_are_spread(count: int, spread: int) -> None:
    cuts = cut(list(range(count)), spread)
    assert [position for each in cuts for position in each] == list(range(count))
    assert all(1 <= len(each) <= MAX_BATCH for each in cuts)
    assert len(cuts) >= min(count, 4 * spread)


async def test_stock_is_what_the_jobs_say_one_by_one(desk: Desk) -> None:
    assert await desk.jobs.stock() == Stock(
        dict.fromkeys(["running", "completed", "incomplete", "cancelled"], 0),
        dict.fromkeys(["waiting", "learned", "dead", "dropped"], 0),
    )
    for refused in ([], [InvalidArgument("no")], [InvalidArgument("no")] * 3):
        _, key = await desk.submit(3)
        await desk.learn(key, Book(refused))
    left, _ = await desk.submit(4)
    await desk.jobs.cancel(left, str(uuid.uuid4()))
    await desk.submit(5)
    await desk.jobs.begin("still arriving", service.JobHead(request_id=left, dataset="d"))

    assert await desk.jobs.stock() == Stock(
        {"running": 1, "completed": 1, "incomplete": 2, "cancelled": 1},
        {"waiting": 5, "learned": 5, "dead": 4, "dropped": 4},
    )


async def test_a_gateway_starts_without_its_jobs_and_has_them_as_soon_as_it_can(tmp_path: Path) -> None:
    """Everything else it does needs no database."""
    folder = tmp_path / "data"
    folder.write_text("a file where the folder should be")
    desk = Desk(folder)
    learner = BatchLearner(Book(), desk.progress, AT_ONCE)
    queue = BatchQueue(url_of("unused.db"), "one", Lanes(1, 1), learner.run)
    upkeep = Upkeep("one", timedelta(seconds=0.2), timedelta(hours=1))
    stocks: list[Stock] = []
    learning = BulkLearning(desk.database, desk.jobs, desk.progress, queue, learner, upkeep, stocks.append)

    await learning.open()
    with pytest.raises(JobsUnavailable):
        await desk.jobs.job(str(uuid.uuid4()))

    folder.unlink()
    keeping = asyncio.create_task(learning.keep())
    async with asyncio.timeout(30):
        while not stocks:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0)
        await desk.database.open()
    with pytest.raises(JobNotFound):
        await desk.jobs.job(str(uuid.uuid4()))
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await learning.drain()
    await learning.close()
