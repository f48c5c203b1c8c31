"""Bulk learning as a caller sees it: a job goes in, the playbook learns, and the job tells how far it is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from tests.support import systems
from tests.support.bulk_jobs import SECONDS, Jobs, build_trajectories, build_trajectory, jobs_at, parts

pytestmark = pytest.mark.long


@pytest.fixture
def dataset() -> str:
    return f"bulk-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def jobs(system: systems.System) -> Iterator[Jobs]:
    with jobs_at(system.address) as found:
        yield found


def failed_call(call: Any, *arguments: Any) -> tuple[grpc.StatusCode, status_pb2.Status]:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    error: Any = caught.value
    trailers = dict(error.trailing_metadata())
    return error.code(), status_pb2.Status.FromString(trailers["grpc-status-details-bin"])


def detail(status: status_pb2.Status, kind: Any) -> Any:
    found = kind()
    for detail in status.details:
        if detail.Is(kind.DESCRIPTOR):
            detail.Unpack(found)
    return found


def test_a_job_is_learned_and_counts_what_the_curator_committed(jobs: Jobs, dataset: str) -> None:
    submitted = jobs.submit(dataset, build_trajectories(dataset, 60))
    assert (submitted.state, submitted.total, submitted.dataset) == (bulk.JOB_STATE_RUNNING, 60, dataset)

    seen = list(jobs.watch(submitted.job_id))

    ended = seen[-1]
    assert (ended.state, ended.learned, ended.waiting, ended.dead) == (bulk.JOB_STATE_COMPLETED, 60, 0, 0)
    assert all(job.waiting + job.learned == 60 for job in seen)
    assert sorted(jobs.sources(dataset)) == sorted(trajectory.id for trajectory in build_trajectories(dataset, 60))
    assert (ended.edits, ended.unchanged, ended.revision) == (40, 20, 60)
    assert ended.HasField("ended_at")
    assert jobs.get(submitted.job_id) == jobs.get(submitted.job_id.upper()) == ended


def test_a_submission_that_is_repeated_is_the_same_job(jobs: Jobs, dataset: str) -> None:
    job = jobs.submit(dataset, build_trajectories(dataset, 5))
    ended = jobs.until_ended(job.job_id)

    assert jobs.submit(dataset, build_trajectories(dataset, 5), job.job_id) == ended
    code, status = failed_call(jobs.submit, dataset, build_trajectories(dataset, 6), job.job_id)

    assert code is grpc.StatusCode.ALREADY_EXISTS
    assert detail(status, error_details_pb2.ErrorInfo).reason == "REQUEST_ID_REUSED"
    assert len(jobs.sources(dataset)) == 5


def test_a_wrong_trajectory_keeps_the_whole_job_out(jobs: Jobs, dataset: str) -> None:
    job_id = str(uuid.uuid4())
    wrong = [*build_trajectories(dataset, 150), build_trajectory("elsewhere", 1)]

    code, status = failed_call(jobs.submit, dataset, wrong, job_id)

    assert (code, status.message) == (grpc.StatusCode.INVALID_ARGUMENT, "dataset mismatch")  # G-44
    (violation,) = detail(status, error_details_pb2.BadRequest).field_violations
    assert violation.field == "trajectories[150].trajectory.dataset"
    assert failed_call(jobs.get, job_id)[0] is grpc.StatusCode.NOT_FOUND
    assert failed_call(jobs.sources, dataset)[0] is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("broken", ["no head", "two heads", "nothing"])
def test_a_submission_has_a_head_and_trajectories(jobs: Jobs, dataset: str, broken: str) -> None:
    head, batch = list(parts(dataset, build_trajectories(dataset, 1), str(uuid.uuid4())))
    messages = {"no head": [batch], "two heads": [head, batch, head], "nothing": [head]}[broken]

    code, status = failed_call(jobs.send, iter(messages))

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert detail(status, error_details_pb2.BadRequest).field_violations[0].field in ("head", "batch")
    assert failed_call(jobs.get, head.head.request_id)[0] is grpc.StatusCode.NOT_FOUND


def test_a_cancelled_job_learns_no_more(jobs: Jobs, dataset: str) -> None:
    job = jobs.submit(dataset, build_trajectories(dataset, 400))
    jobs.until_learned(job.job_id, 5)
    request_id = str(uuid.uuid4())

    jobs.cancel(job.job_id, request_id)

    ended = jobs.until_ended(job.job_id)
    assert ended.state == bulk.JOB_STATE_CANCELLED
    assert (ended.waiting, ended.learned + ended.dropped) == (0, 400)
    assert ended.dropped > 0
    # The trajectories in progress at the cancellation are finished and counted while the next job already runs.
    after = jobs.submit(dataset, [build_trajectory(dataset, 1000)])
    assert jobs.until_ended(after.job_id).state == bulk.JOB_STATE_COMPLETED
    assert jobs.get(job.job_id).learned == len(jobs.sources(dataset)) - 1
    assert jobs.cancel(job.job_id, request_id).state == bulk.JOB_STATE_CANCELLED


def test_jobs_are_listed_newest_first_and_in_pages(jobs: Jobs, dataset: str) -> None:
    ids = [jobs.submit(dataset, [build_trajectory(dataset, number)]).job_id for number in range(5)]
    listed: list[str] = []
    token = ""
    while True:
        request = service.ListJobsRequest(dataset=dataset, page_size=2, page_token=token)
        page = jobs.stub.ListJobs(request, timeout=SECONDS)
        listed += [job.job_id for job in page.jobs]
        token = page.next_page_token
        if not token:
            break
    assert listed == ids[::-1]
    wrong = service.ListJobsRequest(page_token="x")
    assert failed_call(jobs.stub.ListJobs, wrong)[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_a_failed_trajectory_is_a_dead_letter_with_a_reason_and_can_be_retried(
    system: systems.System, tmp_path: Path, dataset: str
) -> None:
    peers = dict.fromkeys(systems.PEERS, system.address)
    gone = {**peers, "REFLECTOR_ADDR": f"127.0.0.1:{systems.free_port()}"}
    quick = {
        "HANSEI_BULK_ATTEMPTS": "2",
        "HANSEI_BULK_OUTAGE_SECONDS": "0",
        "HANSEI_BULK_RETRY_BASE_SECONDS": "0.01",
    }
    with systems.one_service(tmp_path, "gateway", **gone, **quick) as gateway, jobs_at(gateway.address) as jobs:
        job = jobs.submit(dataset, build_trajectories(dataset, 7))
        ended = jobs.until_ended(job.job_id)
        assert (ended.state, ended.dead, ended.learned) == (bulk.JOB_STATE_INCOMPLETE, 7, 0)
        first = jobs.dead_letters(job.job_id, 5)
        letters = [*first.dead_letters, *jobs.dead_letters(job.job_id, 5, first.next_page_token).dead_letters]
        assert [letter.index for letter in letters] == list(range(7))
        assert {(letter.code, letter.reason, letter.attempts) for letter in letters} == {
            ("UNAVAILABLE", "PEER_UNAVAILABLE", 2)
        }
        assert letters[3].trajectory_id == f"{dataset}-3"
        assert failed_call(jobs.sources, dataset)[0] is grpc.StatusCode.NOT_FOUND

    with systems.one_service(tmp_path, "gateway", **peers) as gateway, jobs_at(gateway.address) as jobs:
        request_id = str(uuid.uuid4())
        assert jobs.retry(job.job_id, request_id).state == bulk.JOB_STATE_RUNNING
        ended = jobs.until_ended(job.job_id)
        assert (ended.state, ended.dead, ended.learned) == (bulk.JOB_STATE_COMPLETED, 0, 7)
        assert jobs.retry(job.job_id, request_id) == ended
        assert len(jobs.sources(dataset)) == 7


def test_a_full_queue_returns_a_retry_delay_and_stores_nothing(
    system: systems.System, tmp_path: Path, dataset: str
) -> None:
    peers = dict.fromkeys(systems.PEERS, system.address)
    with (
        systems.one_service(tmp_path, "gateway", **peers, HANSEI_BULK_MAX_WAITING="150") as gateway,
        jobs_at(gateway.address) as jobs,
    ):
        job_id = str(uuid.uuid4())
        code, status = failed_call(jobs.submit, dataset, build_trajectories(dataset, 250), job_id)

        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert detail(status, error_details_pb2.ErrorInfo).reason == "BULK_QUEUE_FULL"
        assert detail(status, error_details_pb2.RetryInfo).retry_delay.seconds > 0
        assert failed_call(jobs.get, job_id)[0] is grpc.StatusCode.NOT_FOUND
        fits = jobs.submit(dataset, build_trajectories(dataset, 150), job_id)
        assert jobs.until_ended(fits.job_id).learned == 150
