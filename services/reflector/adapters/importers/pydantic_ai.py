"""Reads messages of Pydantic AI as `all_messages_json` writes them: requests and responses of parts.

Source of the format: https://github.com/pydantic/pydantic-ai, pydantic_ai_slim/pydantic_ai/messages.py.
"""

from __future__ import annotations

from services.reflector.adapters.importers.json_records import Record, join_content, read_call, to_json_text
from services.reflector.adapters.importers.step_collector import StepCollector, build_recorded_trajectory, mark_as_error
from services.reflector.adapters.importers.usage import add_usages, read_usage
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Role

_KINDS = ("request", "response")
_PROMPTS: dict[str, Role] = {"system-prompt": "system", "user-prompt": "user"}


def is_message(value: object) -> bool:
    """Return whether a JSON value is a message of this kind."""
    return isinstance(value, dict) and value.get("kind") in _KINDS and isinstance(value.get("parts"), list)


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no conversation in this format."""
    first = record.require_records("messages")[0]
    if not is_message(first.value):
        raise MalformedTrajectory(first.location, first.value, "must have `parts`, and `kind` request or response")


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one conversation. Raise MalformedTrajectory naming message, part and field."""
    collector = StepCollector(record.location)
    messages = record.list_records("messages")
    for message in messages:
        if message.value.get("kind") not in _KINDS:
            raise message.build_error("kind", "must be request or response")
        if message.get_text("kind") == "request":
            for part in message.list_records("parts"):
                _add_request_part(collector, part)
        else:
            _add_response(collector, message)
    answer = record.get_text("generated_answer") or collector.answer
    usage = add_usages((read_usage(message.get_child("usage")) for message in messages), record.location)
    return build_recorded_trajectory(record, dataset, collector.steps, generated_answer=answer, usage=usage)


def _add_request_part(collector: StepCollector, part: Record) -> None:
    kind = part.get_text("part_kind")
    if kind in _PROMPTS:
        collector.add(part.location, _PROMPTS[kind], join_content(part))
    elif kind.endswith("tool-return") or (kind == "retry-prompt" and part.has("tool_name")):
        _add_result(collector, part)
    elif kind in ("retry-prompt", "retry-feedback"):
        collector.add(part.location, "user", mark_as_error(_format_content(part)))


def _add_response(collector: StepCollector, message: Record) -> None:
    parts = [(part.get_text("part_kind"), part) for part in message.list_records("parts")]
    collector.add(
        message.location,
        "assistant",
        "".join(part.get_text("content") for kind, part in parts if kind == "text"),
        thought="\n\n".join(part.get_text("content") for kind, part in parts if kind == "thinking"),
        calls=[
            read_call(part, part.get_text("tool_call_id"), name="tool_name", arguments="args")
            for kind, part in parts
            if kind.endswith("tool-call")
        ],
    )
    for kind, part in parts:
        if kind.endswith("tool-return"):  # Of a tool of the provider.
            _add_result(collector, part)


def _add_result(collector: StepCollector, part: Record) -> None:
    has_failed = part.get_text("part_kind") == "retry-prompt" or part.get_text("outcome", "success") != "success"
    text = mark_as_error(_format_content(part)) if has_failed else _format_content(part)
    collector.add(part.location, "tool", text, name=part.get_text("tool_name"), call_id=part.get_text("tool_call_id"))


def _format_content(part: Record) -> str:
    return to_json_text(part.value.get("content"))
