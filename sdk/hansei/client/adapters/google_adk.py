"""Google ADK with a memory: a plugin that adds lessons to the instructions and checks tool calls.

    memory = AgentMemory(client, "devtools")
    runner = InMemoryRunner(app=App(name="solver", root_agent=agent, plugins=[PlaybookPlugin(memory)]))
    events = await runner.run_debug(task)
    report(memory, task, events, succeeded=True)

Requires the extra `google-adk`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.adapters.chat_messages import ChatTranscript
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
        if text := await self._memory.recall_async(_join_texts(callback_context.user_content)):
            llm_request.append_instructions([text])

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """Return None for an allowed call; a refused one has the lesson as its result."""
        verdict = await self._memory.check_async(tool.name, tool_args)
        return None if verdict.is_allowed else {"error": verdict.text}


def report(memory: AgentMemory, task: str, events: Iterable[Event], *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from its events. The events of ADK do not contain the user's message."""
    transcript = ChatTranscript()
    transcript.add_text("user", task)
    for event in events:
        if event.partial or event.author == "user":
            continue
        for call in event.get_function_calls():
            transcript.add_call(call.id, call.name, call.args or {})
        for response in event.get_function_responses():
            result = response.response or {}
            transcript.add_result(response.id, result, result.get("error"))
        transcript.add_text("assistant", _join_texts(event.content))
    return memory.report({"messages": transcript.messages}, succeeded=succeeded)


def _join_texts(content: Any) -> str:
    parts = (content.parts if content else None) or []
    return "\n".join(part.text for part in parts if part.text and not part.thought)
