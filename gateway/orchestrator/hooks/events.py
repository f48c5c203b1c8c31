"""The events for which coding agents call hooks, read from the JSON of each agent.

Sources: https://code.claude.com/docs/en/hooks; https://github.com/openai/codex, codex-rs/hooks/schema/generated;
https://cursor.com/docs/hooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from chassis.errors import InvalidArgument, Violation

MAX_QUERY_CHARS = 4_000
"""The characters of a prompt that are used as the query: the beginning of a prompt describes the task."""
MAX_SESSION_CHARS = 256


class Agent(Enum):
    """An agent that calls hooks; the value is its name in the path of the endpoint."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"


class Moment(Enum):
    """The moments of a session at which an agent calls its hook."""

    SESSION_START = "session start"
    PROMPT = "prompt"
    TOOL_CALL = "tool call"
    TOOL_RESULT = "tool result"
    OTHER = "other"


_MOMENTS: Mapping[str, Moment] = {
    "SessionStart": Moment.SESSION_START,
    "sessionStart": Moment.SESSION_START,
    "UserPromptSubmit": Moment.PROMPT,
    "beforeSubmitPrompt": Moment.PROMPT,
    "PreToolUse": Moment.TOOL_CALL,
    "preToolUse": Moment.TOOL_CALL,
    "PostToolUse": Moment.TOOL_RESULT,
    "PostToolUseFailure": Moment.TOOL_RESULT,
}
_FORGETS_CONTEXT = ("compact", "clear")
"""Values of `source` after which the agent no longer has the texts that hooks added before."""


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event of an agent's session."""

    agent: Agent
    name: str
    """The name that the agent gives it; the reply repeats it."""
    moment: Moment
    session_id: str
    query: str = ""
    """The text to search for; empty if there is nothing to ask for."""
    forgets_context: bool = False
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    has_failed: bool = False
    """True if the call of the result failed."""


def read_event(agent: Agent, document: Mapping[str, Any]) -> HookEvent:
    """Return the event of a hook's input. Raises InvalidArgument with field and rule."""
    name = _read_text(document, "hook_event_name")
    moment = _MOMENTS.get(name, Moment.OTHER)
    session_field = "session_id" if document.get("session_id") or agent is not Agent.CURSOR else "conversation_id"
    session = _read_text(document, session_field)[:MAX_SESSION_CHARS]
    if moment is Moment.SESSION_START:
        source = document.get("source")
        return HookEvent(
            agent, name, moment, session, _describe_project(document), forgets_context=source in _FORGETS_CONTEXT
        )
    if moment is Moment.PROMPT:
        prompt = _read_text(document, "prompt", may_be_empty=True).strip()
        return HookEvent(agent, name, moment, session, prompt[:MAX_QUERY_CHARS])
    if moment in (Moment.TOOL_CALL, Moment.TOOL_RESULT):
        arguments = document.get("tool_input")
        if not isinstance(arguments, dict):
            raise _build_error("tool_input", "must be an object")
        return HookEvent(
            agent,
            name,
            moment,
            session,
            tool=_read_text(document, "tool_name"),
            arguments=arguments,
            result=document.get("tool_response", document.get("error")),
            has_failed=name == "PostToolUseFailure",
        )
    return HookEvent(agent, name, moment, session)


def _describe_project(document: Mapping[str, Any]) -> str:
    """Return the query of a session before its first prompt: the name of the folder in which the agent works."""
    roots = document.get("workspace_roots")
    folder = document.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "")
    if not isinstance(folder, str):
        raise _build_error("cwd", "must be text")
    path = PureWindowsPath(folder) if "\\" in folder else PurePosixPath(folder)
    return f"Work on {path.name}" if path.name else ""


def _read_text(document: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> str:
    value = document.get(name)
    if not isinstance(value, str) or (not value.strip() and not may_be_empty):
        raise _build_error(name, "must be text that is not empty" if not may_be_empty else "must be text")
    return value.encode("utf-8", "replace").decode("utf-8")


def _build_error(name: str, rule: str) -> InvalidArgument:
    return InvalidArgument(f"{name} {rule}", violations=[Violation(name, rule)])
