"""CrewAI with a scripted model: the adapter, whose report has the tool calls of a crew."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.scripted_runs import ANSWER, LESSON, RUNS, TASK, ScriptedMemory, check_memory, check_run

# CrewAI reads these when it is imported: it then sends nothing, and asks nothing.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", CREWAI_TESTING="true")
pytest.importorskip("crewai", reason="the frameworks are not installed: make test-frameworks")
from crewai import Agent, BaseLLM, Crew, CrewOutput, Task
from crewai.tools import tool

from hansei.client.adapters import crewai as adapter


class ScriptedModel(BaseLLM):
    """Replies as told in the form that CrewAI asks for, and records the first message of each call."""

    def __init__(self, replies: Sequence[int | str]) -> None:
        super().__init__(model="scripted")
        self._script = iter(replies)
        self._prompts: list[str] = []

    def call(self, messages: Any, *arguments: Any, **options: Any) -> str:
        self._prompts.append(messages[0]["content"])
        reply = next(self._script)
        if isinstance(reply, str):
            return f"Thought: I now know the final answer\nFinal Answer: {reply}"
        return f'Thought: I invert it.\nAction: invert\nAction Input: {{"x": {reply}}}'


@tool("invert")
def invert(x: int) -> float:
    """Invert a number."""
    if x == 0:
        raise ValueError("x must not be 0")
    return 1 / x


def run_crew(memory: adapter.CrewMemory, model: ScriptedModel) -> CrewOutput:
    tools = memory.guard_tools([invert])
    agent = Agent(role="Solver", goal="Solve", backstory="Terse", llm=model, tools=tools, max_iter=5)
    with memory:
        return Crew(agents=[agent], tasks=[Task(description=TASK, expected_output="a number", agent=agent)]).kickoff()


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def test_an_agent_uses_the_memory() -> None:
    scripted, model = ScriptedMemory(), ScriptedModel([0, 2, ANSWER])
    memory = adapter.CrewMemory(scripted)
    memory.report(run_crew(memory, model), succeeded=True)
    assert len(model._prompts) == 3
    assert all(prompt.count(LESSON) == 1 for prompt in model._prompts)
    check_memory(scripted, "openai")


def test_its_hook_ends_with_the_block() -> None:
    scripted, model = ScriptedMemory(), ScriptedModel([ANSWER])
    run_crew(adapter.CrewMemory(scripted), ScriptedModel([ANSWER]))
    agent = Agent(role="Solver", goal="Solve", backstory="Terse", llm=model)
    Crew(agents=[agent], tasks=[Task(description=TASK, expected_output="a number", agent=agent)]).kickoff()
    assert LESSON not in model._prompts[0]


@pytest.mark.parametrize("name", RUNS)
def test_its_calls_are_reported(name: str) -> None:
    scripted = ScriptedMemory()
    memory = adapter.CrewMemory(scripted)
    memory.report(run_crew(memory, ScriptedModel(RUNS[name])), succeeded=True)
    check_run(json.dumps(scripted.reports[0][0]).encode(), name, "openai")
