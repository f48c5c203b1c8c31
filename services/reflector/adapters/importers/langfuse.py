"""Reads observations of Langfuse with their scores: each trace is one trajectory.

Source of the format: https://github.com/langfuse/langfuse-python, langfuse/api (ObservationV2, ScoreV3, and the trace
with its observations). A file is a response of the API, a trace with `observations`, or one object a line. Inputs and
outputs may be JSON texts. The outcome is a score, else an error of the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from services.reflector.adapters.importers import otel
from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.message_parts import read_messages
from services.reflector.adapters.importers.otlp import Span, Value
from services.reflector.adapters.importers.scores import Score, choose_outcome
from services.reflector.adapters.importers.span_usage import encode_usage
from services.reflector.adapters.importers.trace_records import (
    build_agent,
    build_model_call,
    build_tool_call,
    read_nanoseconds,
    require_text,
)
from services.reflector.adapters.importers.usage import build_usage, read_cost, read_tokens
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.usage import TrajectoryUsage

_CACHED = re.compile("input.*cached|cache_read.*input")
"""Names of tokens that were read from a cache; of those written to it the name is `cache_creation_input_tokens`."""
_MODELS = ("GENERATION",)
_TOOLS = ("TOOL",)
_AGENTS = ("AGENT", "CHAIN", "SPAN")


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no observation, score, trace or response."""
    if record.has("observations") or _is_score(record) or (record.has("data") and record.has("meta")):
        return
    for name in ("type", "traceId", "startTime"):
        if not isinstance(record.value.get(name), str):
            raise record.error(name, "must be text: an observation of Langfuse has it")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of each trace. Raise MalformedTrajectory with the observation and its field."""
    traces: dict[str, list[Record]] = {}
    scores: list[Record] = []
    for record in (item for container in records for item in _list_objects(container)):
        check_format(record)
        if _is_score(record):
            scores.append(record)
        else:
            traces.setdefault(require_text(record, "traceId", "must name the trace"), []).append(record)
    for trace, observations in traces.items():
        spans = [_read_span(observation) for observation in observations]
        if any(otel.has_messages(span) for span in spans):
            ids = {trace, *(span.id for span in spans)}
            rated = [_read_score(score) for score in scores if _find_subject(score) in ids]
            yield otel.read_trace(trace, spans, dataset, choose_outcome(rated, "Langfuse"))


def _list_objects(container: Record) -> Iterator[Record]:
    if container.has("data") and container.has("meta"):
        yield from container.records("data")
    elif container.has("observations"):
        yield from container.records("observations")
        yield from container.records("scores")
    else:
        yield container


def _is_score(record: Record) -> bool:
    return record.has("dataType") and record.has("name") and "value" in record.value


def _find_subject(score: Record) -> str:
    """Return the id of the observation or the trace of a score."""
    subject = score.child("subject") or score
    own = subject.text("id") if subject is not score else ""
    return subject.text("observationId") or subject.text("traceId") or own


def _read_score(record: Record) -> Score:
    value = record.value.get("value")
    if record.text("dataType") == "CATEGORICAL":
        value = record.value.get("stringValue", value)
    return Score(record.text("name"), value, record.text("comment"), record.text("source") == "ANNOTATION")


def _read_span(record: Record) -> Span:
    is_error = record.text("level") == "ERROR"
    return Span(
        location=record.location,
        trace=record.text("traceId"),
        id=require_text(record, "id", "must name the observation"),
        parent=record.text("parentObservationId"),
        start=read_nanoseconds(record, "startTime"),
        attributes=_read_attributes(record),
        error=record.text("statusMessage") or "failed" if is_error else None,
    )


def _read_attributes(record: Record) -> dict[str, Value]:
    kind = record.text("type").upper()
    if kind in _TOOLS:
        return build_tool_call(record.text("name"), "", record.value.get("input"), record.value.get("output"))
    if kind not in (*_MODELS, *_AGENTS):
        return {}
    is_root = not record.has("parentObservationId")
    if kind not in _MODELS and not is_root and kind != "AGENT":
        return {}
    inputs = read_messages(record.value.get("input"), record.field_path("input"), "user")
    outputs = read_messages(record.value.get("output"), record.field_path("output"), "assistant")
    if kind in _MODELS:
        return {**build_model_call(inputs, outputs), **encode_usage(_read_usage(record))}
    return build_agent(record.text("name") if kind == "AGENT" else "", inputs, outputs)


def _read_usage(record: Record) -> TrajectoryUsage | None:
    """Return the usage of a call. Its details count a token under one name only, such as `input_cached_tokens`."""
    details = record.child("usageDetails") or record.child("usage") or Record({}, record.location)
    if details.text("unit", "TOKENS") != "TOKENS":
        return None
    names = [name for name in details.value if not name.endswith("Cost")]
    tokens = {name: read_tokens(details, name) or 0 for name in names if "input" in name or "output" in name}
    costs = record.child("costDetails") or Record({}, record.location)
    return build_usage(
        record.location,
        sum(count for name, count in tokens.items() if "input" in name),
        sum(count for name, count in tokens.items() if _CACHED.search(name)),
        sum(count for name, count in tokens.items() if "output" in name),
        read_cost(costs, "total") or read_cost(record, "totalCost", "calculatedTotalCost"),
    )
