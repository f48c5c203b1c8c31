"""Reads events of the GenAI conventions from OTLP JSON of logs: contents of model calls, and evaluations.

Source of the format: https://github.com/open-telemetry/semantic-conventions-genai v0.1.0, gen-ai-events.md:
`gen_ai.client.inference.operation.details` and `gen_ai.evaluation.result`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.otlp import Span, read_log_record

DETAILS, EVALUATION = "gen_ai.client.inference.operation.details", "gen_ai.evaluation.result"


def read_events(record: Record) -> Iterator[Span]:
    """Yield the events of one export as spans without a parent. Raise MalformedTrajectory with log record and field."""
    for resource in record.list_records("resourceLogs"):
        for scope in resource.list_records("scopeLogs"):
            for log in scope.list_records("logRecords"):
                event = read_log_record(log)
                if event is not None and event.get_text("event.name") in (DETAILS, EVALUATION):
                    yield event


def add_events(spans: Sequence[Span], events: Sequence[Span]) -> list[Span]:
    """Return the spans with the attributes of their events, and the events whose spans are not in the file."""
    details: Mapping[str, Span] = {event.parent: event for event in events if event.get_text("event.name") == DETAILS}
    joined = [
        replace(span, attributes={**details[span.id].attributes, **span.attributes}) if span.id in details else span
        for span in spans
    ]
    ids = {span.id for span in spans}
    others = [event for event in events if event.get_text("event.name") == EVALUATION or event.parent not in ids]
    return [*joined, *others]
