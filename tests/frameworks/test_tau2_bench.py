"""tau2-bench itself, as NVIDIA packages it, with scripted models of agent and user: the results that it saves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from tests.fakes.openai_answers import chat
from tests.fakes.openai_server import OpenAIServer

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it looks for prices in the internet
pytest.importorskip("tau2", reason="the frameworks are not installed: make test-frameworks")
from tau2.evaluator.evaluator import EvaluationType
from tau2.run import get_tasks, run_tasks

WISH, DONE, SORRY, STOP = "Create the task.", "It is created.", "I could not.", "###STOP###"
WRONG = ("create_task", {"user_id": "user_9", "title": "Important Meeting"})
RIGHT = ("create_task", {"user_id": "user_1", "title": "Important Meeting"})


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def run(server: OpenAIServer, file: Path, replies: list[Any], **options: Any) -> RecordedTrajectory:
    """Run the first task of the domain `mock`; agent and user get these replies in turns."""
    server.script(*(chat(reply) if isinstance(reply, str) else chat(tool_calls=[reply]) for reply in replies))
    model = {
        "llm_agent": "openai/scripted",
        "llm_user": "openai/scripted",
        "llm_args_agent": {"api_base": server.base_url, "api_key": "none"},
        "llm_args_user": {"api_base": server.base_url, "api_key": "none"},
    }
    run_tasks(
        domain="mock",
        tasks=get_tasks("mock", task_ids=["create_task_1"]),
        agent="llm_agent",
        user="user_simulator",
        save_to=file,
        console_display=False,
        evaluation_type=EvaluationType.ENV,
        log_level="ERROR",
        **model,
        **options,
    )
    parsed = read_trajectories(file.read_bytes(), "benchmarks")
    assert parsed.format == "tau2_bench"
    (recorded,) = parsed.trajectories
    return recorded


def describe(recorded: RecordedTrajectory) -> list[str]:
    return [
        "".join(json.loads(call.arguments)["user_id"] for call in step.tool_calls)
        or ("error" if step.content.startswith("Error") else step.role if step.role == "tool" else step.content)
        for step in recorded.trajectory.steps
    ]


@pytest.mark.parametrize(
    ("replies", "steps", "reward"),
    [
        ([WISH, WRONG, RIGHT, DONE, STOP], [WISH, "user_9", "error", "user_1", "tool", DONE, STOP], 1.0),
        ([WISH, WRONG, SORRY, STOP], [WISH, "user_9", "error", SORRY, STOP], 0.0),
        ([WISH, RIGHT, RIGHT, DONE, STOP], [WISH, "user_1", "tool", "user_1", "tool", DONE, STOP], 0.0),
    ],
)
def test_its_results_are_read(
    server: OpenAIServer, tmp_path: Path, replies: list[Any], steps: list[str], reward: float
) -> None:
    recorded = run(server, tmp_path / "results.json", replies)
    greeting, *rest = describe(recorded)
    assert greeting.startswith("Hi!")
    assert rest == steps
    trajectory = recorded.trajectory
    assert (trajectory.task_id, trajectory.reward) == ("create_task_1", reward)
    assert trajectory.status == ("success" if reward else "failure")
    assert f"tau2-bench's reward is {reward:g}" in recorded.test_report
    assert trajectory.generated_answer == (DONE if DONE in replies else SORRY)


def test_a_conversation_that_was_broken_off_is_a_failure(server: OpenAIServer, tmp_path: Path) -> None:
    recorded = run(server, tmp_path / "results.json", [WISH, WRONG, WRONG, WRONG], max_steps=4)
    assert recorded.trajectory.status == "failure"
    assert recorded.trajectory.error_message == "The conversation ended by max_steps."
