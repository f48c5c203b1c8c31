"""Microsoft Agent Framework with a scripted client: the adapter, whose report has the messages of a response."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.frameworks.scripted_runs import ANSWER, LESSON, RUNS, TASK, ScriptedMemory, check_memory, check_run

pytest.importorskip("agent_framework", reason="the frameworks are not installed: make test-frameworks")
from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message, tool

from hansei.client.adapters import agent_framework as adapter


class ScriptedModel(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Replies as told, and records the instructions."""

    def __init__(self, replies: Sequence[int | str]) -> None:
        super().__init__()
        self._replies = iter(replies)
        self.instructions: list[Any] = []

    async def _inner_get_response(self, *, options: Any, **request: Any) -> ChatResponse[Any]:
        self.instructions.append(options.get("instructions"))
        reply = next(self._replies)
        if isinstance(reply, str):
            content = Content.from_text(reply)
        else:
            content = Content.from_function_call(f"c{reply}", "invert", arguments={"x": reply})
        return ChatResponse(messages=[Message(role="assistant", contents=[content])])


@tool(approval_mode="never_require")
def invert(x: int) -> float:
    """Invert a number."""
    return 1 / x


async def run_agent(model: ScriptedModel, *providers: Any) -> Any:
    agent = Agent(model, instructions="Be brief.", tools=[invert], context_providers=list(providers))
    return await agent.run(TASK)


async def test_an_agent_uses_the_memory() -> None:
    memory, model = ScriptedMemory(), ScriptedModel([0, 2, ANSWER])
    adapter.report(memory, TASK, await run_agent(model, adapter.PlaybookProvider(memory)), succeeded=True)
    assert model.instructions == [f"Be brief.\n{LESSON}"] * 3
    check_memory(memory, "openai")


@pytest.mark.parametrize("name", RUNS)
async def test_its_messages_are_reported(name: str) -> None:
    memory = ScriptedMemory()
    adapter.report(memory, TASK, await run_agent(ScriptedModel(RUNS[name])), succeeded=True)
    check_run(json.dumps(memory.reports[0][0]).encode(), name, "openai")
