"""Test the chain of Learn with scripted services."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from chassis.errors import AlreadyExists, Unavailable
from gateway.orchestrator.learn import Learning
from gateway.tests.scripted_http import Peers
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.evidence.v1 import archive_service_pb2 as archive
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.reflector.v1 import trajectory_pb2 as trajectory

REFLECTOR_USAGE = ModelUsage(calls=3, input_tokens=100, output_tokens=20, cost_usd=0.25, calls_without_cost=2)
CURATOR_USAGE = ModelUsage(calls=1, input_tokens=10, output_tokens=2, calls_without_tokens=1, cost_usd=0.5)


def learn_request(answer: str = "It is 42.", **fields: Any) -> gateway.LearnRequest:
    failed = trajectory.Trajectory(
        id="t", dataset="d", generated_answer=answer, status=trajectory.TRAJECTORY_STATUS_FAILURE
    )
    return gateway.LearnRequest(**{"request_id": "r", "dataset": "d", "trajectory": failed, **fields})


@pytest.mark.parametrize(
    ("fields", "report"),
    [
        ({"ground_truth": " 42 "}, "correct"),
        ({"ground_truth": "43"}, "incorrect (correct answer: 43)"),
        ({"ground_truth": "42", "answer": "それは42です。"}, "正解"),
        ({"ground_truth": "43", "answer": "それは42です。"}, "不正解（正解: 43）"),
        ({"ground_truth": "43", "test_report": "1 passed"}, "1 passed"),
        ({"ground_truth": " "}, ""),
        ({}, ""),
    ],
)
async def test_the_reflector_gets_a_report_of_the_ground_truth(fields: dict[str, str], report: str) -> None:
    # G-40, G-41, G-42, R-32
    peers = Peers()
    response = await Learning(peers, peers).learn(learn_request(**fields))
    prepared, reflected, curated = peers.requests
    assert isinstance(prepared, curator.PrepareCurationRequest)
    assert isinstance(reflected, reflector.ReflectRequest)
    assert isinstance(curated, curator.CurateRequest)
    assert (reflected.test_report, reflected.ground_truth) == (report, fields.get("ground_truth", ""))
    assert response.reflection.iteration_count == 1
    assert response.curation.saved


class SpendingPeers(Peers):
    """Services whose models cost something; `committed` is the curation of an earlier request."""

    committed: curator.CommittedCuration | None = None

    async def PrepareCuration(self, request: curator.PrepareCurationRequest) -> curator.PrepareCurationResponse:
        self._record("prepare", request)
        return curator.PrepareCurationResponse(revision=3, committed=self.committed)

    async def Reflect(self, request: reflector.ReflectRequest) -> reflector.ReflectResponse:
        return reflector.ReflectResponse(result=(await super().Reflect(request)).result, usage=REFLECTOR_USAGE)

    async def Curate(self, request: curator.CurateRequest) -> curator.CurateResponse:
        response = await super().Curate(request)
        response.usage.CopyFrom(CURATOR_USAGE)
        reflection = trajectory.ReflectionResult(trajectory_id="t")
        self.committed = curator.CommittedCuration(reflection_result=reflection, response=response)
        return response


async def test_the_usage_of_reflector_and_curator_is_summed_and_a_repetition_uses_nothing() -> None:
    peers = SpendingPeers()
    first = await Learning(peers, peers).learn(learn_request())
    again = await Learning(peers, peers).learn(learn_request())
    assert first.usage == ModelUsage(
        calls=4, input_tokens=110, output_tokens=22, calls_without_tokens=1, cost_usd=0.75, calls_without_cost=2
    )
    assert (first.already_learned, again.already_learned) == (False, True)
    assert again.usage == ModelUsage()
    assert again.curation.usage == CURATOR_USAGE


async def test_a_call_that_loses_against_the_same_request_reports_its_own_reflection() -> None:
    class LosingPeers(SpendingPeers):
        async def Curate(self, request: curator.CurateRequest) -> curator.CurateResponse:
            await super().Curate(request)
            raise AlreadyExists("the request was committed by another call")

    peers = LosingPeers()
    response = await Learning(peers, peers).learn(learn_request())
    assert (response.already_learned, response.usage) == (True, REFLECTOR_USAGE)


async def test_a_report_of_a_long_ground_truth_fits_the_contract() -> None:
    peers = Peers()
    await Learning(peers, peers).learn(learn_request(ground_truth="x" * 1_000_000))
    assert len(peers.requests[1].test_report) == 1_000_000


async def test_a_reflection_that_fails_is_not_curated() -> None:  # G-43, G-45, G-73
    class NothingReflected(Peers):
        async def Reflect(self, request: reflector.ReflectRequest) -> reflector.ReflectResponse:
            self._record("reflect", request)
            return reflector.ReflectResponse(result=trajectory.ReflectionResult(iteration_count=0))

    peers = NothingReflected()
    assert not (await Learning(peers, peers).learn(learn_request())).HasField("curation")
    broken = Peers(raises={"reflect": Unavailable("down")})
    with pytest.raises(Unavailable):
        await Learning(broken, broken).learn(learn_request())
    for requests in (peers.requests, broken.requests):
        assert not any(isinstance(request, curator.CurateRequest) for request in requests)


@dataclass
class RecordingArchive:
    """Collects the trajectories that are sent to the archive."""

    requests: list[archive.StoreTrajectoryRequest] = field(default_factory=list)

    async def add(self, request: archive.StoreTrajectoryRequest) -> None:
        self.requests.append(request)


async def test_a_learned_trajectory_is_sent_to_the_archive() -> None:
    peers, archived = Peers(), RecordingArchive()
    request = learn_request(ground_truth="42", test_report="1 passed")
    request.trajectory.reasoning_steps.append("I add.")
    await Learning(peers, peers, archived).learn(request)
    (stored,) = archived.requests
    assert (stored.dataset, stored.trajectory) == ("d", request.trajectory)
    assert (stored.ground_truth, stored.test_report) == ("42", "1 passed")
    assert stored.HasField("learned_at")


async def test_a_trajectory_without_steps_or_one_that_was_not_learned_is_not_archived() -> None:
    archived = RecordingArchive()
    await Learning(Peers(), Peers(), archived).learn(learn_request())
    request = learn_request()
    request.trajectory.reasoning_steps.append("I add.")
    broken = Peers(raises={"curate": Unavailable("down")})
    with pytest.raises(Unavailable):
        await Learning(broken, broken, archived).learn(request)
    assert archived.requests == []


async def test_a_repeated_request_archives_again_what_the_first_call_may_have_missed() -> None:
    peers, archived = SpendingPeers(), RecordingArchive()
    request = learn_request()
    request.trajectory.reasoning_steps.append("I add.")
    first = await Learning(peers, peers, archived).learn(request)
    assert not first.already_learned
    assert (await Learning(peers, peers, archived).learn(request)).already_learned
    assert len(archived.requests) == 2
