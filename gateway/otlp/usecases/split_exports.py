"""Split an export into the parts of its traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from gateway.otlp.domain.datasets import DATASET_ATTRIBUTE, SERVICE_ATTRIBUTE, find_dataset
from gateway.otlp.domain.trace import PartKind, TraceKey, TracePart

EVALUATION_EVENT = "gen_ai.evaluation.result"
EVENTS = frozenset({EVALUATION_EVENT, "gen_ai.client.inference.operation.details"})
EVALUATION_PREFIXES = ("gen_ai.evaluation.", "evaluations.", "annotations.")
"""Prefixes of the attributes of evaluations: of the GenAI conventions and of OpenInference."""
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8


@dataclass(slots=True)
class SplitExport:
    """The parts of an export, and why items are in none of them."""

    parts: list[TracePart] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    """Numbers of items by reason."""

    def reject(self, reason: str, items: int) -> None:
        """Count rejected items."""
        if items:
            self.rejected[reason] = self.rejected.get(reason, 0) + items


def split_spans(request: ExportTraceServiceRequest, datasets: Mapping[str, str]) -> SplitExport:
    """Return the spans of an export by trace."""
    export = SplitExport()
    for resource in request.resource_spans:
        attributes = _read_texts(resource.resource.attributes)
        dataset = find_dataset(datasets, attributes)
        spans = [span for scope in resource.scope_spans for span in scope.spans]
        valid = [span for span in spans if len(span.trace_id) == TRACE_ID_BYTES and len(span.span_id) == SPAN_ID_BYTES]
        export.reject("a span needs a trace_id of 16 bytes and a span_id of 8 bytes", len(spans) - len(valid))
        if not dataset:
            export.reject(_describe_unmapped(attributes), len(valid))
            continue
        for trace_id, group in _group_by_trace(valid).items():
            data = TracesData()
            data.resource_spans.add(resource=resource.resource).scope_spans.add(spans=group)
            export.parts.append(
                TracePart(
                    TraceKey(dataset, trace_id),
                    PartKind.SPANS,
                    data.SerializeToString(),
                    len(group),
                    has_root=any(not span.parent_span_id for span in group),
                    is_evaluation=any(_has_evaluation(owner) for span in group for owner in (span, *span.events)),
                )
            )
    return export


def split_logs(
    request: ExportLogsServiceRequest, datasets: Mapping[str, str], stored: Mapping[str, str]
) -> SplitExport:
    """Return the GenAI events of an export by trace; an event without a dataset belongs to the stored trace it names.

    Other log records are ignored.
    """
    export = SplitExport()
    for resource in request.resource_logs:
        attributes = _read_texts(resource.resource.attributes)
        named = find_dataset(datasets, attributes)
        for trace_id, group in _group_by_trace(_select_events(resource)).items():
            dataset = stored.get(trace_id, "") or named
            if not dataset:
                export.reject(_describe_unmapped(attributes), len(group))
                continue
            data = LogsData()
            data.resource_logs.add(resource=resource.resource).scope_logs.add(log_records=group)
            is_evaluation = any(_get_event_name(record) == EVALUATION_EVENT for record in group)
            export.parts.append(
                TracePart(
                    TraceKey(dataset, trace_id),
                    PartKind.LOGS,
                    data.SerializeToString(),
                    len(group),
                    is_evaluation=is_evaluation,
                )
            )
    return export


def list_event_traces(request: ExportLogsServiceRequest) -> list[str]:
    """Return the ids of the traces that the events of an export name."""
    events = (event for resource in request.resource_logs for event in _select_events(resource))
    return list(dict.fromkeys(event.trace_id.hex() for event in events))


def _select_events(resource: Any) -> list[Any]:
    return [
        record
        for scope in resource.scope_logs
        for record in scope.log_records
        if len(record.trace_id) == TRACE_ID_BYTES and _get_event_name(record) in EVENTS
    ]


def _get_event_name(record: Any) -> str:
    return record.event_name or _read_texts(record.attributes).get("event.name", "")


def _group_by_trace(items: Iterable[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(item.trace_id.hex(), []).append(item)
    return groups


def _has_evaluation(owner: Any) -> bool:
    return any(attribute.key.startswith(EVALUATION_PREFIXES) for attribute in owner.attributes)


def _read_texts(attributes: Sequence[Any]) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in attributes}


def _describe_unmapped(attributes: Mapping[str, str]) -> str:
    service = attributes.get(SERVICE_ATTRIBUTE, "")[:80]
    return (
        f"service.name {service!r} has no dataset: set the resource attribute {DATASET_ATTRIBUTE}, or name the "
        "service in HANSEI_OTLP_DATASETS of the gateway"
    )
