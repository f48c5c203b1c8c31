"""Check the tool calls of coding agents by the guards of a playbook."""

from __future__ import annotations

import uuid
from typing import Any

from starlette.requests import Request

from chassis.errors import HanseiError, InvalidArgument
from chassis.logging import get_logger
from chassis.targets.guard import CallDecision
from chassis.targets.session import encode_arguments, shorten_result
from gateway.http.calls import ContractCalls
from gateway.orchestrator.hooks.events import Agent, HookEvent
from gateway.orchestrator.hooks.replies import HookVerdict
from hansei.evidence.v1 import guard_service_pb2 as guards

_METHODS = guards.DESCRIPTOR.services_by_name["GuardService"].methods_by_name

_log = get_logger(__name__)


class GuardedCalls:
    """Checks the calls of Claude Code by GuardService; a failure of it does not stop the agent.

    Other agents do not say whether a call succeeded. Guards need that, so the calls of those agents are allowed.
    """

    def __init__(self, calls: ContractCalls) -> None:
        self._calls = calls

    async def check(self, request: Request, dataset: str, event: HookEvent) -> HookVerdict:
        """Return the verdict; a call with too long arguments, or while the guards cannot be asked, is allowed.

        Raises InvalidArgument.
        """
        call = _encode_call(event)
        if call is None or event.agent is not Agent.CLAUDE_CODE:
            return HookVerdict()
        message = guards.CheckCallRequest(dataset=dataset, session_id=event.session_id, call=call)
        try:
            response = await self._calls.unary(_METHODS["CheckCall"], request, message)
        except InvalidArgument:
            raise
        except HanseiError as error:
            _log.warning("tool call was not checked; it is allowed", dataset=dataset, error=str(error))
            return HookVerdict()
        checked = guards.CheckCallResponse.FromString(response)
        texts = [match.text for match in checked.matches if not match.is_withheld]
        decision = CallDecision(checked.decision)
        return HookVerdict(decision, "\n".join(texts) if decision is not CallDecision.ALLOW else "")

    async def report(self, request: Request, dataset: str, event: HookEvent) -> None:
        """Add the prompt or the result of an event to its session, as far as guards need it."""
        if event.agent is not Agent.CLAUDE_CODE:
            return
        message = guards.ReportCallRequest(
            request_id=str(uuid.uuid4()), dataset=dataset, session_id=event.session_id, failed=event.has_failed
        )
        if event.query:
            message.messages.add(text=event.query)
        elif (call := _encode_call(event)) is not None:
            message.call.CopyFrom(call)
            message.result = _format_result(event.result)
        else:
            return
        try:
            await self._calls.unary(_METHODS["ReportCall"], request, message)
        except HanseiError as error:
            _log.warning("event of a session was not reported to the guards", dataset=dataset, error=str(error))


def _encode_call(event: HookEvent) -> guards.GuardedCall | None:
    """Return the call of an event; None if its arguments are too long to be checked."""
    arguments = encode_arguments(event.arguments)
    if not event.tool or not arguments:
        return None
    return guards.GuardedCall(tool=event.tool[:256], arguments=arguments)


def _format_result(result: Any) -> str:
    return shorten_result(result).encode("utf-8", "replace").decode("utf-8")
