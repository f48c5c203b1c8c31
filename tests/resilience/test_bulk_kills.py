"""kill -9 in the middle of a job: nothing is lost, nothing is learned twice, on both engines."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import grpc
import pytest

from hansei.gateway.v1 import bulk_pb2 as bulk
from tests.support import systems
from tests.support.bulk_jobs import Jobs, build_trajectories, jobs_at
from tests.support.campaigns import campaign_size
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.long

TOTAL = campaign_size(240, 100)
KILL_AFTER = campaign_size((1, 60, 130), (20,))
CANCELLED_AT_ONCE = 4
CANCEL_KILLS = campaign_size(10, 2)
"""Kills around a cancellation on each engine; each meets four jobs."""
CANCELLED_TOTAL = 150
"""Trajectories of a job that is cancelled: too many to be learned before."""
LONGEST_DELAY_SECONDS = 0.1


@pytest.fixture
def dataset() -> str:
    return f"kills-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def peers(running: Callable[[str], systems.System]) -> systems.System:
    """The services behind the gateways; the tests kill gateways and databases only, so the form does not matter."""
    return running("one process")


def check(jobs: Jobs, job_id: str, dataset: str, total: int = TOTAL) -> None:
    """Every trajectory was learned, and is in the log of the playbook once."""
    ended = jobs.until_ended(job_id)
    assert (ended.state, ended.learned, ended.dead) == (bulk.JOB_STATE_COMPLETED, total, 0)
    assert sorted(jobs.sources(dataset)) == sorted(trajectory.id for trajectory in build_trajectories(dataset, total))


def count_committed(jobs: Jobs, dataset: str) -> int:
    """Return the number of trajectories in the log of a playbook, which may not exist yet."""
    try:
        return len(jobs.sources(dataset))
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return 0


def test_a_killed_process_with_all_services_loses_no_job(tmp_path: Path, database_location: str, dataset: str) -> None:
    settings = {"HANSEI_GATEWAY_DATABASE_URL": database_location}
    if database_location.startswith("postgresql"):
        settings["HANSEI_CURATOR_DATABASE_URL"] = database_location
    job_id = str(uuid.uuid4())
    for count in KILL_AFTER:
        with systems.one_process(tmp_path, **settings) as system, jobs_at(system.address) as jobs:
            # Submitted each time, like a caller that got no response.
            jobs.submit(dataset, build_trajectories(dataset, TOTAL), job_id)
            assert jobs.until_learned(job_id, count).state == bulk.JOB_STATE_RUNNING
            system.processes["allinone"].kill()
    with systems.one_process(tmp_path, **settings) as system, jobs_at(system.address) as jobs:
        check(jobs, job_id, dataset)


def test_a_replica_takes_over_from_one_that_was_killed(
    peers: systems.System, tmp_path: Path, database_location: str, dataset: str
) -> None:
    """Neither gateway restarts under its name; each time the other one continues the job."""
    shared = dict.fromkeys(systems.PEERS, peers.address) | {
        "HANSEI_GATEWAY_DATABASE_URL": database_location,
        "HANSEI_BULK_LEASE_SECONDS": "2",
    }
    with jobs_at(peers.address) as playbook:
        gateway_one = systems.one_service(tmp_path, "gateway", **shared, HANSEI_BULK_EXECUTOR="one")
        two = systems.one_service(tmp_path, "gateway", **shared, HANSEI_BULK_EXECUTOR="two")
        with two as staying, jobs_at(staying.address) as jobs:
            with gateway_one as killed, jobs_at(killed.address) as first:
                job = first.submit(dataset, build_trajectories(dataset, TOTAL))
                first.until_learned(job.job_id, 20)
                killed.processes["gateway"].kill()
            assert jobs.until_learned(job.job_id, TOTAL // 2).learned >= TOTAL // 2
            staying.processes["gateway"].kill()
        three = systems.one_service(tmp_path, "gateway", **shared, HANSEI_BULK_EXECUTOR="three")
        with three as last, jobs_at(last.address) as jobs:
            ended = jobs.until_ended(job.job_id)
        assert (ended.state, ended.learned) == (bulk.JOB_STATE_COMPLETED, TOTAL)
        assert sorted(playbook.sources(dataset)) == sorted(
            trajectory.id for trajectory in build_trajectories(dataset, TOTAL)
        )


def test_counts_after_a_cancellation_and_a_kill_equal_the_log(
    peers: systems.System, tmp_path: Path, database_location: str, dataset: str
) -> None:
    """The gateway dies before, during and after the cancellation, while trajectories are learned."""
    shared = dict.fromkeys(systems.PEERS, peers.address) | {
        "HANSEI_GATEWAY_DATABASE_URL": database_location,
        "HANSEI_BULK_EXECUTOR": "same",
        "HANSEI_BULK_LEASE_SECONDS": "1",
    }
    with (
        systems.one_service(tmp_path, "gateway", **shared) as gateway,
        jobs_at(gateway.address) as jobs,
        ThreadPoolExecutor(CANCELLED_AT_ONCE) as threads,
    ):
        dropped = 0
        for kill in range(CANCEL_KILLS):
            datasets = [f"{dataset}-{kill}-{number}" for number in range(CANCELLED_AT_ONCE)]
            ids = [jobs.submit(name, build_trajectories(name, CANCELLED_TOTAL)).job_id for name in datasets]
            jobs.until_learned(ids[0], 1)
            cancellations = {job_id: str(uuid.uuid4()) for job_id in ids}
            calls = [threads.submit(jobs.cancel, *names) for names in cancellations.items()]
            time.sleep(LONGEST_DELAY_SECONDS * kill / CANCEL_KILLS)
            gateway.kill("gateway")
            wait(calls)
            gateway.start("gateway")
            gateway.wait_until_started("gateway")
            for name, (job_id, request_id) in zip(datasets, cancellations.items(), strict=True):
                jobs.cancel(job_id, request_id)  # once more, like a caller that got no response
                ended = jobs.until_ended(job_id)
                assert (ended.waiting, ended.learned + ended.dropped) == (0, CANCELLED_TOTAL)
                assert ended.learned == count_committed(jobs, name)
                dropped += ended.dropped
        assert dropped, "every job ended before its cancellation"


def test_a_job_outlives_a_restart_of_its_database(
    peers: systems.System, tmp_path: Path, lone_postgres: PostgresServer, dataset: str
) -> None:
    shared = dict.fromkeys(systems.PEERS, peers.address) | {
        "HANSEI_GATEWAY_DATABASE_URL": lone_postgres.database(),
        "HANSEI_BULK_LEASE_SECONDS": "4",
    }
    with systems.one_service(tmp_path, "gateway", **shared) as gateway, jobs_at(gateway.address) as jobs:
        job = jobs.submit(dataset, build_trajectories(dataset, TOTAL))
        for count in KILL_AFTER[-2:]:
            jobs.until_learned(job.job_id, count)
            lone_postgres.stop()
            lone_postgres.start()
        check(jobs, job.job_id, dataset)


def test_a_killed_gateway_continues_its_jobs_under_its_name(
    peers: systems.System, tmp_path: Path, lone_postgres: PostgresServer, dataset: str
) -> None:
    """DBOS recovers the workflows of an executor of its name at its start; here all executors start at once."""
    shared = dict.fromkeys(systems.PEERS, peers.address) | {
        "HANSEI_GATEWAY_DATABASE_URL": lone_postgres.database(),
        "HANSEI_BULK_EXECUTOR": "same",
    }
    job_id = str(uuid.uuid4())
    for count in KILL_AFTER:
        with systems.one_service(tmp_path, "gateway", **shared) as gateway, jobs_at(gateway.address) as jobs:
            jobs.submit(dataset, build_trajectories(dataset, TOTAL), job_id)
            jobs.until_learned(job_id, count)
            lone_postgres.stop()
            gateway.processes["gateway"].kill()
            lone_postgres.start()
    with systems.one_service(tmp_path, "gateway", **shared) as gateway, jobs_at(gateway.address) as jobs:
        check(jobs, job_id, dataset)


def test_a_draining_gateway_finishes_its_trajectories_and_leaves_the_others(tmp_path: Path, dataset: str) -> None:
    """The drain ends with the trajectories in progress, not with the job, and not with its grace."""
    with systems.one_process(tmp_path, HANSEI_DRAIN_GRACE_SECONDS="60") as system, jobs_at(system.address) as jobs:
        job = jobs.submit(dataset, build_trajectories(dataset, TOTAL))
        jobs.until_learned(job.job_id, 10)
        system.processes["allinone"].terminate()
        assert system.processes["allinone"].wait(systems.STOP_SECONDS) == 0
        assert "drain of a service timed out" not in system.log("allinone")
    with systems.one_process(tmp_path) as system, jobs_at(system.address) as jobs:
        assert jobs.get(job.job_id).state == bulk.JOB_STATE_RUNNING
        check(jobs, job.job_id, dataset)
