"""Clocks jump an hour forward and back under load: of all services, or of one, which then disagrees with the others."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from chassis.errors import Unauthenticated
from hansei.client import Client
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1.access_service_pb2 import ACCESS_SCOPE_READ
from hansei.planner.v1.planner_pb2 import ACTION_RAG_SEARCH, EXECUTION_STATUS_PARTIAL, EXECUTION_STATUS_SUCCESS
from hansei.playbook.v1 import playbook_service_pb2
from tests.resilience import settable_clock
from tests.resilience.load import check_ledger, load, wait_for_recovery
from tests.resilience.settable_clock import MODULE
from tests.support import systems
from tests.support.bulk_jobs import build_trajectories, build_trajectory, jobs_at
from tests.support.campaigns import campaign_size
from tests.support.processes import Process
from tests.support.systems import SERVICES

FORWARD, BACK = signal.SIGUSR1, signal.SIGUSR2
FOUND_SECONDS = 30.0
JOB = campaign_size(30, 10)
LOOK_SECONDS = 1.5
BUSY_SHARE = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def hansei(tmp_path_factory: pytest.TempPathFactory) -> Iterator[systems.System]:
    """Yield a process a service, each with a clock that can be set."""
    with run_with_settable_clocks(systems.create_system("clocks", tmp_path_factory.mktemp("clocks"), {}, {})) as made:
        yield made


def run_with_settable_clocks(system: systems.System) -> AbstractContextManager[systems.System]:
    """Run the processes of a system with clocks that can be set."""
    programs = {
        name: replace(
            program, module=settable_clock.__name__, environment={**program.environment, MODULE: program.module}
        )
        for name, program in system.programs.items()
    }
    return systems.run_system(replace(system, programs=programs))


@pytest.mark.parametrize(
    "jumping", [list(SERVICES), ["curator"], ["gateway"], ["search"]], ids=["all", "curator", "gateway", "search"]
)
async def test_clock_jumps_under_load_fail_no_call(hansei: systems.System, jumping: list[str]) -> None:
    async with load(hansei.address) as callers:
        with jobs_at(hansei.address) as jobs:
            dataset = f"{callers.ledger.dataset}-job"
            job = await asyncio.to_thread(jobs.submit, dataset, build_trajectories(dataset, JOB))
            await put(hansei, jumping, FORWARD)
            await callers.progress()
            await put(hansei, jumping, BACK)
            seconds = await wait_for_recovery(callers)
            await callers.assert_search_is_current(FOUND_SECONDS)
            ended = await asyncio.to_thread(jobs.until_ended, job.job_id)
            sources = await asyncio.to_thread(jobs.sources, dataset)
    assert not callers.ledger.refused
    whose = "every service" if len(jumping) > 1 else jumping[0]
    check_ledger(f"clock of {whose} an hour forward and back", hansei.address, callers.ledger, seconds)
    assert (ended.state, ended.learned) == (bulk.JOB_STATE_COMPLETED, JOB)
    assert sorted(sources) == sorted(trajectory.id for trajectory in build_trajectories(dataset, JOB))
    assert_time_runs_forward(hansei, callers.ledger.dataset)


@pytest.mark.parametrize("first", [FORWARD, BACK], ids=["forward", "back"])
async def test_a_wrong_clock_fails_no_call_and_causes_no_busy_loop(
    hansei: systems.System, first: signal.Signals
) -> None:
    everyone, dataset = list(SERVICES), f"clock-{first.name.lower()}"
    await put(hansei, everyone, first)
    try:
        with Client(hansei.address) as client:
            learned = client.learn(build_trajectory(dataset, 1))
            (lesson, *_) = client.search(dataset, "tool1 fails", min_revision=learned.curation.revision).results
            plan = client.planner.create_plan(query=lesson.bullet.content).plan
            next(step for step in plan.steps if step.action == ACTION_RAG_SEARCH).collection = dataset
            result = client.planner.run_plan(plan=plan).result
        assert result.overall_status in (EXECUTION_STATUS_SUCCESS, EXECUTION_STATUS_PARTIAL)
        before = {name: cpu_seconds(process) for name, process in hansei.processes.items()}
        await asyncio.sleep(LOOK_SECONDS)
        spent = {name: cpu_seconds(process) - before[name] for name, process in hansei.processes.items()}
        assert {name: seconds for name, seconds in spent.items() if seconds > BUSY_SHARE * LOOK_SECONDS} == {}
    finally:
        await put(hansei, everyone, BACK if first is FORWARD else FORWARD)


async def test_a_key_ends_by_the_clock_of_its_gateway(hansei: systems.System, tmp_path: Path) -> None:
    """While the clock is an hour ahead a key that is good for half an hour is refused; not before, and not after."""
    peers = {f"{name.upper()}_ADDR": at for name, at in hansei.addresses.items() if name != "gateway"}
    address = f"127.0.0.1:{systems.free_port()}"
    programs = {"gateway": systems.create_program("gateway", address, tmp_path, {"GATEWAY_API_TOKEN": "root", **peers})}
    made = run_with_settable_clocks(systems.System("one service", {"gateway": address}, tmp_path, programs))
    gate = await asyncio.to_thread(made.__enter__)
    try:
        expires = Timestamp()
        expires.FromDatetime(datetime.now(UTC) + timedelta(minutes=30))
        with Client(gate.address, token="root") as operator:
            key = operator.access.create_key(label="short", scopes=[ACCESS_SCOPE_READ], expires_at=expires)
        with Client(gate.address, token=key.text) as client:
            client.playbooks.list_datasets()
            await put(gate, ["gateway"], FORWARD)
            with pytest.raises(Unauthenticated, match="expired"):
                client.playbooks.list_datasets()
            await put(gate, ["gateway"], BACK)
            client.playbooks.list_datasets()
    finally:
        await asyncio.to_thread(made.__exit__, None, None, None)


async def put(hansei: systems.System, names: Sequence[str], way: signal.Signals) -> None:
    """Set clocks, and wait until each process says that its own is set."""
    before = {name: hansei.log(name).count("the clock was set to") for name in names}
    for name in names:
        hansei.processes[name].send_signal(way)
    async with asyncio.timeout(30):
        while any(hansei.log(name).count("the clock was set to") == before[name] for name in names):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def cpu_seconds(process: Process) -> float:
    """Seconds of a processor that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def assert_time_runs_forward(hansei: systems.System, dataset: str) -> None:
    """Assert that the times in the log of a playbook never decrease."""
    with jobs_at(hansei.address) as jobs:
        request = playbook_service_pb2.GetHistoryRequest(dataset=dataset, page_size=1000)
        listed = jobs.playbooks.GetHistory(request, timeout=30).revisions
    by_number = sorted(listed, key=lambda revision: revision.revision)
    assert all(a.committed_at.ToMicroseconds() <= b.committed_at.ToMicroseconds() for a, b in pairwise(by_number))
