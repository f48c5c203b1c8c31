"""Attributes of the OpenTelemetry GenAI conventions for spans of calls that read or change a playbook.

Source: https://github.com/open-telemetry/semantic-conventions-genai, `gen_ai.memory.*`, which is in development.
A playbook is a memory store, a bullet is a memory record. Ids and counts are always recorded; texts only if
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` allows it, as for the messages of models.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import Span

CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
PROVIDER = "hansei"
SERVING_ID, BULLET_IDS = "hansei.serving_id", "hansei.bullet_ids"
MAX_RECORDS = 100
MAX_RECORD_CHARS = 2_000
_CAPTURING = frozenset({"true", "span_only", "span_and_event"})
_DELTA_OPERATIONS = {1: "create_memory", 2: "update_memory", 3: "delete_memory"}
"""Operations by the number of a `DeltaType`."""

Attributes = dict[str, Any]


def is_capturing() -> bool:
    """Return whether spans may have the texts of bullets and queries."""
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in _CAPTURING


def get_memory_operation(path: str) -> str:
    """Return the memory operation of a method, by which the convention names the span of its caller; or empty."""
    return _METHODS[path][0] if path in _METHODS else ""


def set_memory_attributes(path: str, span: Span, request: Any, response: Any, *, is_caller: bool) -> None:
    """Add OpenTelemetry's attributes of a memory operation (`gen_ai.memory`) to the span of a call of such a method.

    The span of the caller is named by the operation and the dataset, that of the server by the method.
    """
    # Calls that the gateway only passes through are bytes; the service behind it describes them.
    if path not in _METHODS or isinstance(request, bytes) or isinstance(response, bytes):
        return
    operation, describe = _METHODS[path]
    found = describe(request, response)
    attributes = {"gen_ai.provider.name": PROVIDER, "gen_ai.operation.name": operation, **found}
    span.set_attributes({name: value for name, value in attributes.items() if value not in ("", None)})
    if is_caller and (dataset := attributes["gen_ai.memory.store.id"]):
        span.update_name(f"{attributes['gen_ai.operation.name']} {dataset}")


def _describe_recall(request: Any, response: Any) -> Attributes:
    return {**_describe_results(request.dataset, request.query_text, response), SERVING_ID: response.serving_id}


def _describe_search(request: Any, response: Any) -> Attributes:
    return _describe_results(request.dataset, request.query.query_text, response)


def _describe_results(dataset: str, query: str, response: Any) -> Attributes:
    results = response.results[:MAX_RECORDS]
    attributes: Attributes = {
        "gen_ai.memory.store.id": dataset,
        "gen_ai.memory.record.count": len(response.results),
        BULLET_IDS: [result.bullet.id for result in results],
    }
    if is_capturing():
        attributes["gen_ai.memory.query.text"] = query[:MAX_RECORD_CHARS]
        attributes["gen_ai.memory.records"] = _encode_records(
            {"id": result.bullet.id, "content": result.bullet.content, "score": round(result.combined_score, 4)}
            for result in results
        )
    return attributes


def _describe_deltas(request: Any, response: Any) -> Attributes:
    kinds = {delta.type for delta in request.deltas}
    operation = _DELTA_OPERATIONS.get(kinds.pop(), "upsert_memory") if len(kinds) == 1 else "upsert_memory"
    return {"gen_ai.operation.name": operation, **_describe_operations(request.dataset, response.operations)}


def _describe_curation(request: Any, response: Any) -> Attributes:
    return _describe_operations(request.dataset, response.operations)


def _describe_learning(request: Any, response: Any) -> Attributes:
    return _describe_operations(request.dataset, response.curation.operations)


def _describe_operations(dataset: str, operations: Any) -> Attributes:
    applied = [item for item in operations if item.applied]
    attributes: Attributes = {
        "gen_ai.memory.store.id": dataset,
        "gen_ai.memory.record.count": len(applied),
        BULLET_IDS: [item.bullet_id for item in applied[:MAX_RECORDS]],
    }
    if is_capturing():
        attributes["gen_ai.memory.records"] = _encode_records(
            {"id": item.bullet_id, "content": item.delta.content} for item in applied[:MAX_RECORDS]
        )
    return attributes


def _describe_change(request: Any, response: Any) -> Attributes:
    return {"gen_ai.memory.store.id": request.dataset}


def _encode_records(records: Any) -> str:
    """Return records as JSON, because attributes of spans have no structure."""
    bounded = ({**record, "content": record["content"][:MAX_RECORD_CHARS]} for record in records)
    return json.dumps(list(bounded), ensure_ascii=False)


_METHODS: Mapping[str, tuple[str, Callable[[Any, Any], Attributes]]] = {
    "/hansei.evidence.v1.EvidenceService/Recall": ("search_memory", _describe_recall),
    "/hansei.search.v1.SearchService/Search": ("search_memory", _describe_search),
    "/hansei.curator.v1.CuratorService/Curate": ("upsert_memory", _describe_curation),
    "/hansei.gateway.v1.GatewayService/Learn": ("upsert_memory", _describe_learning),
    "/hansei.playbook.v1.PlaybookService/ApplyDeltas": ("upsert_memory", _describe_deltas),
    "/hansei.playbook.v1.PlaybookService/RestoreRevision": ("update_memory", _describe_change),
    "/hansei.playbook.v1.PlaybookService/RevokeTrajectory": ("update_memory", _describe_change),
    "/hansei.playbook.v1.PlaybookService/DeleteDataset": ("delete_memory_store", _describe_change),
}
