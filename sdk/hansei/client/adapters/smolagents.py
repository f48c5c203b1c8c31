"""smolagents with a memory: lessons as instructions, tools whose calls are checked.

    memory = AgentMemory(client, "devtools")
    agent = CodeAgent(tools=guard_tools(memory, tools), model=model, instructions=memory.recall(task))
    agent.run(task)
    report(memory, agent, succeeded=True)

Requires the extra `smolagents`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("smolagents", "smolagents"):
    from smolagents import MultiStepAgent, Tool


def guard_tools(memory: AgentMemory, tools: Sequence[Tool]) -> list[Tool]:
    """Return copies of the tools; a call that the memory refuses fails with the lesson, which the agent reads."""
    return [_guard(memory, tool) for tool in tools]


def report(memory: AgentMemory, agent: MultiStepAgent, *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from the steps of the agent."""
    return memory.report(agent.memory.get_succinct_steps(), succeeded=succeeded)


def _guard(memory: AgentMemory, tool: Tool) -> Tool:
    guarded = copy.copy(tool)
    forward = tool.forward
    names = list(tool.inputs)

    def checked_forward(*values: Any, **arguments: Any) -> Any:
        named: Mapping[str, Any] = {**dict(zip(names, values, strict=False)), **arguments}
        verdict = memory.check(tool.name, named)
        if not verdict.is_allowed:
            raise ValueError(verdict.text)
        return forward(*values, **arguments)

    guarded.forward = checked_forward
    return guarded
