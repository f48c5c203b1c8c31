"""A plan retrieves from a document collection, with everything real, in one process and in many."""

from __future__ import annotations

import pytest

from hansei.client import Client
from hansei.planner.v1 import planner_pb2
from hansei.playbook.v1 import playbook_pb2
from hansei.search.v1.collection_pb2 import Document
from tests.support.systems import System

SKY = "The sky is blue because air scatters blue light more than red light."


def plan(collection: str) -> planner_pb2.Plan:
    search = planner_pb2.PlanStep(
        step_id=1, action=planner_pb2.ACTION_RAG_SEARCH, description="find", query=SKY, collection=collection
    )
    return planner_pb2.Plan(original_query="Why is the sky blue?", complexity=0.5, steps=[search])


@pytest.mark.parametrize(("metadata", "source"), [({}, "sky"), ({"source": "physics.md"}, "physics.md")])
def test_rag_search_reads_document_collections(
    system: System, metadata: dict[str, str], source: str
) -> None:  # P-27, P-28
    name = f"planned-{source.split('.')[0]}"
    with Client(system.address) as client:
        client.collections.create(name=name)
        client.collections.put_documents(
            collection=name,
            documents=[
                Document(id="sky", text=SKY, metadata=metadata),
                Document(id="sea", text="Bananas ripen in a warm room."),
            ],
        )
        result = client.planner.run_plan(plan=plan(name)).result
        (step,) = result.step_results
        assert list(step.sources) == [source]
        assert SKY in step.output
        assert '"sky#0"' in step.output


def test_the_best_of_only_bad_hits_is_no_evidence(system: System) -> None:  # S-42, P-28, P-31
    with Client(system.address) as client:
        client.collections.create(name="off-topic")
        documents = [Document(id="sea", text="Bananas ripen in a warm room.")]
        client.collections.put_documents(collection="off-topic", documents=documents)
        once = planner_pb2.Budget(max_tool_calls=1)  # a new plan would search everywhere
        (step,) = client.planner.run_plan(plan=plan("off-topic"), budget=once).result.step_results
        assert step.status == planner_pb2.STEP_STATUS_FAILED
        assert step.confidence == 0


def test_rag_search_of_a_name_that_is_no_collection_is_one_of_a_dataset(system: System) -> None:  # P-27
    with Client(system.address) as client:
        sky = playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="others", content=SKY)
        client.playbooks.apply_deltas(dataset="planned", deltas=[sky], author="test")
        (bullet,) = client.playbooks.list_bullets(dataset="planned").bullets
        client.search("planned", SKY, min_revision=1)
        (step,) = client.planner.run_plan(plan=plan("planned")).result.step_results
        assert list(step.sources) == [bullet.id]


@pytest.mark.parametrize(("harmful", "is_found"), [(1, True), (2, False)])
def test_one_bad_vote_does_not_hide_a_bullet_from_plans(system: System, harmful: int, is_found: bool) -> None:  # P-27
    dataset = f"planned-votes-{harmful}"
    with Client(system.address) as client:
        sky = playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="others", content=SKY)
        client.playbooks.apply_deltas(dataset=dataset, deltas=[sky], author="test")
        (bullet,) = client.playbooks.list_bullets(dataset=dataset).bullets
        votes = [
            playbook_pb2.Vote(bullet_id=bullet.id, tag=playbook_pb2.VOTE_TAG_HARMFUL, trajectory_id=f"run-{number}")
            for number in range(harmful)
        ]
        revision = client.playbooks.apply_deltas(dataset=dataset, votes=votes, author="test").revision
        client.search(dataset, SKY, min_revision=revision, min_confidence=0.0)
        once = planner_pb2.Budget(max_tool_calls=1)
        (step,) = client.planner.run_plan(plan=plan(dataset), budget=once).result.step_results
        assert list(step.sources) == ([bullet.id] if is_found else [])
