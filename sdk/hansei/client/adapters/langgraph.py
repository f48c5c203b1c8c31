"""LangChain 1 and LangGraph with a memory: a middleware that adds lessons to the system message and checks tool calls.

    memory = AgentMemory(client, "devtools")
    agent = create_agent(model, tools, middleware=[PlaybookMiddleware(memory)])
    state = agent.invoke({"messages": [("user", task)]})
    report(memory, state, succeeded=True)

Requires the extra `langgraph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory
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
        task = next((message.text for message in request.messages if isinstance(message, HumanMessage)), "")
        text = self._memory.recall(str(task))
        if not text:
            return handler(request)
        before = request.system_message.text if request.system_message else ""
        return handler(request.override(system_message=SystemMessage(f"{before}\n\n{text}".strip())))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Make an allowed call; a refused one has the lesson as its result."""
        call = request.tool_call
        verdict = self._memory.check(call["name"], call["args"])
        if verdict.is_allowed:
            return handler(request)
        return ToolMessage(verdict.text, tool_call_id=call["id"], name=call["name"], status="error")


def report(memory: AgentMemory, state: Mapping[str, Any], *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from the messages of its last state."""
    return memory.report({"messages": messages_to_dict(state["messages"])}, succeeded=succeeded)
