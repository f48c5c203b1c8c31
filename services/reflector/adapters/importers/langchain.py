"""Reads LangChain messages in the form of `messages_to_dict`, `dumps` and `model_dump`, one step for each message.

Source of the format: langchain_core.messages and langchain_core.load, version 1.
"""

from __future__ import annotations

from services.reflector.adapters.importers.json_records import Record, build_model, join_content, read_call
from services.reflector.adapters.importers.step_collector import build_recorded_trajectory, mark_as_error
from services.reflector.adapters.importers.usage import add_usages, read_usage
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Role, Step

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_CHUNK = "MessageChunk"


def is_message(value: object) -> bool:
    """Return whether a JSON value has the form of one message."""
    if not isinstance(value, dict) or ("role" in value and value.get("type") != "chat"):
        return False
    if "lc" in value:
        return isinstance(value.get("kwargs"), dict)
    return _get_kind(value) in {*_ROLES, "chat"} and ("data" in value or "content" in value)


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record does not hold LangChain messages."""
    for message in record.require_records("messages"):
        if not is_message(message.value):
            rule = f"must be a `type` of {', '.join(_ROLES)} with `data` or `content`, or a constructor (`lc`)"
            raise message.build_error("type", rule)


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one conversation. Raise MalformedTrajectory naming message and field."""
    messages = record.list_records("messages")
    steps = tuple(_read_step(index, message) for index, message in enumerate(messages))
    usages = (read_usage(_get_body(message).get_child("usage_metadata")) for message in messages)
    return build_recorded_trajectory(record, dataset, steps, usage=add_usages(usages, record.location))


def _read_step(index: int, message: Record) -> Step:
    body = _get_body(message)
    kind = _get_kind(body.value) or _get_kind(message.value)
    role = _ROLES.get(body.get_text("role") if kind == "chat" else kind)
    if role is None:
        raise MalformedTrajectory(body.build_path("type"), kind, f"must be one of {', '.join(_ROLES)}")
    text = join_content(body)
    return build_model(
        Step,
        message.location,
        index=index,
        role=role,
        name=body.get_text("name"),
        content=mark_as_error(text) if role == "tool" and body.value.get("status") == "error" else text,
        # Invalid calls are calls of the agent too.
        tool_calls=tuple(
            read_call(call, call.get_text("id"), arguments="args")
            for name in ("tool_calls", "invalid_tool_calls")
            for call in body.list_records(name)
        ),
        tool_call_id=body.get_text("tool_call_id"),
    )


def _get_body(message: Record) -> Record:
    return message.get_child("data") or message.get_child("kwargs") or message


def _get_kind(value: dict[str, object]) -> str:
    kind = value.get("type")
    return kind.removesuffix(_CHUNK).lower() if isinstance(kind, str) else ""
