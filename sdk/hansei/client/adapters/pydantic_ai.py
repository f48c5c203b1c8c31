"""Pydantic AI with a memory: a capability that adds lessons to the instructions and checks tool calls.

    memory = AgentMemory(client, "devtools")
    agent = Agent(model, capabilities=[PlaybookCapability(memory)])
    result = agent.run_sync(task)
    report(memory, result, succeeded=True)

Requires the extra `pydantic-ai`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("pydantic-ai", "pydantic_ai"):
    from pydantic_ai import RunContext, SkipToolExecution
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import ToolDefinition


class PlaybookCapability(AbstractCapability[Any]):
    """Give an agent the lessons for its prompt, and refuse tool calls that the memory refuses."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory

    def get_instructions(self) -> Callable[[RunContext[Any]], Awaitable[str]]:
        """Return the function that recalls the lessons for the prompt of a run."""

        async def recall(context: RunContext[Any]) -> str:
            return await self._memory.recall_async(context.prompt if isinstance(context.prompt, str) else "")

        return recall

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        """Return the arguments of an allowed call; a refused one has the lesson as its result."""
        verdict = await self._memory.check_async(call.tool_name, args)
        if not verdict.is_allowed:
            raise SkipToolExecution(verdict.refusal)
        return args


def report(memory: AgentMemory, result: AgentRunResult[Any], *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from it."""
    return memory.report({"messages": json.loads(result.all_messages_json())}, succeeded=succeeded)
