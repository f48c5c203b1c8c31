"""Google ADK with a scripted model: the adapter, whose report has the events of a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.frameworks.scripted_runs import ANSWER, LESSON, RUNS, TASK, ScriptedMemory, check_memory, check_run

pytest.importorskip("google.adk", reason="the frameworks are not installed: make test-frameworks")
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from hansei.client.adapters import google_adk as adapter


class ScriptedModel(BaseLlm):
    """Replies as told, and records the instructions."""

    model: str = "scripted"
    replies: list[int | str]
    instructions: list[str] = []  # noqa: RUF012

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        self.instructions.append(str(llm_request.config.system_instruction))
        reply = self.replies.pop(0)
        call = types.FunctionCall(id=f"c{reply}", name="invert", args={"x": reply})
        part = types.Part(text=reply) if isinstance(reply, str) else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def invert(x: int) -> dict[str, Any]:
    """Invert a number."""
    return {"error": "x must not be 0"} if x == 0 else {"result": 1 / x}


async def run_agent(model: ScriptedModel, *plugins: Any) -> Any:
    agent = LlmAgent(name="solver", model=model, tools=[invert], instruction="Be brief.")
    app = App(name="tests", root_agent=agent, plugins=list(plugins))
    async with InMemoryRunner(app=app) as runner:
        return await runner.run_debug(TASK, quiet=True)


async def test_an_agent_uses_the_memory() -> None:
    memory, model = ScriptedMemory(), ScriptedModel(replies=[0, 2, ANSWER], instructions=[])
    adapter.report(memory, TASK, await run_agent(model, adapter.PlaybookPlugin(memory)), succeeded=True)
    assert len(model.instructions) == 3
    assert all(text.startswith("Be brief.") and text.endswith(LESSON) for text in model.instructions)
    check_memory(memory, "openai")


@pytest.mark.parametrize("name", RUNS)
async def test_its_events_are_reported(name: str) -> None:
    memory = ScriptedMemory()
    events = await run_agent(ScriptedModel(replies=list(RUNS[name]), instructions=[]))
    adapter.report(memory, TASK, events, succeeded=True)
    check_run(json.dumps(memory.reports[0][0]).encode(), name, "openai")
