"""Guard the tool calls of a LangChain agent: a hook for `wrap_tool_call`.

    from langchain.agents.middleware import wrap_tool_call
    from hansei.client.langchain_guard import build_guard_hook

    guard = client.guard("devtools", "session-1")
    agent = create_agent(model, tools, middleware=[wrap_tool_call(build_guard_hook(guard))])

Requires the extra `langchain`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chassis.targets.session import ToolCallRequest
from hansei.client.extras import import_from_extra
from hansei.client.guards import CallVerdict, SessionGuard
from hansei.client.recording import describe_error

with import_from_extra("langchain", "langchain_core"):
    from langchain_core.messages import ToolMessage

ADVICE = "Not executed yet. A lesson from earlier sessions:\n{text}\nRepeat the same call if it is right all the same."
REFUSAL = "Refused because of a lesson from earlier sessions:\n{text}"
Approve = Callable[[CallVerdict, ToolCallRequest], bool]


def refuse(verdict: CallVerdict, call: ToolCallRequest) -> bool:
    """Refuse every call that a person should decide."""
    return False


def build_guard_hook(guard: SessionGuard, approve: Approve = refuse) -> Callable[[Any, Callable[[Any], Any]], Any]:
    """Return a hook that checks each tool call and reports it with its result.

    Advice is put to the agent in place of the result; if it makes the same call again, the call is made. `approve`
    asks a person about calls that need one.
    """
    advised: set[str] = set()

    def guard_call(request: Any, handler: Callable[[Any], Any]) -> Any:
        tool_call = request.tool_call
        call = ToolCallRequest(tool_call["name"], dict(tool_call.get("args") or {}))
        verdict = guard.check(call.tool, call.args)
        is_refused = verdict.decision == "deny" or (verdict.decision == "ask" and not approve(verdict, call))
        if is_refused:
            return _build_message(tool_call, REFUSAL, verdict)
        if verdict.decision == "advise" and call.key not in advised:
            advised.add(call.key)
            return _build_message(tool_call, ADVICE, verdict)
        try:
            result = handler(request)
        except Exception as error:
            guard.report(call.tool, call.args, describe_error(error), failed=True)
            raise
        content = result.content if isinstance(result, ToolMessage) else str(result)
        failed = isinstance(result, ToolMessage) and result.status == "error"
        guard.report(call.tool, call.args, content, failed=failed)
        return result

    return guard_call


def _build_message(tool_call: Any, template: str, verdict: CallVerdict) -> ToolMessage:
    content = template.format(text=verdict.text)
    return ToolMessage(content=content, name=tool_call["name"], tool_call_id=tool_call.get("id") or "", status="error")
