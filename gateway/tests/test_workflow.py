"""Test the chain of the workflow with scripted services."""

from __future__ import annotations

import pytest

from chassis.errors import Unavailable
from gateway.orchestrator.workflow import NOT_MEASURED, ReflectionWorkflow, WorkflowState
from gateway.tests.scripted_http import FOUND, Peers
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search


async def test_each_node_adds_to_the_state() -> None:  # G-32, G-33, G-39
    peers = Peers()
    state = WorkflowState("Q", "d")
    assert (state.playbook, state.search_results, state.llm_response) == (None, [], "")
    await ReflectionWorkflow(peers, peers, peers, peers).run(state)
    assert (state.query, state.dataset) == ("Q", "d")
    assert state.playbook is not None
    assert state.playbook.revision == 3
    assert state.search_results == list(FOUND.results)
    assert state.llm_response == state.trajectory.generated_answer == "答え {x}"
    loaded, searched, generated = peers.requests
    assert isinstance(loaded, playbook.GetDatasetRequest)
    assert isinstance(searched, search.SearchRequest)
    assert isinstance(generated, generation.GenerateRequest)
    assert generated.style == generation.GENERATE_STYLE_CITED
    assert [bullet.id for bullet in generated.bullets] == ["b-1", "b-2"]


async def test_search_gets_the_query_with_the_default_budget() -> None:  # G-34
    peers = Peers()
    await ReflectionWorkflow(peers, peers, peers, peers).run(WorkflowState("Q", "d"))
    assert peers.requests[1].query == search_pb2.SearchQuery(query_text="Q", budget_tokens=0)


async def test_a_session_is_served_by_the_evidence_service() -> None:
    peers = Peers()
    state = WorkflowState("Q", "d", session_id="s")
    await ReflectionWorkflow(peers, peers, peers, peers).run(state)
    recalled = peers.requests[1]
    assert isinstance(recalled, evidence.RecallRequest)
    assert (recalled.session_id, recalled.query_text, recalled.min_revision) == ("s", "Q", 3)
    assert recalled.allow_missing
    assert (state.serving_id, state.note) == ("serving-1", "")
    assert [bullet.id for bullet in peers.requests[2].bullets] == ["b-1"]


async def test_without_the_evidence_service_a_session_gets_a_search() -> None:
    peers = Peers(raises={"recall": Unavailable("down")})
    state = WorkflowState("Q", "d", session_id="s")
    await ReflectionWorkflow(peers, peers, peers, peers).run(state)
    assert state.search_results == list(FOUND.results)
    assert (state.serving_id, state.note) == ("", NOT_MEASURED)


@pytest.mark.parametrize(("node", "calls"), [("dataset", 1), ("search", 2), ("generate", 3)])
async def test_an_error_in_a_node_ends_the_workflow(node: str, calls: int) -> None:  # G-38
    peers = Peers(raises={node: Unavailable("down")})
    with pytest.raises(Unavailable):
        await ReflectionWorkflow(peers, peers, peers, peers).run(WorkflowState("Q", "d"))
    assert len(peers.requests) == calls
