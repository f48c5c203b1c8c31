"""A rolling restart under load: pods of every service are replaced, at the full size all of them, and no call fails.

All services roll at once, as they do when an overlay with another image is applied; of each, one pod after the other.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from chassis.channels import Peers
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.gateway.v1 import gateway_service_pb2_grpc
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.reflector.v1 import reflector_service_pb2, reflector_service_pb2_grpc
from hansei.validator.v1 import validator_service_pb2, validator_service_pb2_grpc
from tests.deploy.cluster import Cluster, cluster
from tests.deploy.manifests import OVERLAYS, load_manifests
from tests.support.campaigns import campaign_size
from tests.support.postgres_server import find_postgres_programs_or_skip, postgres_server
from tests.support.systems import ROOT, SERVICES

PODS = 2
REPLACED = campaign_size(PODS, 1)
CALLERS = 3
PAUSE_SECONDS = campaign_size(0.1, 0.4)
"""Pause between two calls of one caller; without it, callers take the processors from the starting pods."""
RUN = ROOT / "examples/trajectories/git-commit-identity.json"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    manifests = load_manifests(OVERLAYS / "dev")
    programs = find_postgres_programs_or_skip()
    data, replicas = tmp_path_factory.mktemp("pairs"), dict.fromkeys(SERVICES, PODS)
    with postgres_server(programs) as postgres, cluster(manifests, postgres, data, replicas) as running:
        yield running


async def test_no_call_fails_while_pods_are_replaced(pairs: Cluster) -> None:
    peers = Peers({"gateway": pairs.address("gateway", SERVICES["gateway"]["listen"])})
    try:
        token = pairs.environment("gateway")["GATEWAY_API_TOKEN"]
        load = Load(peers, "rollout", token)
        await load.begin()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CALLERS):
                tasks.create_task(load.go_on())
            await asyncio.gather(*(replace_pods(pairs, name, load) for name in SERVICES))
            load.enough = True
        # All acknowledged lessons are stored: each call that learned is one revision.
        assert await load.revision() == load.learned
    finally:
        await peers.close()


async def replace_pods(pairs: Cluster, name: str, load: Load) -> None:
    """Replace pods of a service, one after the other, as its controller does."""
    for pod in pairs.pods(name)[:REPLACED]:
        before = load.answered
        assert await asyncio.to_thread(pairs.terminate, pod) == 0
        await asyncio.to_thread(pairs.start, pod)
        await asyncio.to_thread(pairs.available, pod)
        assert load.answered > before


class Load:
    """Callers that make calls of every service, one after the other; a call that fails ends the test."""

    def __init__(self, peers: Peers, dataset: str, token: str) -> None:
        channel: Any = peers.get_channel("gateway")
        self._gateway: Any = gateway_service_pb2_grpc.GatewayServiceStub(channel)
        self._playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
        self._reflector: Any = reflector_service_pb2_grpc.ReflectorServiceStub(channel)
        self._validator: Any = validator_service_pb2_grpc.ValidatorServiceStub(channel)
        self._dataset = dataset
        self._bearing = (("authorization", f"Bearer {token}"),)
        self._trajectory: Any = None
        self.answered = self.learned = 0
        self.enough = False

    async def begin(self) -> None:
        """Read the recorded trajectory and learn from it once."""
        request = reflector_service_pb2.ParseTrajectoriesRequest(content=RUN.read_bytes(), dataset=self._dataset)
        (parsed,) = (await self._reflector.ParseTrajectories(request, metadata=self._bearing)).trajectories
        parsed.trajectory.dataset = self._dataset
        self._trajectory = parsed.trajectory
        await self._learn()

    async def go_on(self) -> None:
        """Call until it is enough."""
        while not self.enough:
            await self._learn()
            await self.revision()
            await self._ask()
            await self._validate()
            self.answered += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def revision(self) -> int:
        """The revision of the playbook."""
        request = playbook_service_pb2.GetPlaybookRequest(dataset=self._dataset)
        return int((await self._playbooks.GetPlaybook(request, metadata=self._bearing)).playbook.revision)

    async def _learn(self) -> None:
        request = gateway.LearnRequest(request_id=str(uuid.uuid4()), dataset=self._dataset, trajectory=self._trajectory)
        await self._gateway.Learn(request, metadata=self._bearing)
        self.learned += 1

    async def _ask(self) -> None:
        """Search, and an answer of the planner."""
        request = gateway.RunWorkflowRequest(query="Who am I to git?", dataset=self._dataset)
        assert (await self._gateway.RunWorkflow(request, metadata=self._bearing)).llm_response

    async def _validate(self) -> None:
        request = validator_service_pb2.ValidateReportRequest(type="organizer", report_json="{}")
        await self._validator.ValidateReport(request, metadata=self._bearing)
