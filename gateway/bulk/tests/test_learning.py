"""Trajectories of a job are learned once each, retried where that can help, and else become dead letters."""

from __future__ import annotations

import asyncio
import uuid
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from chassis.errors import InvalidArgument, ResourceExhausted, Unavailable
from gateway.bulk.adapters.metrics import BulkMetrics
from gateway.bulk.adapters.sql.batch_repository import MAX_STARTS
from gateway.bulk.domain.attempts import Failure, TrajectoryCommit
from gateway.bulk.domain.batches import Batch, learn_request_id
from gateway.bulk.domain.job import JobState
from gateway.bulk.tests.bulk_system import (
    AT_ONCE,
    NOW,
    Answer,
    BulkSystem,
    ScriptedLearner,
    item,
    learn_response,
    messages,
)
from gateway.bulk.usecases.learn_batches import BatchLearner, summarize_response
from gateway.bulk.usecases.submit_job import submit_job
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from libs.storage.errors import StoreConflict, StoreFull, StoreUnavailable
from tests.support.campaigns import campaign_size


async def test_each_trajectory_is_learned_under_one_stable_request_id(system: BulkSystem) -> None:
    job_id, key = await system.submit(5)
    book = ScriptedLearner()

    await system.learn(key, book)

    assert [request.request_id for request in book.requests] == [
        learn_request_id(job_id, position) for position in range(5)
    ]
    job = await system.jobs.find(job_id)
    assert (job.state, job.learned, job.edits, job.revision) == (JobState.COMPLETED, 5, 5, 5)
    assert job.ended_at == NOW


async def test_a_trajectory_with_a_request_id_is_learned_under_it_once(system: BulkSystem) -> None:
    request_id = str(uuid.uuid4())
    items = [item(0), item(0)]
    for queued, spelling in zip(items, (request_id, request_id.upper()), strict=True):
        queued.request_id = spelling
    book = ScriptedLearner()
    for _ in range(2):
        _, key = await submit_job(system.jobs, messages(0, str(uuid.uuid4()), items=items))
        await system.learn(key or "", book)

    assert [request.request_id for request in book.requests] == [request_id] * 4
    assert len(book.committed) == 1


async def test_the_request_is_what_was_submitted(system: BulkSystem) -> None:
    _, key = await system.submit(1)
    book = ScriptedLearner()
    await system.learn(key, book)
    (request,) = book.requests
    assert (request.trajectory.id, request.ground_truth, request.dataset) == ("t0", "42", "d")
    assert request.max_iterations == 2


async def test_transient_failures_are_retried_and_counted(system: BulkSystem) -> None:
    job_id, key = await system.submit(1)
    failures = []

    class ObservedLearner(ScriptedLearner):
        async def learn(self, request: gateway.LearnRequest) -> gateway.LearnResponse:
            failures.append((await system.jobs.find(job_id)).last_failure)
            return await super().learn(request)

    await system.learn(key, ObservedLearner([Unavailable("away"), ResourceExhausted("busy", retry_after=1e-6)]))

    assert failures == ["", "away", "busy"]
    job = await system.jobs.find(job_id)
    assert (job.state, job.last_failure) == (JobState.COMPLETED, "")


async def test_a_trajectory_is_a_dead_letter_with_a_reason_after_the_last_attempt(system: BulkSystem) -> None:
    job_id, key = await system.submit(2)

    await system.learn(key, ScriptedLearner([Unavailable("the reflector is away", reason="PEER_UNAVAILABLE")] * 3))

    job = await system.jobs.find(job_id)
    assert (job.state, job.learned, job.dead) == (JobState.INCOMPLETE, 1, 1)
    (letter,) = await system.jobs.list_dead_letters(job_id, -1, 10)
    assert (letter.index, letter.attempts, letter.code, letter.reason, letter.message) == (
        0,
        3,
        "UNAVAILABLE",
        "PEER_UNAVAILABLE",
        "the reflector is away",
    )


@pytest.mark.parametrize(("outage_seconds", "dead"), [(60.0, 0), (20.0, 1)])
async def test_an_outage_uses_up_no_attempt_for_a_while(system: BulkSystem, outage_seconds: float, dead: int) -> None:
    job_id, key = await system.submit(1)
    book, seconds = ScriptedLearner([Unavailable("the reflector is away", reason="PEER_UNAVAILABLE")] * 50), count()
    (batch,) = await system.batches.list_batches(key)
    learner = BatchLearner(
        book, system.batches, AT_ONCE, outage_seconds=outage_seconds, monotonic=lambda: next(seconds) / 2
    )
    await learner.run(batch)
    job = await system.jobs.find(job_id)
    assert (job.learned, job.dead) == (1 - dead, dead)
    assert len(book.requests) == (20 + 3 if dead else 51)


async def test_other_failures_count_during_an_outage(system: BulkSystem) -> None:
    job_id, key = await system.submit(1)
    away, busy = Unavailable("away"), ResourceExhausted("busy", retry_after=1e-6)
    book = ScriptedLearner([away, busy, away, away, busy, away, busy])
    (batch,) = await system.batches.list_batches(key)
    await BatchLearner(book, system.batches, AT_ONCE, outage_seconds=60.0).run(batch)
    (letter,) = await system.jobs.list_dead_letters(job_id, -1, 10)
    assert (letter.attempts, letter.code, len(book.requests)) == (3, "RESOURCE_EXHAUSTED", 7)


