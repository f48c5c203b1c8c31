"""Chat messages in OpenAI's form, for frameworks without a format of their own that the reflector reads."""

from __future__ import annotations

import json
from typing import Any

from hansei.client.recording import format_error


def build_text(role: str, text: str) -> dict[str, Any]:
    """Return a message of a person, of the system or of the agent."""
    return {"role": role, "content": text}


def build_call(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    """Return the message of an agent that calls a tool; `arguments` are JSON, or a value that is encoded."""
    encoded = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return {"role": "assistant", "tool_calls": [{"id": call_id, "function": {"name": name, "arguments": encoded}}]}


def build_result(call_id: str, name: str, result: object, *, has_failed: bool = False) -> dict[str, Any]:
    """Return the message with the result of a tool call."""
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    content = format_error(text) if has_failed else text
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}
