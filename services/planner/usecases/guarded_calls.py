"""Check each tool call by guards before it is made: advise, hold it for a person, or refuse it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from chassis.targets.guard import CallDecision
from chassis.targets.session import ToolCallRequest
from services.planner.domain.results import HeldCall, ToolResult, build_failed_result
from services.planner.domain.texts import TEXTS
from services.planner.domain.tools import ToolInput
from services.planner.usecases.calls import MAX_OUTPUT_CHARS, call_tool
from services.planner.usecases.ports import CallChecks, LessonVerdict, PlannedCall, Tool


class UncheckedCalls:
    """Allows every call."""

    async def check(self, call: PlannedCall) -> LessonVerdict:
        """Return that nothing stands against the call."""
        return LessonVerdict()

    async def report(self, call: PlannedCall, result: ToolResult) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class GuardedToolCalls:
    """Makes the tool calls of executions, those that guards allow."""

    checks: CallChecks = field(default_factory=UncheckedCalls)
    max_output_chars: int = MAX_OUTPUT_CHARS

    async def run(self, tool: Tool, tool_input: ToolInput, advised: set[str] | None = None) -> ToolResult:
        """Return the result of a call. Raises nothing but CancelledError.

        A lesson that advises is part of the context of the call, and of its result. With `advised`, the keys of the
        calls that an agent was advised about, the first such call is not made: the agent gets the lesson instead.
        """
        if tool_input.is_out_of_scope:
            return await call_tool(tool, tool_input)
        request = ToolCallRequest(tool.name, _build_arguments(tool, tool_input))
        call = PlannedCall(tool_input.execution_id, tool_input.key, tool_input.prefix, request, tool_input.texts)
        verdict = await self.checks.check(call)
        texts = TEXTS[tool_input.language]
        if verdict.decision is CallDecision.DENY:
            return build_failed_result(texts.refused.format(tool=tool.name, lesson=verdict.lesson))
        if verdict.decision is CallDecision.ASK and request.key not in tool_input.approved_calls:
            held_call = HeldCall(tool=tool.name, call_key=request.key, lesson=verdict.lesson)
            return build_failed_result(verdict.lesson).model_copy(update={"held_call": held_call})
        advice: tuple[str, ...] = ()
        if verdict.decision is CallDecision.ADVISE and (advised is None or request.key not in advised):
            advice = (texts.advice.format(tool=tool.name, lesson=verdict.lesson),)
            if advised is not None:
                advised.add(request.key)
                message = texts.advised_first.format(lesson=verdict.lesson)
                return build_failed_result(message).model_copy(update={"advice": advice})
            tool_input = replace(tool_input, context=(*tool_input.context, (texts.lesson, verdict.lesson)))
        result = await call_tool(tool, tool_input, max_output_chars=self.max_output_chars)
        await self.checks.report(call, result)
        return result.model_copy(update={"advice": (*advice, *result.advice)}) if advice else result


def _build_arguments(tool: Tool, tool_input: ToolInput) -> dict[str, Any]:
    """Return the arguments of a call as guards see them: those that the tool sends, else query and collection."""
    build = getattr(tool, "build_arguments", None)
    if build is not None:
        try:
            return dict(build(tool_input.query))
        except ValueError:  # The call itself reports the faulty query.
            return {"query": tool_input.query}
    arguments = {"query": tool_input.query}
    return arguments if tool_input.collection is None else {**arguments, "collection": tool_input.collection}
