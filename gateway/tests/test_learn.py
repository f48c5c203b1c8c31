"""Test the chain of Learn with scripted services."""

from __future__ import annotations

from typing import Any

import pytest

from chassis.errors import Unavailable
from gateway.orchestrator.learn import Learning
from gateway.tests.scripted_http import Peers
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.reflector.v1 import trajectory_pb2 as trajectory


def learn_request(answer: str = "It is 42.", **fields: Any) -> gateway.LearnRequest:
    failed = trajectory.Trajectory(
        id="t", dataset="d", generated_answer=answer, status=trajectory.TRAJECTORY_STATUS_FAILURE
    )
    return gateway.LearnRequest(**{"request_id": "r", "dataset": "d", "trajectory": failed, **fields})


@pytest.mark.parametrize(
    ("fields", "report"),
    [
        ({"ground_truth": " 42 "}, "正解"),
        ({"ground_truth": "43"}, "不正解（正解: 43）"),
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
