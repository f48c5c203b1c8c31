"""Share three scripted runs, a scripted memory, and the assertions about what the reader finds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory, ToolVerdict
from libs.trajectories.tool_errors import detect_tool_error
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.trajectory import Step

TASK, LESSON, REFUSAL, ANSWER = "invert something", "Never invert zero.", "zero has no inverse", "It is 0.5."
RUNS: dict[str, list[int | str]] = {"corrected": [0, 2, ANSWER], "gave up": [0, "I could not."], "answered": [ANSWER]}
"""The replies of the model of each run: a number is a call of `invert`."""


class ScriptedMemory(AgentMemory):
    """Serves one lesson, refuses to invert zero, and records reports."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.reports: list[tuple[Any, bool]] = []

    def recall(self, task: str) -> str:
        self.tasks.append(task)
        return LESSON

    def check(self, tool: str, arguments: Mapping[str, Any]) -> ToolVerdict:
        self.calls.append((tool, dict(arguments)))
        return ToolVerdict(is_allowed=arguments.get("x") != 0, text=REFUSAL)

    def report(self, document: object, *, succeeded: bool, reward: float | None = None) -> None:
        self.reports.append((json.loads(json.dumps(document, default=str)), succeeded))


def check_memory(memory: ScriptedMemory, format: str) -> None:
    """Assert that an agent got its lesson, that its calls were checked, and that its report can be read."""
    assert set(memory.tasks) == {TASK}
    assert memory.calls == [("invert", {"x": 0}), ("invert", {"x": 2})]
    ((document, succeeded),) = memory.reports
    assert succeeded
    assert REFUSAL in json.dumps(document)
    check_run(json.dumps(document).encode(), "corrected", format)


def list_steps(name: str) -> list[str]:
    """Return the steps of a scripted run, as `describe_step` describes them."""
    steps = [TASK]
    for reply in RUNS[name]:
        steps += [reply] if isinstance(reply, str) else [f"invert({reply})", "error" if reply == 0 else "0.5"]
    return steps


def describe_step(step: Step) -> str:
    """Return a step as a call, as the result of a call, or as its text."""
    if step.tool_calls:
        (call,) = step.tool_calls
        return f"invert({json.loads(call.arguments)['x']})"
    if step.role == "tool":
        return "error" if detect_tool_error(step.content) else "0.5" if "0.5" in step.content else step.content
    return step.content


def check_run(content: bytes, name: str, format: str, *, error: str = "error") -> None:
    """Assert that a file holds one of the scripted runs, each message once.

    `error` is the result of the failed call if the file does not say that it failed.
    """
    parsed = read_trajectories(content, "frameworks")
    assert parsed.format == format
    (recorded,) = parsed.trajectories
    described = [describe_step(step) for step in recorded.trajectory.steps if step.role != "system"]
    assert described == [error if step == "error" else step for step in list_steps(name)]
    assert recorded.trajectory.query == TASK
    assert recorded.trajectory.generated_answer == RUNS[name][-1]
