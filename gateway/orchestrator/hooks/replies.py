"""The replies of hooks, in the JSON that each agent expects. An empty object changes nothing at the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chassis.targets.guard import CallDecision
from gateway.orchestrator.hooks.events import Agent, HookEvent, Moment

Reply = Mapping[str, Any]

_PERMISSIONS = {CallDecision.ASK: "ask", CallDecision.DENY: "deny"}


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """The decision about a call, and the text of the lessons behind it."""

    decision: CallDecision = CallDecision.ALLOW
    text: str = ""


def build_context_reply(event: HookEvent, text: str) -> Reply:
    """Return the reply that adds a text to the context of the model."""
    if not text:
        return _build_empty_reply(event)
    if event.agent is Agent.CURSOR:
        return {**_build_empty_reply(event), "additional_context": text}
    return _wrap(event, {"additionalContext": text})


def build_verdict_reply(event: HookEvent, verdict: HookVerdict) -> Reply:
    """Return the reply of Claude Code with a verdict. An allowed call gets none: the agent's own permissions apply."""
    if verdict.decision is CallDecision.ALLOW:
        return {}
    if verdict.decision is CallDecision.ADVISE:
        return build_context_reply(event, verdict.text)
    permission = _PERMISSIONS[verdict.decision]
    return _wrap(event, {"permissionDecision": permission, "permissionDecisionReason": verdict.text})


def _build_empty_reply(event: HookEvent) -> Reply:
    is_prompt_of_cursor = event.agent is Agent.CURSOR and event.moment is Moment.PROMPT
    return {"continue": True} if is_prompt_of_cursor else {}


def _wrap(event: HookEvent, fields: Mapping[str, str]) -> Reply:
    return {"hookSpecificOutput": {"hookEventName": event.name, **fields}}
