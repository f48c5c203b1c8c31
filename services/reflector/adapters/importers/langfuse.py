"""Reads observations of Langfuse with their scores: each trace is one trajectory.

Source of the format: https://github.com/langfuse/langfuse-python, langfuse/api (ObservationV2, ScoreV3, and the trace
with its observations). A file is a response of the API, a trace with `observations`, or one object a line. Inputs and
outputs may be JSON texts. The outcome is a score, else an error of the root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from services.reflector.adapters.importers import otel
from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.langfuse_observations import read_attributes
from services.reflector.adapters.importers.otlp import Span
from services.reflector.adapters.importers.scores import Score, choose_outcome
from services.reflector.adapters.importers.trace_records import read_nanoseconds
from services.reflector.domain.recorded_trajectory import RecordedTrajectory


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no observation, score, trace or response."""
    if record.has("observations") or _is_score(record) or (record.has("data") and record.has("meta")):
        return
    for name in ("type", "traceId", "startTime"):
        if not isinstance(record.value.get(name), str):
            raise record.build_error(name, "must be text: an observation of Langfuse has it")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of each trace. Raise MalformedTrajectory with the observation and its field."""
    traces: dict[str, list[Record]] = {}
    trace_of: dict[str, str] = {}
    scores: list[Record] = []
    for record in (item for container in records for item in _list_objects(container)):
        check_format(record)
        if _is_score(record):
            scores.append(record)
        else:
            trace = record.require_text("traceId", "must name the trace")
            trace_of[trace] = trace_of[record.get_text("id")] = trace
            traces.setdefault(trace, []).append(record)
    rated: defaultdict[str | None, list[Score]] = defaultdict(list)
    for score in scores:
        rated[trace_of.get(_find_subject(score))].append(_read_score(score))
    for trace, observations in traces.items():
        spans = [_read_span(observation) for observation in observations]
        if any(otel.has_messages(span) for span in spans):
            yield otel.read_trace(trace, spans, dataset, choose_outcome(rated[trace], "Langfuse"))


def _list_objects(container: Record) -> Iterator[Record]:
    if container.has("data") and container.has("meta"):
        yield from container.list_records("data")
    elif container.has("observations"):
        yield from container.list_records("observations")
        yield from container.list_records("scores")
    else:
        yield container


def _is_score(record: Record) -> bool:
    return record.has("dataType") and record.has("name") and "value" in record.value


def _find_subject(score: Record) -> str:
    """Return the id of the observation or the trace of a score."""
    subject = score.get_child("subject") or score
    own = subject.get_text("id") if subject is not score else ""
    return subject.get_text("observationId") or subject.get_text("traceId") or own


def _read_score(record: Record) -> Score:
    value = record.value.get("value")
    if record.get_text("dataType") == "CATEGORICAL":
        value = record.value.get("stringValue", value)
    return Score(record.get_text("name"), value, record.get_text("comment"), record.get_text("source") == "ANNOTATION")


def _read_span(record: Record) -> Span:
    is_error = record.get_text("level") == "ERROR"
    return Span(
        location=record.location,
        trace=record.get_text("traceId"),
        id=record.require_text("id", "must name the observation"),
        parent=record.get_text("parentObservationId"),
        start=read_nanoseconds(record, "startTime"),
        attributes=read_attributes(record),
        error=record.get_text("statusMessage") or "failed" if is_error else None,
    )