async def test_permanent_failures_are_not_retried(system: BulkSystem) -> None:
    job_id, key = await system.submit(2)
    book = ScriptedLearner([InvalidArgument("no query"), RuntimeError("a bug with a secret in it")])

    await system.learn(key, book)

    letters = await system.jobs.list_dead_letters(job_id, -1, 10)
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
    outcome = summarize_response(response)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.is_transient) == (reason, True)


def test_an_outcome_shows_the_applied_edits() -> None:
    assert summarize_response(learn_response(revision=7, edits=2, votes=3)) == TrajectoryCommit(2, 3, 7, changed=True)
    assert summarize_response(learn_response(revision=7, edits=0)) == TrajectoryCommit(0, 0, 7, changed=False)


async def test_a_trajectory_that_kills_its_process_becomes_a_dead_letter(system: BulkSystem) -> None:
    job_id, key = await system.submit(1000 // 8)
    (batch, *_) = await system.batches.list_batches(key)
    for _ in range(MAX_STARTS):
        assert (await system.batches.start_batch(batch))[0] == 0

    assert (await system.batches.start_batch(batch))[0] == 1

    (letter,) = await system.jobs.list_dead_letters(job_id, -1, 10)
    assert (letter.index, letter.reason) == (0, "LEARNING_NEVER_ENDED")


async def test_a_stopped_learner_finishes_its_trajectory_and_leaves_the_others(system: BulkSystem) -> None:
    job_id, key = await system.submit(1)
    (batch,) = await system.batches.list_batches(key)
    wide = Batch(batch.batch_id, key, "d", 0, 9)
    book = ScriptedLearner()
    learner = BatchLearner(book, system.batches, AT_ONCE)
    stopping: list[asyncio.Task[None]] = []
    book.before = lambda: stopping.append(asyncio.ensure_future(learner.stop()))

    await learner.run(wide)
    await asyncio.gather(*stopping)

    assert (await system.jobs.find(job_id)).learned == 1
    other_id, other = await system.submit(1)
    with pytest.raises(asyncio.CancelledError):
        await learner.run((await system.batches.list_batches(other))[0])
    assert (await system.jobs.find(other_id)).state == JobState.RUNNING


async def test_attempts_are_measured_by_result(system: BulkSystem) -> None:
    reader = InMemoryMetricReader()
    metrics = BulkMetrics(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    _, key = await system.submit(3)
    book, seconds = ScriptedLearner([Unavailable("away"), InvalidArgument("no")]), 0.0

    def later() -> None:
        nonlocal seconds
        seconds += 2.5

    book.before = later
    record_attempt, clock = metrics.record_attempt, lambda: seconds
    learner = BatchLearner(book, system.batches, AT_ONCE, record_attempt=record_attempt, monotonic=clock)
    for batch in await system.batches.list_batches(key):
        await learner.run(batch)
    metrics.record_totals(await system.jobs.count_totals())

    data: Any = reader.get_metrics_data()
    points = {point.name: point.data.data_points for point in data.resource_metrics[0].scope_metrics[0].metrics}
    attempts = points["hansei.bulk.attempt.duration"]
    assert {point.attributes["outcome"]: (point.count, point.sum) for point in attempts} == {
        "failed": (1, 2.5),
        "dead": (1, 2.5),
        "learned": (2, 5.0),
    }
    jobs, trajectories = (
        {point.attributes["state"]: point.value for point in points[name]}
        for name in ("hansei.bulk.jobs", "hansei.bulk.trajectories")
    )
    assert jobs == {"running": 0, "completed": 0, "incomplete": 1, "cancelled": 0}
    assert trajectories == {"waiting": 0, "learned": 2, "dead": 1, "dropped": 0}


async def test_a_learner_waits_for_its_database(system: BulkSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    _, key = await system.submit(1)
    write, failures = system.database.write, [StoreUnavailable("away"), StoreFull("full"), StoreConflict("first")]

    async def unsteady(work: Any, key: str) -> object:
        if failures:
            raise failures.pop()
        return await write(work, key)

    batches = await system.batches.list_batches(key)
    monkeypatch.setattr(system.database, "write", unsteady)
    await BatchLearner(ScriptedLearner(), system.batches, AT_ONCE).run(batches[0])
    assert failures == []


@settings(max_examples=campaign_size(100, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 12),
    fates=st.lists(st.sampled_from(["saved", "passing", "dead", "unsaved"]), max_size=20),
    beginnings=st.integers(1, 3),
)
async def test_counts_always_add_up_and_nothing_is_committed_twice(
    system: BulkSystem, count: int, fates: list[str], beginnings: int
) -> None:
    """However attempts end, and however often batches are begun again from the start."""
    job_id, key = await system.submit(count)
    answers: dict[str, Answer] = {
        "passing": Unavailable("away"),
        "dead": InvalidArgument("no"),
        "unsaved": gateway.LearnResponse(),
    }
    book = ScriptedLearner(answers.get(fate) or learn_response() for fate in fates)
    for _ in range(beginnings):
        await system.learn(key, book)
    job = await system.jobs.find(job_id)
    assert (job.waiting, job.learned + job.dead, job.dropped) == (0, count, 0)
    assert len(await system.jobs.list_dead_letters(job_id, -1, 500)) == job.dead
    assert {request.request_id for request in book.requests} == {
        learn_request_id(job_id, position) for position in range(count)
    }
    assert (job.state == JobState.COMPLETED) == (job.dead == 0)
