"""Methods of services in this process are called as they are, and answer with bytes whatever form they chose."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.adapters.methods import ContractMethods
from gateway.contract import installed_contract
from hansei.search.v1 import search_service_pb2 as pb

METHOD = pb.DESCRIPTOR.services_by_name["SearchService"].methods_by_name["Search"]
ANSWER = pb.SearchResponse(revision=7, embedding_model="m")


class Searching:
    """A servicer that answers what it was made with."""

    def __init__(self, answer: pb.SearchResponse | bytes) -> None:
        self._answer = answer

    async def Search(self, request: pb.SearchRequest, context: Any) -> Any:
        return self._answer


@pytest.mark.parametrize("answer", [ANSWER, ANSWER.SerializeToString()], ids=["message", "wire form"])
async def test_an_answer_is_the_wire_form_of_a_message(answer: pb.SearchResponse | bytes) -> None:
    def refuse_channel(name: str) -> Any:
        raise AssertionError(f"{name} is in this process")

    own = {METHOD.containing_service.full_name: Searching(answer)}
    call = ContractMethods(refuse_channel, installed_contract(), own).function(METHOD)
    assert await call(pb.SearchRequest(dataset="d")) == ANSWER.SerializeToString()
