"""Reads Anthropic messages: `role` and `content`, a text or blocks such as `tool_use` and `tool_result`.

Source of the format: the Messages API reference, https://docs.anthropic.com/en/api/messages. One message may hold the
results of several calls, so it may become several steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.reflector.adapters.importers.json_records import Record, join_content, read_call, to_json_text
from services.reflector.adapters.importers.step_collector import StepCollector, build_recorded_trajectory, mark_as_error
from services.reflector.adapters.importers.usage import add_usages, read_usage
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_CALL, _RESULT, _THOUGHTS = "tool_use", "tool_result", ("thinking", "redacted_thinking")


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record does not hold Anthropic messages.

    A conversation without blocks is identical in OpenAI's format and is read as that.
    """
    messages = record.require_records("messages")
    blocks = (block for message in messages for block in _list_blocks(message))
    is_anthropic = record.has("system") or any(_is_anthropic_block(block) for block in blocks)
    if not is_anthropic or "role" not in messages[0].value:
        rule = "must have a block `tool_use`, `tool_result` or `thinking`, or `system` beside them"
        raise MalformedTrajectory(record.build_path("messages"), messages[0].value, rule)


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one conversation. Raise MalformedTrajectory naming message, block and field."""
    collector = StepCollector(record.location)
    if record.has("system"):
        collector.add(record.build_path("system"), "system", join_content(record, "system"))
    messages = record.list_records("messages")
    for message in messages:
        add_message(collector, message)
    answer = record.get_text("generated_answer") or collector.answer
    usage = read_usage(record.get_child("usage")) or add_usages(
        (read_usage(message.get_child("usage")) for message in messages), record.location
    )
    return build_recorded_trajectory(record, dataset, collector.steps, generated_answer=answer, usage=usage)


def add_message(collector: StepCollector, message: Record) -> None:
    """Append the steps of a message. Raise MalformedTrajectory naming message, block and field."""
    role = message.get_choice("role", _ROLES)
    blocks = _list_blocks(message)
    results = [block for block in blocks if _get_kind(block).endswith(_RESULT)]
    calls = [
        read_call(block, block.get_text("id"), arguments="input")
        for block in blocks
        if _get_kind(block).endswith(_CALL)
    ]
    text = "".join(block.get_text("text") for block in blocks) if blocks else message.get_text("content")
    thought = "\n\n".join(block.get_text("thinking") for block in blocks if _get_kind(block) in _THOUGHTS)
    if role == "user":
        _add_results(collector, results)
    if text or calls or thought or not results:
        collector.add(message.location, role, text, thought=thought, calls=calls)
    if role != "user":  # Server-side tools return their results in the message that calls them.
        _add_results(collector, results)


def _add_results(collector: StepCollector, results: Sequence[Record]) -> None:
    for block in results:
        call_id = block.get_text("tool_use_id")
        text = _format_result_text(block)
        if block.value.get("is_error") is True:
            text = mark_as_error(text)
        collector.add(block.location, "tool", text, name=collector.find_tool_name(call_id), call_id=call_id)


def _format_result_text(block: Record) -> str:
    """Return the result of a tool as text; results of server-side tools, such as pages, as JSON."""
    value = block.value.get("content")
    texts = join_content(block) if isinstance(value, str | list) else ""
    return texts or to_json_text(value)


def _list_blocks(message: Record) -> list[Record]:
    if not isinstance(message.value.get("content"), list):
        return []
    return message.list_records("content")


def _is_anthropic_block(block: Record) -> bool:
    return _get_kind(block).endswith((_CALL, _RESULT)) or _get_kind(block) in _THOUGHTS


def _get_kind(block: Record) -> str:
    return block.get_text("type")
