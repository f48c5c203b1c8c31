"""Reads chat messages in OpenAI's form (`role`, `content`, `tool_calls`), one step for each message."""

from __future__ import annotations

from services.reflector.adapters.importers.json_records import Record, build_model, join_content, read_call
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.trajectory import MAX_QUERY_CHARS, MAX_TEXT_CHARS, Role, Step, ToolCall

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def read_steps(messages: list[Record]) -> tuple[Step, ...]:
    """Return one step for each message. Raise MalformedTrajectory, which names the message and the field."""
    return tuple(_read_step(index, message) for index, message in enumerate(messages))


def _read_step(index: int, message: Record) -> Step:
    role = message.get_choice("role", _ROLES)
    return build_model(
        Step,
        message.location,
        index=index,
        role=role,
        name=message.get_text("name"),
        content=join_content(message),
        tool_calls=_read_tool_calls(message),
        tool_call_id=message.get_text("tool_call_id"),
    )


def _read_tool_calls(message: Record) -> tuple[ToolCall, ...]:
    calls = [
        read_call(call.get_child("function") or call, call.get_text("id"))
        for call in message.list_records("tool_calls")
    ]
    if (function := message.get_child("function_call")) is not None:
        calls.append(read_call(function))
    return tuple(calls)


def find_query(record: Record, steps: tuple[Step, ...], field: str = "query") -> str:
    """Return the question: the record's `field`, else the first message of a user, else the first message.

    Raise MalformedTrajectory if there is none.
    """
    messages = [step for step in steps if step.content.strip()]
    first = next((step for step in messages if step.role == "user"), messages[0] if messages else None)
    query = record.get_text(field) or (first.content[:MAX_QUERY_CHARS] if first is not None else "")
    if not query.strip():
        raise MalformedTrajectory(record.build_path(field), query, "is empty, and no step has a message")
    return query


def find_last_answer(steps: tuple[Step, ...]) -> str:
    """Return the last message of an agent, empty if there is none."""
    messages = (step.content for step in reversed(steps) if step.role == "assistant" and step.content.strip())
    return next(messages, "")[:MAX_TEXT_CHARS]
