"""Learn from a trajectory in a running hansei, and use the lessons in a search, an answer and a plan."""

from __future__ import annotations

import uuid

from hansei.client import Client
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
from hansei.planner.v1.planner_pb2 import ACTION_RAG_SEARCH, ExecutionStatus
from tests.support.systems import ROOT

TRAJECTORY = ROOT / "examples/trajectories/git-commit-identity.json"


def learn_from_trajectory(client: Client) -> tuple[str, LearnResponse]:
    """Learn from a recorded trajectory in a new dataset; return the dataset and the response."""
    dataset = f"deploy-{uuid.uuid4().hex[:8]}"
    (parsed,) = client.reflector.parse_trajectories(content=TRAJECTORY.read_bytes(), dataset=dataset).trajectories
    parsed.trajectory.dataset = dataset
    learned = client.learn(parsed.trajectory, ground_truth=parsed.ground_truth, test_report=parsed.test_report)
    assert [delta.type for delta in learned.curation.result.deltas]
    return dataset, learned


def check_lesson_is_used(client: Client, dataset: str, learned: LearnResponse) -> None:
    """Check that search finds the lesson, and that an answer and a plan use it."""
    found = client.search(dataset, "What went wrong?", min_revision=learned.curation.revision)
    assert found.results
    lesson = found.results[0].bullet
    answered = client.gateway.run_workflow(query=lesson.content, dataset=dataset)
    assert answered.llm_response
    assert lesson.id in {result.bullet.id for result in answered.search_results}
    plan = client.planner.create_plan(query=lesson.content).plan
    next(step for step in plan.steps if step.action == ACTION_RAG_SEARCH).collection = dataset
    result = client.planner.run_plan(plan=plan).result
    assert ExecutionStatus.Name(result.overall_status) in ("EXECUTION_STATUS_SUCCESS", "EXECUTION_STATUS_PARTIAL")
    assert result.final_answer
    assert any(lesson.id in str(step) for step in result.step_results)
