"""Spans of calls that read or change a playbook have the attributes of the GenAI conventions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from chassis import telemetry
from chassis.memory_spans import CAPTURE_VARIABLE, MAX_RECORD_CHARS, MAX_RECORDS
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1 import playbook_pb2
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search

ADD, UPDATE, DELETE = (playbook_pb2.DeltaType.Value(f"DELTA_TYPE_{name}") for name in ("ADD", "UPDATE", "DELETE"))
RESULTS = [search_pb2.SearchResult(bullet=playbook_pb2.Bullet(id="b-1", content="Pull first."), combined_score=0.75)]


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "tracer", provider.get_tracer("hansei"))
    return exporter


def record_call(exporter: InMemorySpanExporter, path: str, request: Any, response: Any) -> Mapping[str, Any]:
    """Return the attributes of the span of a call that are not about RPC."""
    method = telemetry.MethodTelemetry(path, SpanKind.SERVER)
    span = method.begin()
    method.describe(span, request, response)
    method.end(span, "OK", 0.1)
    (finished,) = exporter.get_finished_spans()
    return {name: value for name, value in (finished.attributes or {}).items() if not name.startswith("rpc.")}


def operation(kind: Any, bullet_id: str, *, applied: bool = True) -> playbook_pb2.Operation:
    delta = playbook_pb2.Delta(type=kind, content=f"text of {bullet_id}")
    return playbook_pb2.Operation(delta=delta, bullet_id=bullet_id, applied=applied)


def test_a_recall_names_the_served_bullets_without_their_texts(exporter: InMemorySpanExporter) -> None:
    found = record_call(
        exporter,
        "/hansei.evidence.v1.EvidenceService/Recall",
        evidence.RecallRequest(dataset="d", query_text="secret"),
        evidence.RecallResponse(results=RESULTS, serving_id="s-1"),
    )
    assert found == {
        "gen_ai.provider.name": "hansei",
        "gen_ai.operation.name": "search_memory",
        "gen_ai.memory.store.id": "d",
        "gen_ai.memory.record.count": 1,
        "hansei.bullet_ids": ("b-1",),
        "hansei.serving_id": "s-1",
    }


def test_a_search_has_the_texts_if_the_environment_says_so(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURE_VARIABLE, "SPAN_ONLY")
    many = [*RESULTS, *[search_pb2.SearchResult(bullet=playbook_pb2.Bullet(id="x", content="y" * 9_000))] * 150]
    found = record_call(
        exporter,
        "/hansei.search.v1.SearchService/Search",
        search.SearchRequest(dataset="d", query=search_pb2.SearchQuery(query_text="a push was rejected")),
        search.SearchResponse(results=many),
    )
    assert found["gen_ai.memory.query.text"] == "a push was rejected"
    assert found["gen_ai.memory.record.count"] == 151
    records = json.loads(found["gen_ai.memory.records"])
    assert records[0] == {"id": "b-1", "content": "Pull first.", "score": 0.75}
    assert len(records) == MAX_RECORDS
    assert len(records[-1]["content"]) == MAX_RECORD_CHARS


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        ([ADD, ADD], "create_memory"),
        ([UPDATE], "update_memory"),
        ([DELETE], "delete_memory"),
        ([ADD, DELETE], "upsert_memory"),
        ([], "upsert_memory"),
    ],
)
def test_edits_have_the_operation_of_their_deltas(exporter: InMemorySpanExporter, kinds: list[Any], name: str) -> None:
    found = record_call(
        exporter,
        "/hansei.playbook.v1.PlaybookService/ApplyDeltas",
        playbook.ApplyDeltasRequest(dataset="d", deltas=[playbook_pb2.Delta(type=kind) for kind in kinds]),
        playbook.ApplyDeltasResponse(operations=[operation(ADD, "b-1"), operation(ADD, "b-2", applied=False)]),
    )
    assert found["gen_ai.operation.name"] == name
    assert found["gen_ai.memory.record.count"] == 1
    assert found["hansei.bullet_ids"] == ("b-1",)


@pytest.mark.parametrize(
    ("path", "request_", "response"),
    [
        (
            "/hansei.gateway.v1.GatewayService/Learn",
            gateway.LearnRequest(dataset="d"),
            gateway.LearnResponse(curation=curator.CurateResponse(operations=[operation(ADD, "b-1")])),
        ),
        (
            "/hansei.curator.v1.CuratorService/Curate",
            curator.CurateRequest(dataset="d"),
            curator.CurateResponse(operations=[operation(UPDATE, "b-1")]),
        ),
    ],
)
def test_learning_updates_a_memory(exporter: InMemorySpanExporter, path: str, request_: Any, response: Any) -> None:
    found = record_call(exporter, path, request_, response)
    assert found["gen_ai.operation.name"] == "upsert_memory"
    assert (found["gen_ai.memory.store.id"], found["hansei.bullet_ids"]) == ("d", ("b-1",))


@pytest.mark.parametrize(
    ("path", "request_", "response"),
    [
        ("/hansei.search.v1.SearchService/Search", b"passed through", b"passed through"),
        ("/hansei.gateway.v1.BulkService/GetJob", object(), object()),
    ],
)
def test_other_calls_have_no_such_attributes(
    exporter: InMemorySpanExporter, path: str, request_: Any, response: Any
) -> None:
    assert record_call(exporter, path, request_, response) == {}


@pytest.mark.parametrize(
    ("kind", "code", "name"),
    [
        (SpanKind.CLIENT, "OK", "search_memory d"),
        (SpanKind.CLIENT, "UNAVAILABLE", "search_memory"),  # the dataset is known only after the call
        (SpanKind.SERVER, "OK", "hansei.search.v1.SearchService/Search"),
    ],
)
def test_the_span_of_the_caller_has_the_name_of_its_operation(
    exporter: InMemorySpanExporter, kind: SpanKind, code: str, name: str
) -> None:
    method = telemetry.MethodTelemetry("/hansei.search.v1.SearchService/Search", kind)
    span = method.begin()
    if code == "OK":
        method.describe(span, search.SearchRequest(dataset="d"), search.SearchResponse())
    method.end(span, code, 0.1)
    (finished,) = exporter.get_finished_spans()
    assert finished.name == name
    if name.startswith("search_memory"):
        assert finished.attributes is not None
        assert finished.attributes["gen_ai.operation.name"] == "search_memory"
