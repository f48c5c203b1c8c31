"""Bulk learning on a real SQLite file, with a learner that answers from a script and clocks that stand."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chassis.errors import InvalidArgument, RequestIdReused, ResourceExhausted, Unavailable
from gateway.bulk.batch_queue import BatchQueue, Lanes
from gateway.bulk.bulk import BulkLearning, Upkeep
from gateway.bulk.database import JobsDatabase
from gateway.bulk.errors import JobNotFound, JobsUnavailable, QueueFull
from gateway.bulk.jobs import REQUEUE_AFTER, Jobs, Room
from gateway.bulk.learner import BatchLearner, Patience, outcome_of
from gateway.bulk.progress import GONE, MAX_BATCH, MAX_STARTS, Progress, cut
from gateway.bulk.records import Batch, Failure, Learned, learning_id
from gateway.bulk.submission import received
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from libs.sql.engines import url_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLENTY = Room(1000, 10_000_000)
AT_ONCE = Patience(attempts=3, base=1e-6, longest=1e-6)
Answer = gateway.LearnResponse | Exception


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class Book:
    """Learns as a curator would: once per `request_id`. `answers` come first, in order; then every run is saved."""

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.committed: dict[str, gateway.LearnResponse] = {}
        self.before: Callable[[], None] = lambda: None

    async def learn(self, request: gateway.LearnRequest) -> gateway.LearnResponse:
        self.asked.append(request.request_id)
        self.before()
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return self.committed.setdefault(request.request_id, saved(revision=len(self.committed) + 1))


def saved(revision: int = 1, edits: int = 1, votes: int = 0) -> gateway.LearnResponse:
    curation = curator.CurateResponse(
        saved=True,
        revision=revision,
        operations=[playbook.Operation(applied=True)] * edits + [playbook.Operation(applied=False)],
        votes=[playbook.VoteOutcome(applied=True)] * votes,
    )
    return gateway.LearnResponse(curation=curation)


class Desk:
    """Jobs and their progress in one database."""

    def __init__(self, folder: Path, room: Room = PLENTY, spread: int = 2) -> None:
        self.clock = Clock()
        self.database = JobsDatabase(url_of(str(folder / "gateway.db")))
        self.jobs = Jobs(self.database, room, self.clock)
        self.progress = Progress(self.database, spread, self.clock)

    async def submit(self, count: int, job_id: str = "", size: int = 40) -> tuple[str, str]:
        """Id and key of a new job."""
        found, key = await received(self.jobs, messages(count, job_id or str(uuid.uuid4()), size))
        return found, key or ""

    async def learn(self, key: str, book: Book, patience: Patience = AT_ONCE) -> BatchLearner:
        """Learn all batches of a job, one after the other."""
        learner = BatchLearner(book, self.progress, patience, share=lambda: 0.0)
        for batch in await self.progress.batches(key):
            await learner.run(batch)
        return learner


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    opened = Desk(tmp_path)
    await opened.database.open()
    yield opened
    await opened.database.close()


def item(number: int, dataset: str = "d") -> bulk.QueuedTrajectory:
    return bulk.QueuedTrajectory(
        trajectory=trajectory.Trajectory(id=f"t{number}", dataset=dataset, query="q"), ground_truth="42"
    )


async def messages(
    count: int, job_id: str, size: int = 40, items: Sequence[bulk.QueuedTrajectory] | None = None
) -> AsyncIterator[service.SubmitTrajectoriesRequest]:
    yield service.SubmitTrajectoriesRequest(head=service.JobHead(request_id=job_id, dataset="d", max_iterations=2))
    whole = items if items is not None else [item(number) for number in range(count)]
    for start in range(0, len(whole), size):
        batch = service.TrajectoryBatch(trajectories=whole[start : start + size])
        yield service.SubmitTrajectoriesRequest(batch=batch)


async def test_each_trajectory_is_learned_under_an_id_of_its_own_that_never_changes(desk: Desk) -> None:
    job_id, key = await desk.submit(5)
    book = Book()

    await desk.learn(key, book)

    assert book.asked == [learning_id(job_id, position) for position in range(5)]
    job = await desk.jobs.job(job_id)
    assert (job.state, job.learned, job.edits, job.revision) == (bulk.JOB_STATE_COMPLETED, 5, 5, 5)
    assert job.ended_at.ToDatetime(UTC) == NOW


async def test_the_request_is_what_was_submitted(desk: Desk) -> None:
    _, key = await desk.submit(1)
    waiting = await desk.progress.waiting(key, 0)
    assert waiting is not None
    request = waiting.request
    assert (request.trajectory.id, request.ground_truth, request.dataset) == ("t0", "42", "d")
    assert request.max_iterations == 2


async def test_what_passes_is_tried_again_and_counted(desk: Desk) -> None:
    job_id, key = await desk.submit(1)
    book = Book([Unavailable("away"), ResourceExhausted("busy", retry_after=1e-6)])

    await desk.learn(key, book)

    assert len(book.asked) == 3
    assert (await desk.jobs.job(job_id)).state == bulk.JOB_STATE_COMPLETED


async def test_after_the_last_attempt_it_is_a_dead_letter_that_says_why(desk: Desk) -> None:
    job_id, key = await desk.submit(2)

    await desk.learn(key, Book([Unavailable("the reflector is away", reason="PEER_UNAVAILABLE")] * 3))

    job = await desk.jobs.job(job_id)
    assert (job.state, job.learned, job.dead) == (bulk.JOB_STATE_INCOMPLETE, 1, 1)
    (letter,) = await desk.jobs.dead_letters(job_id, -1, 10)
    assert (letter.index, letter.attempts, letter.code, letter.reason, letter.message) == (
        0,
        3,
        "UNAVAILABLE",
        "PEER_UNAVAILABLE",
        "the reflector is away",
    )


async def test_what_another_attempt_cannot_mend_is_tried_once(desk: Desk) -> None:
    job_id, key = await desk.submit(2)
    book = Book([InvalidArgument("no query"), RuntimeError("a bug with a secret in it")])

    await desk.learn(key, book)

    letters = await desk.jobs.dead_letters(job_id, -1, 10)
    assert [(letter.code, letter.attempts) for letter in letters] == [("INVALID_ARGUMENT", 1), ("INTERNAL", 1)]
    assert "secret" not in letters[1].message


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (gateway.LearnResponse(), "REFLECTION_FAILED"),  # G-43
        (gateway.LearnResponse(curation=curator.CurateResponse(saved=False, error="x")), "NOT_SAVED"),  # G-45
    ],
)
def test_nothing_stored_is_never_counted_as_learned(response: gateway.LearnResponse, reason: str) -> None:
    outcome = outcome_of(response)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.passing) == (reason, True)


def test_an_outcome_tells_what_the_curator_applied() -> None:
    assert outcome_of(saved(revision=7, edits=2, votes=3)) == Learned(2, 3, 7, changed=True)
    assert outcome_of(saved(revision=7, edits=0)) == Learned(0, 0, 7, changed=False)


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


async def test_a_trajectory_that_ends_its_process_is_given_up_and_the_others_go_on(desk: Desk) -> None:
    job_id, key = await desk.submit(1000 // 8)
    (batch, *_) = await desk.progress.batches(key)
    for _ in range(MAX_STARTS):
        assert (await desk.progress.started(batch))[0] == 0

    assert (await desk.progress.started(batch))[0] == 1

    (letter,) = await desk.jobs.dead_letters(job_id, -1, 10)
    assert (letter.index, letter.reason) == (0, "LEARNING_NEVER_ENDED")


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


async def test_a_learner_that_is_stopped_finishes_what_it_began_and_leaves_the_rest(desk: Desk) -> None:
    job_id, key = await desk.submit(1)
    (batch,) = await desk.progress.batches(key)
    wide = Batch(batch.batch_id, key, "d", 0, 9)
    book = Book()
    learner = BatchLearner(book, desk.progress, AT_ONCE)
    stopping: list[asyncio.Task[None]] = []
    book.before = lambda: stopping.append(asyncio.ensure_future(learner.stop()))

    await learner.run(wide)
    await asyncio.gather(*stopping)

    assert (await desk.jobs.job(job_id)).learned == 1
    other_id, other = await desk.submit(1)
    with pytest.raises(asyncio.CancelledError):
        await learner.run((await desk.progress.batches(other))[0])
    assert (await desk.jobs.job(other_id)).state == bulk.JOB_STATE_RUNNING


async def test_a_learner_waits_for_its_database(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    _, key = await desk.submit(1)
    transaction, failures = desk.database.transaction, [JobsUnavailable("away")] * 3

    async def unsteady(work: object) -> object:
        if failures:
            raise failures.pop()
        return await transaction(work)  # type: ignore[arg-type]

    batches = await desk.progress.batches(key)
    monkeypatch.setattr(desk.database, "transaction", unsteady)
    await BatchLearner(Book(), desk.progress, AT_ONCE).run(batches[0])
    assert failures == []


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 12),
    fates=st.lists(st.sampled_from(["saved", "passing", "dead", "unsaved"]), max_size=20),
    beginnings=st.integers(1, 3),
)
async def test_counts_always_add_up_and_nothing_is_committed_twice(
    desk: Desk, count: int, fates: list[str], beginnings: int
) -> None:
    """However attempts end, and however often batches are begun again from the start."""
    job_id, key = await desk.submit(count)
    answers: dict[str, Answer] = {
        "passing": Unavailable("away"),
        "dead": InvalidArgument("no"),
        "unsaved": gateway.LearnResponse(),
    }
    book = Book(answers.get(fate) or saved() for fate in fates)
    for _ in range(beginnings):
        await desk.learn(key, book)
    job = await desk.jobs.job(job_id)
    assert (job.waiting, job.learned + job.dead, job.dropped) == (0, count, 0)
    assert len(await desk.jobs.dead_letters(job_id, -1, 500)) == job.dead
    assert set(book.asked) == {learning_id(job_id, position) for position in range(count)}
    assert (job.state == bulk.JOB_STATE_COMPLETED) == (job.dead == 0)


@given(count=st.integers(1, 3000), spread=st.integers(1, 64))
def test_batches_cover_a_job_and_small_jobs_are_spread(count: int, spread: int) -> None:
    cuts = cut(list(range(count)), spread)
    assert [position for each in cuts for position in each] == list(range(count))
    assert all(1 <= len(each) <= MAX_BATCH for each in cuts)
    assert len(cuts) >= min(count, 4 * spread)


async def test_a_gateway_starts_without_its_jobs_and_has_them_as_soon_as_it_can(tmp_path: Path) -> None:
    """Everything else it does needs no database."""
    folder = tmp_path / "data"
    folder.write_text("a file where the folder should be")
    desk = Desk(folder)
    learner = BatchLearner(Book(), desk.progress, AT_ONCE)
    queue = BatchQueue(url_of("unused.db"), "one", Lanes(1, 1), learner.run)
    upkeep = Upkeep("one", timedelta(seconds=0.2), timedelta(hours=1))
    learning = BulkLearning(desk.database, desk.jobs, desk.progress, queue, learner, upkeep)

    await learning.open()
    with pytest.raises(JobsUnavailable):
        await desk.jobs.job(str(uuid.uuid4()))

    folder.unlink()
    keeping = asyncio.create_task(learning.keep())
    async with asyncio.timeout(30):
        while not (folder / "gateway.db").exists():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0)
        await desk.database.open()
    with pytest.raises(JobNotFound):
        await desk.jobs.job(str(uuid.uuid4()))
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await learning.drain()
    await learning.close()
