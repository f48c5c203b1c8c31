"""kill -9 of the evidence service: nothing that was acknowledged is lost, counted or stored twice."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from hansei.client import Client
from hansei.client.errors import HanseiError
from hansei.evidence.v1 import evidence_pb2
from hansei.playbook.v1 import playbook_pb2
from hansei.reflector.v1 import trajectory_pb2
from tests.support import systems
from tests.support.campaigns import campaign_cases

pytestmark = pytest.mark.long

KILLS = len(campaign_cases(range(50), short=5))
"""On each of the two engines, so a hundred in a full campaign."""
CALLERS = 4
WAIT_SECONDS = 300
SUCCESS = trajectory_pb2.TRAJECTORY_STATUS_SUCCESS


def make_trajectory(dataset: str, trajectory_id: str) -> trajectory_pb2.Trajectory:
    step = trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_USER, content=f"Push {trajectory_id}.")
    return trajectory_pb2.Trajectory(id=trajectory_id, dataset=dataset, query="push", status=SUCCESS, steps=[step])


def list_ids(client: Client, dataset: str) -> list[str]:
    """Return the ids of all archived trajectories, page by page."""
    found: list[str] = []
    token = ""
    while True:
        page = client.archive.list_trajectories(dataset=dataset, page_size=100, page_token=token)
        found += [summary.trajectory_id for summary in page.trajectories]
        token = page.next_page_token
        if not token:
            return found


def test_acknowledged_outcomes_are_counted_once(
    running: Callable[[str], systems.System], tmp_path: Path, database_location: str
) -> None:
    peer = running("one process")
    dataset = f"kills-{uuid.uuid4().hex[:12]}"
    with Client(peer.address) as client:
        delta = playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="git", content="Pull before you push.")
        client.playbooks.apply_deltas(dataset=dataset, deltas=[delta])
    environment = {"SEARCH_ADDR": peer.address, "HANSEI_EVIDENCE_DATABASE_URL": database_location}
    acknowledged: dict[str, float] = {}
    archived: set[str] = set()
    errors: list[str] = []
    ended = threading.Event()

    def call(caller: int, address: str) -> None:
        choose = random.Random(caller)
        number = 0
        with Client(address) as client:
            while not ended.is_set():
                number += 1
                try:
                    served = client.evidence.recall(
                        dataset=dataset, session_id=f"{caller}-{number}", query_text="push", min_revision=1
                    )
                    reward = choose.random()
                    trajectory = make_trajectory(dataset, served.serving_id)
                    client.archive.store_trajectory(dataset=dataset, trajectory=trajectory)
                    archived.add(trajectory.id)
                    client.evidence.report_outcome(dataset=dataset, serving_id=served.serving_id, reward=reward)
                except HanseiError as error:
                    errors.append(str(error))
                    continue
                acknowledged[served.serving_id] = reward

    with systems.one_service(tmp_path, "evidence", **environment) as system:
        address = system.addresses["evidence"]
        with Client(address) as client:
            policy = evidence_pb2.TrialPolicy(playbook_holdout=0, margin=0.01)
            client.evidence.start_trials(dataset=dataset, policy=policy)
        threads = [threading.Thread(target=call, args=(caller, address)) for caller in range(CALLERS)]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            before, deadline = len(acknowledged), time.monotonic() + WAIT_SECONDS
            while len(acknowledged) < before + 10:
                if time.monotonic() > deadline:
                    ended.set()
                    pytest.fail(f"10 calls were not acknowledged in {WAIT_SECONDS} s; last error: {errors[-1:]}")
                ended.wait(0.01)
            system.kill("evidence")
            system.start("evidence")
        system.wait_until_started("evidence")
        ended.set()
        for thread in threads:
            thread.join()
        with Client(address) as client:
            status = client.evidence.get_trials(dataset=dataset)
            (effect,) = client.evidence.get_effects(dataset=dataset).effects
            arms = effect.effect.served, effect.effect.withheld
            reported = status.sessions - status.sessions_without_outcome
            assert sum(arm.sessions for arm in arms) == reported
            assert len(acknowledged) <= reported <= len(acknowledged) + CALLERS * (KILLS + 1)
            for serving_id, reward in acknowledged.items():
                stored = client.evidence.report_outcome(dataset=dataset, serving_id=serving_id, reward=reward)
                assert (stored.counted, stored.outcome) == (True, reward)
            assert client.evidence.get_trials(dataset=dataset) == status
            stored_ids = list_ids(client, dataset)
            assert len(stored_ids) == len(set(stored_ids)) <= len(archived) + CALLERS * (KILLS + 1)
            assert archived <= set(stored_ids)
            for trajectory_id in archived:
                steps = client.archive.get_trajectory(dataset=dataset, trajectory_id=trajectory_id).trajectory.steps
                assert [step.content for step in steps] == [f"Push {trajectory_id}."]
