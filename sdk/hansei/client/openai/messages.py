"""Convert messages of OpenAI, which are mappings or objects of its client, to recorded messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hansei.client.recording import RecordedCall, RecordedMessage, Role

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def recorded_message(message: Any) -> RecordedMessage:
    """Return the recorded form of a message."""
    calls = tuple(_recorded_call(call) for call in field(message, "tool_calls") or ())
    role = _ROLES.get(field(message, "role") or "", "user")
    call_id = field(message, "tool_call_id") or ""
    return RecordedMessage(role, _text(field(message, "content")), field(message, "name") or "", calls, call_id)


def _recorded_call(call: Any) -> RecordedCall:
    function = field(call, "function") or field(call, "custom") or {}
    arguments = field(function, "arguments") or field(function, "input") or ""
    return RecordedCall(
        field(call, "id") or "",
        field(function, "name") or "tool",
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
    )


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(field(part, "text") or "" for part in content)


def field(value: Any, name: str) -> Any:
    """Return a field of a mapping or an object; None if it has none of that name."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
