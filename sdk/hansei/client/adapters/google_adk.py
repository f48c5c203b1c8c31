"""Google ADK with a memory: a plugin that adds lessons to the instructions and checks tool calls.

    memory = AgentMemory(client, "devtools")
    runner = InMemoryRunner(app=App(name="solver", root_agent=agent, plugins=[PlaybookPlugin(memory)]))
    events = await runner.run_debug(task)
    report(memory, task, events, succeeded=True)

Requires the extra `google-adk`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.adapters.chat_messages import build_call, build_result, build_text
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("google-adk", "google.adk"):
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.events import Event
    from google.adk.models import LlmRequest
    from google.adk.plugins import BasePlugin
    from google.adk.tools import BaseTool


class PlaybookPlugin(BasePlugin):
    """Give an agent the lessons for the message of the user, and refuse tool calls that the memory refuses."""

    def __init__(self, memory: AgentMemory) -> None:
        super().__init__("hansei")
        self._memory = memory

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Add the lessons to the instructions of a model call."""
        text = await asyncio.to_thread(self._memory.recall, _join_texts(callback_context.user_content))
        if text:
            llm_request.append_instructions([text])

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """Return None for an allowed call; a refused one has the lesson as its result."""
        verdict = await asyncio.to_thread(self._memory.check, tool.name, tool_args)
        return None if verdict.is_allowed else {"error": verdict.text}


def report(memory: AgentMemory, task: str, events: Iterable[Event], *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from its events. The events of ADK do not contain the user's message."""
    messages = [build_text("user", task)]
    for event in events:
        if event.partial or event.author == "user":
            continue
        for call in event.get_function_calls():
            messages.append(build_call(call.id or "", call.name or "", call.args or {}))
        for response in event.get_function_responses():
            result = response.response or {}
            error = result.get("error")
            messages.append(
                build_result(response.id or "", response.name or "", error or result, has_failed=error is not None)
            )
        if text := _join_texts(event.content):
            messages.append(build_text("assistant", text))
    return memory.report({"messages": messages}, succeeded=succeeded)


def _join_texts(content: Any) -> str:
    parts = (content.parts if content else None) or []
    return "\n".join(part.text for part in parts if part.text and not part.thought)
