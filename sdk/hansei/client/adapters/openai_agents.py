"""OpenAI Agents SDK with a memory: lessons in the instructions of each model call, a guardrail for tools.

    memory = AgentMemory(client, "devtools")
    agent = Agent(name="Solver", tools=guard_tools(memory, tools))
    result = await Runner.run(agent, task, run_config=build_run_config(memory))
    report(memory, result, succeeded=True)

Requires the extra `openai-agents`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chassis.json_texts import parse_shallow_json
from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("openai-agents", "agents"):
    from agents import FunctionTool, RunConfig, RunResult, ToolGuardrailFunctionOutput, ToolInputGuardrail
    from agents.run import CallModelData, ModelInputData


def build_run_config(memory: AgentMemory, config: RunConfig | None = None) -> RunConfig:
    """Return the configuration of a run whose model calls get the lessons for the task."""

    async def add_lessons(call: CallModelData[Any]) -> ModelInputData:
        data = call.model_data
        text = await memory.recall_async(_find_task(data.input))
        parts = [part for part in (data.instructions, text) if part]
        return ModelInputData(input=data.input, instructions="\n\n".join(parts) or None)

    return replace(config or RunConfig(), call_model_input_filter=add_lessons)


def guard_tools(memory: AgentMemory, tools: Sequence[FunctionTool]) -> list[Any]:
    """Return the tools with a guardrail: a call that the memory refuses is answered with the lesson."""

    async def check(data: Any) -> ToolGuardrailFunctionOutput:
        try:
            arguments = parse_shallow_json(data.context.tool_arguments or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):  # the tool itself refuses them, with a result that the model reads
            return ToolGuardrailFunctionOutput.allow()
        verdict = await memory.check_async(data.context.tool_name, arguments)
        if verdict.is_allowed:
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content(verdict.refusal)

    guardrail: ToolInputGuardrail[Any] = ToolInputGuardrail(guardrail_function=check, name="hansei")
    return [replace(tool, tool_input_guardrails=[*(tool.tool_input_guardrails or []), guardrail]) for tool in tools]


def report(memory: AgentMemory, result: RunResult, *, succeeded: bool) -> LearnResponse | None:
    """Report the outcome of a task, and learn from it."""
    return memory.report({"items": result.to_input_list()}, succeeded=succeeded)


def _find_task(items: Sequence[Any]) -> str:
    """Return the first message of the user."""
    messages = (item["content"] for item in items if isinstance(item, dict) and item.get("role") == "user")
    content = next(messages, "")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
