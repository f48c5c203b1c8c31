"""Builds spans of the GenAI conventions from the traces of other programs, so that one reader takes them all."""

from __future__ import annotations

from datetime import UTC, datetime

from services.reflector.adapters.importers.json_records import Record, to_json_text
from services.reflector.adapters.importers.message_parts import Message
from services.reflector.adapters.importers.otlp import Value

_OPERATION = "gen_ai.operation.name"


def build_model_call(inputs: list[Message], outputs: list[Message]) -> dict[str, Value]:
    """Return the attributes of a call of a model."""
    return {_OPERATION: "chat", "gen_ai.input.messages": inputs, "gen_ai.output.messages": outputs}


def build_agent(name: str, inputs: list[Message], outputs: list[Message]) -> dict[str, Value]:
    """Return the attributes of an agent; its messages count only if no call of a model has any."""
    return {**build_model_call(inputs, outputs), _OPERATION: "invoke_agent", "gen_ai.agent.name": name}


def build_tool_call(name: str, call_id: str, arguments: Value, result: Value) -> dict[str, Value]:
    """Return the attributes of a call of a tool."""
    return {
        _OPERATION: "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": to_json_text(arguments),
        "gen_ai.tool.call.result": to_json_text(result),
    }


def read_nanoseconds(record: Record, name: str) -> int:
    """Return a time in ISO 8601 as nanoseconds since 1970. Raise MalformedTrajectory with the field."""
    try:
        moment = datetime.fromisoformat(record.require_text(name, "must be a time in ISO 8601"))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1e6) * 1_000
    except (ValueError, OverflowError, OSError) as error:
        raise record.build_error(name, "must be a time in ISO 8601") from error
