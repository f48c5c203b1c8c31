"""LangChain 1 and LangGraph with LangChain's fake model: the adapter, and the messages of a state."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tests.frameworks.scripted_runs import ANSWER, LESSON, RUNS, TASK, ScriptedMemory, check_memory, check_run

pytest.importorskip("langchain.agents", reason="the frameworks are not installed: make test-frameworks")
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, messages_to_dict
from langchain_core.tools import ToolException, tool

from hansei.client.adapters import langgraph as adapter
from hansei.client.adapters.agent_memory import ToolVerdict


class Model(GenericFakeChatModel):
    """Records the first message of each call."""

    prompts: list[str] = []  # noqa: RUF012

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, *arguments: Any, **options: Any) -> Any:
        self.prompts.append(str(messages[0].content))
        return super()._generate(messages, *arguments, **options)


@tool
def invert(x: int) -> float:
    """Invert a number."""
    if x == 0:
        raise ToolException("x must not be 0")
    return 1 / x


invert.handle_tool_error = True


def build_model(replies: list[int | str]) -> Model:
    """Return a model with these replies."""

    def convert(reply: int | str) -> AIMessage:
        if isinstance(reply, str):
            return AIMessage(reply)
        return AIMessage("", tool_calls=[{"name": "invert", "args": {"x": reply}, "id": f"c{reply}"}])

    return Model(messages=iter(map(convert, replies)), prompts=[])


def run_agent(replies: list[int | str], **options: Any) -> tuple[Any, list[str]]:
    model = build_model(replies)
    agent = create_agent(model, [invert], system_prompt="Be brief.", **options)
    return agent.invoke({"messages": [("user", TASK)]}), model.prompts


def test_an_agent_uses_the_memory() -> None:
    memory = ScriptedMemory()
    state, prompts = run_agent([0, 2, ANSWER], middleware=[adapter.PlaybookMiddleware(memory)])
    adapter.report(memory, state, succeeded=True)
    assert prompts == [f"Be brief.\n\n{LESSON}"] * 3
    check_memory(memory, "langchain")


async def test_an_async_agent_uses_the_memory_without_blocking_the_event_loop() -> None:
    class MemoryOfThreads(ScriptedMemory):
        def recall(self, task: str) -> str:
            threads.add(threading.get_ident())
            return super().recall(task)

        def check(self, tool: str, arguments: Mapping[str, Any]) -> ToolVerdict:
            threads.add(threading.get_ident())
            return super().check(tool, arguments)

    threads: set[int] = set()
    memory = MemoryOfThreads()
    model = build_model([0, 2, ANSWER])
    middleware = [adapter.PlaybookMiddleware(memory)]
    agent = create_agent(model, [invert], system_prompt="Be brief.", middleware=middleware)
    state = await agent.ainvoke({"messages": [("user", TASK)]})
    adapter.report(memory, state, succeeded=True)
    assert model.prompts == [f"Be brief.\n\n{LESSON}"] * 3
    check_memory(memory, "langchain")
    assert threads.isdisjoint({threading.get_ident()})


@pytest.mark.parametrize("name", RUNS)
def test_its_messages_are_read(name: str) -> None:
    state, _ = run_agent(RUNS[name])
    check_run(json.dumps(messages_to_dict(state["messages"])).encode(), name, "langchain")
