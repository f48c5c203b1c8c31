"""Methods of services in this process are called directly; messages in responses become bytes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.adapters.methods import ContractMethods
from gateway.contract import load_contract
from hansei.search.v1 import search_service_pb2 as pb

METHOD = pb.DESCRIPTOR.services_by_name["SearchService"].methods_by_name["Search"]
ANSWER = pb.SearchResponse(revision=7, embedding_model="m")


class ScriptedServicer:
    """A servicer that returns the given responses."""

    def __init__(self, answer: pb.SearchResponse | bytes) -> None:
        self._answer = answer

    async def Search(self, request: pb.SearchRequest, context: Any) -> Any:
        return self._answer


@pytest.mark.parametrize("answer", [ANSWER, ANSWER.SerializeToString()], ids=["message", "wire form"])
async def test_an_answer_is_the_wire_form_of_a_message(answer: pb.SearchResponse | bytes) -> None:
    def refuse_channel(name: str) -> Any:
        raise AssertionError(f"{name} is in this process")

    own = {METHOD.containing_service.full_name: ScriptedServicer(answer)}
    call = ContractMethods(refuse_channel, load_contract(), own).get_function(METHOD)
    assert await call(pb.SearchRequest(dataset="d")) == ANSWER.SerializeToString()


@pytest.mark.parametrize(
    "method",
    [
        *(f"gateway.v1.GatewayService.{name}" for name in ("Answer", "Learn", "RunWorkflow")),
        "gateway.v1.RoundsService.RunRounds",
        # CancelRun, GetRun and StreamPlan of the specification are called CancelExecution, GetExecution, ExecutePlan.
        *(f"planner.v1.PlannerService.{name}" for name in ("RunPlan", "ExecutePlan", "ResumePlan", "AddInformation")),
        *(f"planner.v1.PlannerService.{name}" for name in ("CancelExecution", "GetExecution")),
    ],
)
def test_the_gateway_serves_the_methods_of_the_specification(method: str) -> None:  # G-66
    assert f"hansei.{method}" in {served.full_name for served in load_contract().list_methods()}
