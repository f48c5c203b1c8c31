"""Convert messages of OpenAI, which are mappings or objects of its client, to recorded messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chassis.json_texts import format_as_text
from hansei.client.recording import RecordedCall, RecordedMessage, Role

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def record_message(message: Any) -> RecordedMessage:
    """Return the recorded form of a message."""
    calls = tuple(_record_call(call) for call in read_field(message, "tool_calls") or ())
    role = _ROLES.get(read_field(message, "role") or "", "user")
    call_id = read_field(message, "tool_call_id") or ""
    return RecordedMessage(
        role, _format_text(read_field(message, "content")), read_field(message, "name") or "", calls, call_id
    )


def _record_call(call: Any) -> RecordedCall:
    function = read_field(call, "function") or read_field(call, "custom") or {}
    arguments = read_field(function, "arguments") or read_field(function, "input") or ""
    return RecordedCall(read_field(call, "id") or "", read_field(function, "name") or "tool", format_as_text(arguments))


def _format_text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(read_field(part, "text") or "" for part in content)


def read_field(value: Any, name: str) -> Any:
    """Return a field of a mapping or an object; None if it has none of that name."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
