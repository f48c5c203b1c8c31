"""kill -9 of the evidence service and of the gateway during learning: acknowledged trajectories are archived once."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansei.client import Client
from hansei.client.archive import list_trajectories
from hansei.client.errors import HanseiError, NotFound
from tests.support import bulk_jobs, systems
from tests.support.campaigns import campaign_cases

pytestmark = pytest.mark.long

KILLS = len(campaign_cases(range(25), short=4))
CALLERS = 4
LEARNED_BETWEEN_KILLS = 8
WAIT_SECONDS = 300


class Learners:
    """Agents that learn trajectory after trajectory, and those that were acknowledged."""

    def __init__(self, address: str, dataset: str) -> None:
        self._address = address
        self._dataset = dataset
        self._ended = threading.Event()
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        self._threads = [threading.Thread(target=self._learn, args=(caller,)) for caller in range(CALLERS)]

    def _learn(self, caller: int) -> None:
        with Client(self._address) as client:
            number = caller
            while not self._ended.is_set():
                trajectory = bulk_jobs.build_trajectory(self._dataset, number)
                try:
                    client.learn(trajectory)
                except HanseiError as error:
                    self.failures.append(str(error))
                    continue
                self.acknowledged.append(trajectory.id)
                number += CALLERS

    def __enter__(self) -> Learners:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count: int) -> None:
        """Wait until this number of further trajectories is acknowledged."""
        before = len(self.acknowledged)
        deadline = time.monotonic() + WAIT_SECONDS
        while len(self.acknowledged) < before + count:
            assert time.monotonic() < deadline, self.failures[-3:]
            self._ended.wait(0.01)


def wait_until_archived(client: Client, dataset: str, expected: set[str]) -> list[str]:
    """Return the ids in the archive, each as often as it is there, once all that are expected are."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            archived = [summary.trajectory_id for summary in list_trajectories(client, dataset)]
        except (NotFound, HanseiError):
            archived = []
        if expected <= set(archived) or time.monotonic() > deadline:
            return archived
        time.sleep(0.1)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[systems.System]:
    with systems.separate_processes(tmp_path, HANSEI_LLM_PROVIDER="offline") as system:
        yield system


def test_learning_goes_on_while_the_archive_is_killed(system: systems.System) -> None:
    dataset = f"kills-{uuid.uuid4().hex[:12]}"
    with Learners(system.address, dataset) as learners:
        for _ in range(KILLS):
            learners.wait_for_more(LEARNED_BETWEEN_KILLS)
            system.kill("evidence")
            # The archive is unavailable, and learning continues.
            learners.wait_for_more(LEARNED_BETWEEN_KILLS)
            system.start("evidence")
            system.wait_until_started("evidence")
    assert learners.failures == []
    with Client(system.address) as client:
        archived = wait_until_archived(client, dataset, set(learners.acknowledged))
        assert sorted(archived) == sorted(set(learners.acknowledged))
        totals = client.archive.get_retention(dataset=dataset)
        assert totals.trajectories == len(archived)


def test_a_killed_gateway_delivers_what_it_had_acknowledged(system: systems.System) -> None:
    dataset = f"kills-{uuid.uuid4().hex[:12]}"
    with Learners(system.address, dataset) as learners:
        for _ in range(max(2, KILLS // 10)):
            learners.wait_for_more(LEARNED_BETWEEN_KILLS)
            system.kill("evidence")
            learners.wait_for_more(LEARNED_BETWEEN_KILLS)
            system.kill("gateway")
            system.start("evidence")
            system.start("gateway")
            system.wait_until_started("gateway")
    with Client(system.address) as client:
        acknowledged = set(learners.acknowledged)
        archived = wait_until_archived(client, dataset, acknowledged)
        # Each once; a call that was interrupted may have learned its trajectory, too.
        assert acknowledged <= set(archived)
        assert len(archived) == len(set(archived)) <= len(acknowledged) + CALLERS * KILLS
