"""mini-swe-agent itself with its own offline models: the trajectories that it saves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.recorded_trajectory import RecordedTrajectory

pytest.importorskip("minisweagent", reason="the frameworks are not installed: make test-frameworks")
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import (
    DeterministicModel,
    DeterministicResponseAPIToolcallModel,
    DeterministicToolcallModel,
    make_output,
    make_response_api_output,
    make_toolcall_output,
)

TASK, THOUGHT = "Make the tests pass", "I try it."
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo 'the patch'"


def call_by_text(number: int, command: str) -> dict[str, Any]:
    content = f"{THOUGHT}\n\n```mswea_bash_command\n{command}\n```"
    output: dict[str, Any] = make_output(content, [{"command": command}])
    return output


def call_by_tool(number: int, command: str) -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    calls = [{"id": f"c{number}", "type": "function", "function": function}]
    output: dict[str, Any] = make_toolcall_output(THOUGHT, calls, [{"command": command, "tool_call_id": f"c{number}"}])
    return output


def call_by_item(number: int, command: str) -> dict[str, Any]:
    output: dict[str, Any] = make_response_api_output(THOUGHT, [{"command": command, "tool_call_id": f"c{number}"}])
    return output


WAYS = [
    (DeterministicModel, call_by_text),
    (DeterministicToolcallModel, call_by_tool),
    (DeterministicResponseAPIToolcallModel, call_by_item),
]


def record(folder: Path, way: Any, commands: list[str], **limits: Any) -> RecordedTrajectory:
    model, call = way
    outputs = [call(number, command) for number, command in enumerate(commands)]
    templates = {"system_template": "Be brief.", "instance_template": "{{task}}"}
    file = folder / "run.traj.json"
    environment = LocalEnvironment(cwd=str(folder))
    DefaultAgent(model(outputs=outputs), environment, output_path=file, **templates, **limits).run(TASK)
    parsed = read_trajectories(file.read_bytes(), "coding")
    assert parsed.format == "swe_agent"
    (recorded,) = parsed.trajectories
    return recorded


@pytest.mark.parametrize("way", WAYS)
def test_its_trajectories_are_read(tmp_path: Path, way: Any) -> None:
    commands = ["echo out; exit 3", "echo ok", SUBMIT]
    trajectory = record(tmp_path, way, commands).trajectory
    calls = [(THOUGHT, command) for command in commands]
    seen = [
        (step.content, json.loads(call.arguments)["command"]) for step in trajectory.steps for call in step.tool_calls
    ]
    assert seen == calls
    results = [step.content for step in trajectory.steps if step.role == "tool"]
    assert results == ["Error: out\n\n(exit code 3)", "ok\n"]
    assert [step.role for step in trajectory.steps[:3]] == ["system", "user", "assistant"]
    assert (trajectory.query, trajectory.generated_answer.strip()) == (TASK, "the patch")
    assert (trajectory.status, trajectory.error_message) == ("success", None)


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_that_reached_a_limit_failed(tmp_path: Path, way: Any) -> None:
    trajectory = record(tmp_path, way, ["false", "false"], step_limit=1).trajectory
    assert (trajectory.status, trajectory.error_message) == ("failure", "LimitsExceeded")
    assert [step.content for step in trajectory.steps if step.role == "tool"] == ["Error: exit code 1"]
