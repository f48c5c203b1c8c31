"""Microsoft Agent Framework with a memory: a context provider with lessons, whose middleware checks tool calls.

    memory = AgentMemory(client, "devtools")
    agent = Agent(chat_client, tools=tools, context_providers=[PlaybookProvider(memory)])
    response = await agent.run(task)
    report(memory, task, response, succeeded=True)

Requires the extra `agent-framework`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.adapters.chat_messages import build_call, build_result, build_text
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("agent-framework", "agent_framework"):
    from agent_framework import (
        AgentResponse,
        ContextProvider,
        FunctionInvocationContext,
        FunctionMiddleware,
        Message,
        SessionContext,
    )


class PlaybookProvider(ContextProvider):
    """Give an agent the lessons for its input, and refuse tool calls that the memory refuses."""

    def __init__(self, memory: AgentMemory) -> None:
        super().__init__("hansei")
        self._memory = memory

    async def before_run(self, *, agent: Any, session: Any, context: SessionContext, state: dict[str, Any]) -> None:
        """Add the lessons to the instructions of a run, and the check to its tools."""
        task = next((message.text for message in context.input_messages if message.role == "user"), "")
        text = await asyncio.to_thread(self._memory.recall, task)
        if text:
            context.extend_instructions(self.source_id, text)
        context.extend_middleware(self.source_id, _CallCheck(self._memory))


class _CallCheck(FunctionMiddleware):
    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Make an allowed call; a refused one has the lesson as its result."""
        arguments = context.arguments
        values = arguments if isinstance(arguments, dict) else dict(arguments)
        verdict = await asyncio.to_thread(self._memory.check, context.function.name, values)
        if verdict.is_allowed:
            await call_next()
        else:
            context.result = f"Error: {verdict.text}"


def report(memory: AgentMemory, task: str, response: AgentResponse[Any], *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from the messages of its response."""
    names: dict[str, str] = {}
    messages = [build_text("user", task)]
    for message in response.messages:
        messages.extend(_convert(message, names))
    return memory.report({"messages": messages}, succeeded=succeeded)


def _convert(message: Message, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the texts, calls and results of a message; `names` are the tools of the calls so far."""
    for content in message.contents:
        call_id = content.call_id or ""
        if content.type == "text" and content.text:
            yield build_text(str(message.role), content.text)
        elif content.type == "function_call":
            names[call_id] = content.name or ""
            yield build_call(call_id, names[call_id], content.arguments or {})
        elif content.type == "function_result":
            error = content.exception
            result = content.result if error is None else f"{error}"
            yield build_result(call_id, names.get(call_id, ""), result, has_failed=error is not None)
