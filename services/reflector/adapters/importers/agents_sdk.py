"""Reads traces of OpenAI's Agents SDK: the objects that its exporters get, each trace is one trajectory.

Source of the format: https://github.com/openai/openai-agents-python, src/agents/tracing (spans.py, span_data.py). A
span of a model that was called over the Responses API has only the id of the response; write the items instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from services.reflector.adapters.importers import otel
from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.message_parts import read_messages
from services.reflector.adapters.importers.otlp import Span, Value
from services.reflector.adapters.importers.span_usage import encode_usage
from services.reflector.adapters.importers.trace_records import (
    build_agent,
    build_model_call,
    build_tool_call,
    read_nanoseconds,
)
from services.reflector.adapters.importers.usage import read_usage
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory

_TRACE, _SPAN = "trace", "trace.span"


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is neither a trace nor a span."""
    if record.value.get("object") not in (_TRACE, _SPAN):
        raise record.build_error("object", f"must be {_TRACE} or {_SPAN}")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of each trace. Raise MalformedTrajectory with the span and its field."""
    traces: dict[str, list[Span]] = {}
    without_contents: dict[str, Record] = {}
    for record in records:
        check_format(record)
        if record.get_text("object") == _SPAN:
            span = _read_span(record)
            traces.setdefault(span.trace, []).append(span)
            if (record.get_child("span_data") or record).get_text("type") == "response":
                without_contents.setdefault(span.trace, record)
    for trace, spans in traces.items():
        if any(otel.has_messages(span) for span in spans):
            yield otel.read_trace(trace, _raise_errors(spans), dataset)
        elif trace in without_contents:
            rule = "has no contents: the SDK exports only the id of the response; write result.to_input_list() instead"
            raise MalformedTrajectory(without_contents[trace].location, trace, rule)


def _raise_errors(spans: Sequence[Span]) -> list[Span]:
    """Return the spans with the error of an agent at the roots too: the SDK leaves it at the agent."""
    error = next(
        (span.error for span in spans if span.get_text("gen_ai.operation.name") == "invoke_agent" and span.error), None
    )
    return [replace(span, error=error) if error and not span.parent else span for span in spans]


def _read_span(record: Record) -> Span:
    error = record.get_child("error")
    return Span(
        location=record.location,
        trace=record.require_text("trace_id", "must name the trace"),
        id=record.require_text("id", "must name the span"),
        parent=record.get_text("parent_id"),
        start=read_nanoseconds(record, "started_at"),
        attributes=_read_attributes(record),
        error=(error.get_text("message") or "failed") if error else None,
    )


def _read_attributes(record: Record) -> dict[str, Value]:
    data = record.get_child("span_data")
    if data is None:
        raise record.build_error("span_data", "must be an object")
    kind = data.get_text("type")
    if kind in ("generation", "response"):
        call = build_model_call(
            read_messages(data.value.get("input"), data.build_path("input"), "user"),
            read_messages(data.value.get("output"), data.build_path("output"), "assistant"),
        )
        return {**call, **encode_usage(read_usage(data.get_child("usage")))}
    if kind == "function":
        return build_tool_call(data.get_text("name"), "", data.value.get("input"), data.value.get("output"))
    return build_agent(data.get_text("name"), [], []) if kind == "agent" else {}
