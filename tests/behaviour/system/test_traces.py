"""Calls through all hops, each a process: who called whom, as a real collector is told and as the logs say."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from hansei.client import Client
from hansei.gateway.v1 import gateway_service_pb2, gateway_service_pb2_grpc
from hansei.reflector.v1 import reflector_service_pb2
from tests.fakes.otlp_collector import Collector, collector
from tests.support import systems
from tests.support.systems import ROOT

RUN = ROOT / "examples/trajectories/git-commit-identity.json"
EDGES = {
    "Learn": {
        ("gateway", "curator", "hansei.curator.v1.CuratorService/PrepareCuration"),
        ("gateway", "reflector", "hansei.reflector.v1.ReflectorService/Reflect"),
        ("gateway", "curator", "hansei.curator.v1.CuratorService/Curate"),
    },
    "RunWorkflow": {
        ("gateway", "curator", "hansei.playbook.v1.PlaybookService/GetDataset"),
        ("gateway", "search", "hansei.search.v1.SearchService/Search"),
        ("gateway", "planner", "hansei.planner.v1.GeneratorService/Generate"),
    },
}
SERVER = 2
REQUEST_ID = str(uuid.uuid4())
CORRELATION_ID = "seen-by-every-hop"


@pytest.fixture(scope="module")
def traced_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[systems.System, Collector]]:
    """Yield a system that has learned and answered, and the collector it sent its spans to."""
    with collector() as spans:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": spans.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "HANSEI_LOG_LEVEL": "DEBUG",
        }
        with systems.separate_processes(tmp_path_factory.mktemp("traces"), **variables) as system:
            with Client(system.address) as client:
                (parsed,) = client.reflector.parse_trajectories(content=RUN.read_bytes(), dataset="seen").trajectories
                parsed.trajectory.dataset = "seen"
                learned = learn(system.address, parsed)
                client.search("seen", "commit", min_revision=learned.curation.revision)
                client.gateway.run_workflow(query="How do I commit?", dataset="seen")
            yield system, spans


def learn(address: str, parsed: reflector_service_pb2.ParsedTrajectory) -> gateway_service_pb2.LearnResponse:
    """Learn with both ids: the correlation id in metadata, the idempotency key in upper case in the request."""
    request = gateway_service_pb2.LearnRequest(
        request_id=REQUEST_ID.upper(),
        dataset="seen",
        trajectory=parsed.trajectory,
        ground_truth=parsed.ground_truth,
    )
    with grpc.insecure_channel(address) as channel:
        stub: Any = gateway_service_pb2_grpc.GatewayServiceStub(channel)
        return stub.Learn(request, timeout=30, metadata=[("x-request-id", CORRELATION_ID)])  # type: ignore[no-any-return]


def edges(spans: list[tuple[str, Any]], root: str) -> tuple[set[tuple[str, str, str]], set[str]]:
    """Caller, callee and method of each call under a method of the gateway, and the ids of those traces."""
    traces = {
        span.trace_id for _, span in spans if span.kind == SERVER and span.name.endswith(f"GatewayService/{root}")
    }
    under = [(name, span) for name, span in spans if span.trace_id in traces]
    owner = {span.span_id: name for name, span in under}
    return {
        (owner[span.parent_span_id], name, span.name)
        for name, span in under
        if span.kind == SERVER and owner.get(span.parent_span_id, name) != name
    }, {trace.hex() for trace in traces}


@pytest.mark.parametrize("root", EDGES)
def test_every_hop_is_in_one_trace(traced_system: tuple[systems.System, Collector], root: str) -> None:
    _, collected = traced_system
    spans = collected.wait_for_spans(lambda spans: edges(spans, root)[0] >= EDGES[root])
    found, traces = edges(spans, root)
    assert found == EDGES[root]
    assert len(traces) == 1


@pytest.mark.parametrize("root", EDGES)
def test_the_logs_of_every_hop_carry_the_id_of_the_trace(
    traced_system: tuple[systems.System, Collector], root: str
) -> None:
    system, collected = traced_system
    spans = collected.wait_for_spans(lambda spans: edges(spans, root)[0] >= EDGES[root])
    (trace,) = edges(spans, root)[1]
    for name, method in {(callee, method) for _, callee, method in EDGES[root]}:
        assert {"trace_id": trace, "method": f"/{method}"}.items() <= _call(system, name, method, trace).items()


def test_the_logs_of_every_hop_hold_the_correlation_id_and_of_a_mutation_the_idempotency_key_too(
    traced_system: tuple[systems.System, Collector],
) -> None:
    system, _ = traced_system
    hops = {
        (name, record["method"], record.get("request_id"))
        for name in ("gateway", "reflector", "curator")
        for record in _calls(system, name)
        if record["correlation_id"] == CORRELATION_ID
    }
    assert hops == {
        ("gateway", "/hansei.gateway.v1.GatewayService/Learn", REQUEST_ID),
        ("reflector", "/hansei.reflector.v1.ReflectorService/Reflect", None),
        ("curator", "/hansei.curator.v1.CuratorService/PrepareCuration", REQUEST_ID),
        ("curator", "/hansei.curator.v1.CuratorService/Curate", REQUEST_ID),
    }


def _call(system: systems.System, name: str, method: str, trace: str) -> dict[str, Any]:
    called = (record for record in _calls(system, name) if record.get("method") == f"/{method}")
    return next((record for record in called if record.get("trace_id") == trace), {})


def _calls(system: systems.System, name: str) -> list[dict[str, Any]]:
    """Return the log records of the calls that a process answered."""
    lines = (json.loads(line) for line in system.log(name).splitlines() if line.startswith("{"))
    return [record for record in lines if record.get("event") == "call"]
