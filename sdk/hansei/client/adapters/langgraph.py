"""LangChain 1 and LangGraph with a memory: a middleware that adds lessons to the system message and checks tool calls.

    memory = AgentMemory(client, "devtools")
    agent = create_agent(model, tools, middleware=[PlaybookMiddleware(memory)])
    state = agent.invoke({"messages": [("user", task)]})  # or await agent.ainvoke(…)
    report(memory, state, succeeded=True)

Requires the extra `langgraph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory, ToolVerdict
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("langgraph", "langchain", "langchain_core"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.messages import HumanMessage, SystemMessage, ToolMessage
    from langchain_core.messages import messages_to_dict


class PlaybookMiddleware(AgentMiddleware[Any, Any]):
    """Give an agent the lessons for its first human message, and refuse tool calls that the memory refuses."""

    def __init__(self, memory: AgentMemory) -> None:
        super().__init__()
        self._memory = memory

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse]) -> Any:
        """Call the model with the lessons in its system message."""
        return handler(_add_lessons(request, self._memory.recall(_find_task(request))))

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Call the model like `wrap_model_call`, in a graph that is run with `ainvoke` or `astream`."""
        return await handler(_add_lessons(request, await self._memory.recall_async(_find_task(request))))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Make an allowed call; a refused one has the lesson as its result."""
        call = request.tool_call
        verdict = self._memory.check(call["name"], call["args"])
        return handler(request) if verdict.is_allowed else _build_refusal(call, verdict)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Make an allowed call like `wrap_tool_call`, in a graph that is run with `ainvoke` or `astream`."""
        call = request.tool_call
        verdict = await self._memory.check_async(call["name"], call["args"])
        return await handler(request) if verdict.is_allowed else _build_refusal(call, verdict)


def report(memory: AgentMemory, state: Mapping[str, Any], *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from the messages of its last state."""
    return memory.report({"messages": messages_to_dict(state["messages"])}, succeeded=succeeded)


def _find_task(request: ModelRequest[Any]) -> str:
    """Return the first human message."""
    return str(next((message.text for message in request.messages if isinstance(message, HumanMessage)), ""))


def _add_lessons(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    if not text:
        return request
    before = request.system_message.text if request.system_message else ""
    return request.override(system_message=SystemMessage(f"{before}\n\n{text}".strip()))


def _build_refusal(call: Mapping[str, Any], verdict: ToolVerdict) -> ToolMessage:
    return ToolMessage(verdict.text, tool_call_id=call["id"], name=call["name"], status="error")
