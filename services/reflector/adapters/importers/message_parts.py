"""Translates messages of OpenAI, LangChain and Anthropic into those of the OpenTelemetry GenAI conventions.

Traces of other programs hold them as the library behind them wrote them; as parts, one reader takes them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from services.reflector.adapters.importers.json_records import Record, join_content, to_json_text
from services.reflector.adapters.importers.otlp import Value
from services.reflector.adapters.importers.step_collector import mark_as_error
from services.reflector.domain.trajectory import Role

Message = dict[str, Value]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}


def parse_json(value: Value) -> Value:
    """Return the value of a JSON text; any other value, and any other text, unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def read_messages(value: Value, location: str, role: Role) -> list[Message]:
    """Return the messages of an input or output of a model: a list, one message, or a text of `role`.

    Raise MalformedTrajectory with message and field.
    """
    value = parse_json(value)
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value, location = value["messages"], f"{location}.messages"
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) and value[0]:
        value, location = value[0], f"{location}[0]"  # Of a batch with one conversation.
    if isinstance(value, list):
        return [_read_message(item, f"{location}[{index}]", role) for index, item in enumerate(value)]
    return [] if value is None or value == "" else [_read_message(value, location, role)]


def _read_message(value: Value, location: str, role: Role) -> Message:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value):
        value = {"role": value[0], "content": value[1]}  # A pair, as LangChain takes them.
    if not isinstance(value, dict):
        return {"role": role, "parts": [{"type": "text", "content": to_json_text(value)}]}
    outer = Record(value, location)
    message = outer.get_child("kwargs") or outer.get_child("data") or outer
    kind = message.get_text("type") or outer.get_text("type")
    if kind in ("function_call", "custom_tool_call"):
        return {"role": "assistant", "parts": [_build_call(message, "call_id", "arguments")]}
    if kind in ("function_call_output", "custom_tool_call_output"):
        return _build_result(message, "call_id", "output")
    name = message.get_text("role") or outer.get_text("role") or ("" if kind == "message" else kind)
    found = _ROLES.get(name.lower())
    if found is None and name:
        raise message.build_error("role" if message.has("role") else "type", f"must be one of {', '.join(_ROLES)}")
    if found == "tool":
        return _build_result(message, "tool_call_id", "content")
    parts = list(_read_parts(message)) if found else [{"type": "text", "content": to_json_text(value)}]
    return {"role": found or role, "parts": parts}


def _read_parts(message: Record) -> Iterator[Message]:
    content = message.value.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": message.get_text("content")}]
    for index, value in enumerate(blocks):
        if isinstance(value, str):
            yield {"type": "text", "content": value}
            continue
        block = Record(value, f"{message.location}.content[{index}]")
        if block.get_text("type") == "tool_use":
            yield _build_call(block, "id", "input")
        elif block.get_text("type") == "tool_result":
            yield _build_response(block, "tool_use_id", "content", has_failed=block.value.get("is_error") is True)
        elif block.has("thinking"):
            yield {"type": "reasoning", "content": block.get_text("thinking")}
        elif text := block.get_text("text"):
            yield {"type": "text", "content": text}
    for call in message.list_records("tool_calls"):
        function = call.get_child("function")
        if function is not None:
            yield {**_build_call(function, "id", "arguments"), "id": call.get_text("id")}
        else:
            yield _build_call(call, "id", "args" if call.has("args") else "arguments")


def _build_call(call: Record, identity: str, arguments: str) -> Message:
    return {
        "type": "tool_call",
        "id": call.get_text(identity),
        "name": call.require_name("name"),
        "arguments": to_json_text(call.value.get(arguments)),
    }


def _build_result(message: Record, identity: str, content: str) -> Message:
    has_failed = message.value.get("status") == "error"
    return {"role": "tool", "parts": [_build_response(message, identity, content, has_failed=has_failed)]}


def _build_response(message: Record, identity: str, content: str, *, has_failed: bool) -> Message:
    response = mark_as_error(join_content(message, content)) if has_failed else message.value.get(content)
    return {"type": "tool_call_response", "id": message.get_text(identity), "response": response}
