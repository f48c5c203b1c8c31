"""Microsoft Agent Framework with a memory: a context provider with lessons, whose middleware checks tool calls.

    memory = AgentMemory(client, "devtools")
    agent = Agent(chat_client, tools=tools, context_providers=[PlaybookProvider(memory)])
    response = await agent.run(task)
    report(memory, task, response, succeeded=True)

Requires the extra `agent-framework`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.adapters.chat_messages import ChatTranscript
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("agent-framework", "agent_framework"):
    from agent_framework import AgentResponse, ContextProvider, FunctionInvocationContext, SessionContext


class PlaybookProvider(ContextProvider):
    """Give an agent the lessons for its input, and refuse tool calls that the memory refuses."""

    def __init__(self, memory: AgentMemory) -> None:
        super().__init__("hansei")
        self._memory = memory

    async def before_run(self, *, agent: Any, session: Any, context: SessionContext, state: dict[str, Any]) -> None:
        """Add the lessons to the instructions of a run, and the check to its tools."""
        task = next((message.text for message in context.input_messages if message.role == "user"), "")
        if text := await self._memory.recall_async(task):
            context.extend_instructions(self.source_id, text)
        context.extend_middleware(self.source_id, self._check_call)

    async def _check_call(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        verdict = await self._memory.check_async(context.function.name, dict(context.arguments))
        if verdict.is_allowed:
            await call_next()
        else:
            context.result = verdict.refusal


def report(memory: AgentMemory, task: str, response: AgentResponse[Any], *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from the messages of its response."""
    transcript = ChatTranscript()
    transcript.add_text("user", task)
    for message in response.messages:
        for content in message.contents:
            if content.type == "text":
                transcript.add_text(str(message.role), content.text)
            elif content.type == "function_call":
                transcript.add_call(content.call_id, content.name, content.arguments or {})
            elif content.type == "function_result":
                transcript.add_result(content.call_id, content.result, content.exception)
    return memory.report({"messages": transcript.messages}, succeeded=succeeded)
