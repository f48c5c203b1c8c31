"""smolagents with a scripted model: the adapter, and its steps. It answers by the tool `final_answer`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.frameworks.scripted_runs import LESSON, RUNS, TASK, ScriptedMemory, describe_step, list_steps

pytest.importorskip("smolagents", reason="the frameworks are not installed: make test-frameworks")
from smolagents import CodeAgent, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)

from hansei.client.adapters import smolagents as adapter
from services.reflector.adapters.importers.files import read_trajectories


@tool
def invert(x: int) -> float:
    """Invert a number.

    Args:
        x: the number
    """
    return 1 / x


class Coder(Model):
    """Writes code, and records the prompts."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = iter(lines)
        self.prompts: list[str] = []

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        self.prompts.append(str(messages[0].content))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{next(self._lines)}\n</code>")


class Caller(Model):
    """Calls tools."""

    def __init__(self, replies: list[int | str]) -> None:
        super().__init__()
        self._replies = iter(replies)

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        reply = next(self._replies)
        name, arguments = ("final_answer", {"answer": reply}) if isinstance(reply, str) else ("invert", {"x": reply})
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        calls = [ChatMessageToolCall(id=f"c{reply}", type="function", function=function)]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls)


def test_an_agent_uses_the_memory() -> None:
    memory = ScriptedMemory()
    model = Coder(["invert(0)", "print(invert(2))", "final_answer('It is 0.5.')"])
    tools = adapter.guard_tools(memory, [invert])
    agent = CodeAgent(tools=tools, model=model, instructions=memory.recall(TASK), verbosity_level=0)
    assert agent.run(TASK) == "It is 0.5."
    adapter.report(memory, agent, succeeded=True)
    assert all(LESSON in prompt for prompt in model.prompts)
    assert memory.calls == [("invert", {"x": 0}), ("invert", {"x": 2})]


@pytest.mark.parametrize("name", RUNS)
def test_its_steps_are_read(name: str) -> None:
    agent = ToolCallingAgent(tools=[invert], model=Caller(RUNS[name]), verbosity_level=0)
    agent.run(TASK)
    content = json.dumps(agent.memory.get_succinct_steps(), default=str).encode()
    parsed = read_trajectories(content, "frameworks")
    assert parsed.format == "smolagents"
    (recorded,) = parsed.trajectories
    *steps, answer, result = recorded.trajectory.steps
    assert [describe_step(step) for step in steps] == list_steps(name)[:-1]
    assert [call.name for call in answer.tool_calls] == ["final_answer"]
    assert (recorded.trajectory.query, result.content, recorded.trajectory.generated_answer) == (
        TASK,
        *[RUNS[name][-1]] * 2,
    )
