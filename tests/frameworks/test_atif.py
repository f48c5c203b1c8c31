"""ATIF as Harbor's own models write it, v1.8, and as NVIDIA's toolkit converts the events of an agent, v1.7."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.reflector.adapters.importers.files import read_trajectories
from tests.frameworks.scripted_runs import RUNS, TASK, check_run

pytest.importorskip("harbor.models.trajectories", reason="the frameworks are not installed: make test-frameworks")
from harbor.models.trajectories import (
    Agent,
    ContentPart,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    SubagentTrajectoryRef,
    ToolCall,
    Trajectory,
)
from nat.atof.events import ScopeEvent
from nat.atof.scripts.atof_to_atif_converter import convert

AGENT = Agent(name="solver", version="1")
ERROR = "Error: x must not be 0"


def answer_call(x: int) -> str:
    return ERROR if x == 0 else str(1 / x)


def build_trajectory(replies: list[int | str], **fields: Any) -> Trajectory:
    """Return a trajectory of Harbor: an agent's step holds its call and the result."""
    steps = [Step(step_id=1, source="system", message="Be brief."), Step(step_id=2, source="user", message=TASK)]
    for number, reply in enumerate(replies, 3):
        metrics = Metrics(prompt_tokens=10, completion_tokens=2, cached_tokens=4, cost_usd=0.5)
        if isinstance(reply, str):
            steps.append(Step(step_id=number, source="agent", message=reply, metrics=metrics, llm_call_count=1))
            continue
        call = ToolCall(tool_call_id=f"c{number}", function_name="invert", arguments={"x": reply})
        result = ObservationResult(source_call_id=f"c{number}", content=answer_call(reply), extra={"ms": 1})
        steps.append(
            Step(
                step_id=number,
                source="agent",
                message="",
                reasoning_content="I have to invert it." if number == 3 else None,
                tool_calls=[call],
                observation=Observation(results=[result]),
                metrics=metrics,
            )
        )
    return Trajectory(session_id="s", agent=AGENT, steps=steps, **fields)


def encode(trajectory: Trajectory) -> bytes:
    return json.dumps(trajectory.to_json_dict()).encode()


@pytest.mark.parametrize("name", RUNS)
def test_trajectories_of_harbor_are_read(name: str) -> None:
    trajectory = build_trajectory(RUNS[name], final_metrics=FinalMetrics(total_prompt_tokens=1))
    assert trajectory.schema_version == "ATIF-v1.8"
    check_run(encode(trajectory).replace(b"I have to invert it.", b""), name, "atif")
    (recorded,) = read_trajectories(encode(trajectory), "frameworks").trajectories
    usage = recorded.trajectory.usage
    assert usage is not None
    calls = len(RUNS[name])
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == (10 * calls, 2 * calls, 4 * calls)


def test_sub_agents_and_parts_that_are_no_text_are_read() -> None:
    helper = build_trajectory([0, 2, "It is 0.5."], trajectory_id="helper")
    media = {"media_type": "audio/wav", "path": "a.wav", "duration_sec": 1.5}
    parts = [ContentPart(type="text", text=TASK), ContentPart(type="audio", source=media)]
    ref = ObservationResult(source_call_id="c", subagent_trajectory_ref=[SubagentTrajectoryRef(trajectory_id="helper")])
    steps = [
        Step(step_id=1, source="user", message=parts),
        Step(
            step_id=2,
            source="agent",
            message="",
            tool_calls=[ToolCall(tool_call_id="c", function_name="delegate", arguments={})],
            observation=Observation(results=[ref]),
        ),
        Step(step_id=3, source="agent", message="The helper says 0.5."),
    ]
    whole = Trajectory(trajectory_id="root", agent=AGENT, steps=steps, subagent_trajectories=[helper])
    root, sub_agent = read_trajectories(encode(whole), "frameworks").trajectories
    assert (root.trajectory.id, sub_agent.trajectory.id) == ("root", "helper")
    assert (root.trajectory.query, root.trajectory.generated_answer) == (TASK, "The helper says 0.5.")
    assert [step.content for step in root.trajectory.steps if step.role == "tool"] == ["subagent helper"]
    assert sub_agent.trajectory.generated_answer == "It is 0.5."


def list_events(replies: list[int | str]) -> list[Any]:
    """Return the events of an agent as NVIDIA's runtime emits them: calls of a model and of tools below an agent."""
    events: list[Any] = []

    def emit(uuid: str, phase: Any, category: str, name: str, data: Any, profile: dict[str, str] | None = None) -> None:
        parent = None if category == "agent" else "agent"
        events.append(
            ScopeEvent(
                uuid=uuid,
                parent_uuid=parent,
                timestamp=f"2026-01-01T00:00:{len(events):02}Z",
                scope_category=phase,
                category=category,
                name=name,
                data=data,
                category_profile=profile,
            )
        )

    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": TASK}]
    emit("agent", "start", "agent", "solver", None)
    for number, reply in enumerate(replies):
        emit(f"llm{number}", "start", "llm", "scripted", {"messages": list(messages)})
        if isinstance(reply, str):
            emit(f"llm{number}", "end", "llm", "scripted", {"content": reply})
            continue
        call = {"id": f"c{number}", "name": "invert", "arguments": {"x": reply}}
        emit(f"llm{number}", "end", "llm", "scripted", {"content": "", "tool_calls": [call]})
        profile = {"tool_call_id": f"c{number}"}
        emit(f"tool{number}", "start", "tool", "invert", {"x": reply}, profile)
        emit(f"tool{number}", "end", "tool", "invert", {"result": answer_call(reply)}, profile)
        messages.append({"role": "tool", "content": answer_call(reply)})
    emit("agent", "end", "agent", "solver", None)
    return events


@pytest.mark.parametrize("name", RUNS)
def test_trajectories_that_nvidia_converts_are_read(name: str) -> None:
    trajectory = convert(list_events(RUNS[name]))
    assert trajectory.schema_version == "ATIF-v1.7"
    check_run(trajectory.model_dump_json(exclude_none=True).encode(), name, "atif")
