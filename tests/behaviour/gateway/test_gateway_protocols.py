"""Other protocols at a gateway with tenants: traces that the OpenTelemetry SDK exports, and MCP with bearer tokens."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode, Tracer

from chassis import telemetry
from chassis.errors import NotFound
from hansei.client import AsyncClient, Client
from hansei.client.callers import CallerClients
from hansei.evidence.v1.evidence_pb2 import TrialPolicy
from hansei.gateway.v1.bulk_pb2 import JOB_STATE_COMPLETED, Job
from hansei.mcp_server.server import create_server
from hansei.mcp_server.tokens import GatewayTokens, build_auth_settings
from hansei.mcp_server.transports import TOKEN_OPTION, serve_http
from tests.support.tenants import Gate, two_tenants

QUERY = "Book a table for two at eight."


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    settings = {"HANSEI_OTLP_SETTLE_SECONDS": "0.2", "HANSEI_OTLP_DATASETS": "waiter=acme--tables"}
    with two_tenants("one process", tmp_path_factory.mktemp("otlp"), **settings) as gate:
        yield gate


class RecordingExporter(SpanExporter):
    """Exports by another exporter, and keeps the results."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter = exporter
        self.results: list[SpanExportResult] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.results.append(self.exporter.export(spans))
        return self.results[-1]

    def shutdown(self) -> None:
        self.exporter.shutdown()


def over_http(gate: Gate, who: str, **options: Any) -> SpanExporter:
    headers = {"authorization": f"Bearer {gate.keys[who]}"}
    return HttpExporter(endpoint=f"{gate.url}/v1/traces", headers=headers, timeout=10, **options)


def over_grpc(gate: Gate, who: str) -> SpanExporter:
    return GrpcExporter(endpoint=f"http://{gate.address}", headers=(("authorization", f"Bearer {gate.keys[who]}"),))


def run_agent(tracer: Tracer, query: str, serving_id: str = "") -> str:
    """Record a run of an agent whose only tool call fails, as instrumentations of the GenAI conventions do."""
    call = {"type": "tool_call", "id": "c-1", "name": "book", "arguments": {"seats": "two"}}
    question = {"role": "user", "parts": [{"type": "text", "content": query}]}
    with tracer.start_as_current_span("invoke_agent waiter") as root:
        root.set_attribute("gen_ai.operation.name", "invoke_agent")
        if serving_id:
            with tracer.start_as_current_span("search_memory") as search:
                attributes = {"gen_ai.operation.name": "search_memory", "gen_ai.provider.name": "hansei"}
                search.set_attributes(attributes | {"hansei.serving_id": serving_id})
        with tracer.start_as_current_span("chat") as chat:
            chat.set_attribute("gen_ai.operation.name", "chat")
            chat.set_attribute("gen_ai.input.messages", json.dumps([question]))
            chat.set_attribute("gen_ai.output.messages", json.dumps([{"role": "assistant", "parts": [call]}]))
        with tracer.start_as_current_span("execute_tool book") as tool:
            tool.set_attribute("gen_ai.operation.name", "execute_tool")
            tool.set_attribute("gen_ai.tool.name", "book")
            tool.set_attribute("gen_ai.tool.call.id", "c-1")
            tool.set_attribute("gen_ai.tool.call.result", "error: seats must be a number")
            tool.set_status(Status(StatusCode.ERROR, "error: seats must be a number"))
        root.set_status(Status(StatusCode.ERROR, "no table was booked"))
        return f"{root.get_span_context().trace_id:032x}"


def export_trace(exporter: SpanExporter, resource: dict[str, str], query: str = QUERY, serving_id: str = "") -> str:
    """Export a run span by span; return the id of its trace."""
    provider = TracerProvider(resource=Resource.create(resource), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_id = run_agent(provider.get_tracer("waiter"), query, serving_id)
    provider.shutdown()
    return trace_id


def wait_for(look: Callable[[], Any]) -> Any:
    """Return the first true result within half a minute; what is looked for may not exist before."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(NotFound):
            if found := look():
                return found
        time.sleep(0.05)
    raise AssertionError("nothing was found")


def wait_for_jobs(client: Client, dataset: str, count: int = 1) -> list[Job]:
    """Return the jobs of a dataset once all of them have ended."""

    def look() -> list[Job] | None:
        jobs = list(client.jobs.list(dataset=dataset).jobs)
        return jobs if len(jobs) >= count and all(job.HasField("ended_at") for job in jobs) else None

    found: list[Job] = wait_for(look)
    return found


@pytest.mark.parametrize(
    "create_exporter",
    [
        pytest.param(lambda gate: over_http(gate, "acme"), id="http"),
        pytest.param(lambda gate: over_http(gate, "acme", compression=Compression.Gzip), id="http with gzip"),
        pytest.param(lambda gate: over_grpc(gate, "acme"), id="grpc"),
    ],
)
def test_a_run_that_the_sdk_exports_is_learned_once(gate: Gate, create_exporter: Any) -> None:
    dataset = f"acme--{uuid.uuid4().hex}"
    exporter = RecordingExporter(create_exporter(gate))
    trace_id = export_trace(exporter, {"service.name": "any", "hansei.dataset": dataset})
    assert set(exporter.results) == {SpanExportResult.SUCCESS}
    with gate.client("acme") as client:
        [job] = wait_for_jobs(client, dataset)
        assert (job.state, job.total, job.learned) == (JOB_STATE_COMPLETED, 1, 1)
        assert client.jobs.get(job_id=job.job_id).job == job
        archived = wait_for(lambda: client.archive.list_trajectories(dataset=dataset).trajectories)
        assert [summary.trajectory_id for summary in archived] == [trace_id]
        stored = client.archive.get_trajectory(dataset=dataset, trajectory_id=trace_id).trajectory
    assert stored.query == QUERY
    assert [step.content for step in stored.steps][-1] == "error: seats must be a number"
    assert stored.error_message == "no table was booked"


def test_a_service_is_mapped_to_a_dataset_by_the_setting(gate: Gate) -> None:
    export_trace(over_grpc(gate, "root"), {"service.name": "waiter"})
    with gate.client("acme") as client:
        assert [job.dataset for job in wait_for_jobs(client, "acme--tables")] == ["acme--tables"]


def test_json_is_received_as_the_collector_sends_it(gate: Gate) -> None:
    dataset, trace_id = f"acme--{uuid.uuid4().hex}", uuid.uuid4().hex
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": QUERY}]}])
    span = {
        "traceId": trace_id,
        "spanId": "a1" * 8,
        "name": "chat",
        "kind": 3,
        "startTimeUnixNano": "1790000000000000000",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.input.messages", "value": {"stringValue": messages}},
        ],
        "status": {"code": 2},
    }
    resource = {"attributes": [{"key": "hansei.dataset", "value": {"stringValue": dataset}}]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}
    with gate.http("acme") as http, gate.client("acme") as client:
        response = http.post("/v1/traces", json=body)
        assert (response.status_code, response.json()) == (200, {})
        assert len(wait_for_jobs(client, dataset)) == 1


def test_an_evaluation_that_comes_later_is_the_outcome_of_the_serving(gate: Gate) -> None:
    dataset = f"acme--{uuid.uuid4().hex}"
    with gate.client("acme") as client:
        client.remember(dataset, "Pass the number of seats as a number.")
        client.evidence.start_trials(dataset=dataset, policy=TrialPolicy(bullet_holdout=0.5))
        serving_id = client.recall(dataset, "session-1", QUERY).serving_id
        assert serving_id
        trace_id = export_trace(over_http(gate, "acme"), {"hansei.dataset": dataset}, serving_id=serving_id)
        wait_for_jobs(client, dataset)
        assert client.evidence.get_trials(dataset=dataset).sessions_without_outcome == 1
        logs = LoggerProvider(resource=Resource.create({"service.name": "judge"}), shutdown_on_exit=False)
        headers = (("authorization", f"Bearer {gate.keys['acme']}"),)
        logs.add_log_record_processor(
            SimpleLogRecordProcessor(OTLPLogExporter(endpoint=f"http://{gate.address}", headers=headers))
        )
        event = LogRecord(
            event_name="gen_ai.evaluation.result",
            attributes={"gen_ai.evaluation.name": "booked", "gen_ai.evaluation.score.label": "fail"},
        )
        event.trace_id, event.span_id = int(trace_id, 16), 1
        logs.get_logger("judge").emit(event)
        wait_for(lambda: client.evidence.get_trials(dataset=dataset).sessions_without_outcome == 0)
        report = client.evidence.report_outcome(dataset=dataset, serving_id=serving_id, succeeded=True)
        assert (report.counted, report.outcome) == (False, 0.0)
        logs.shutdown()


def test_a_recall_within_a_trace_is_the_serving_of_its_trajectory(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = f"acme--{uuid.uuid4().hex}"
    provider = TracerProvider(resource=Resource.create({"hansei.dataset": dataset}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(over_http(gate, "acme")))
    tracer = provider.get_tracer("waiter")
    monkeypatch.setattr(telemetry, "tracer", tracer)
    with gate.client("acme") as client:
        client.remember(dataset, "Pass the number of seats as a number.")
        client.evidence.start_trials(dataset=dataset, policy=TrialPolicy(bullet_holdout=0.05))
        with tracer.start_as_current_span("task") as root:
            recalled = client.recall(dataset, "session-1", QUERY)
            run_agent(tracer, QUERY)
            trace_id = f"{root.get_span_context().trace_id:032x}"
        wait_for_jobs(client, dataset)
        wait_for(lambda: client.archive.list_trajectories(dataset=dataset).trajectories)
        stored = client.archive.get_trajectory(dataset=dataset, trajectory_id=trace_id).trajectory
    assert list(stored.serving_ids) == [recalled.serving_id]
    assert list(stored.used_bullet_ids) == [result.bullet.id for result in recalled.results]
    provider.shutdown()


def test_callers_need_a_key_with_the_scope_and_datasets_of_their_own(gate: Gate) -> None:
    own, foreign = f"acme--{uuid.uuid4().hex}", f"evil--{uuid.uuid4().hex}"
    for create_exporter in (over_http, over_grpc):
        for who in ("nobody", "acme reader"):
            exporter = RecordingExporter(create_exporter(gate, who))
            export_trace(exporter, {"hansei.dataset": own})
            assert set(exporter.results) == {SpanExportResult.FAILURE}
    with gate.http("acme") as http:
        body = {
            "resourceSpans": [
                {
                    "resource": {"attributes": [{"key": "hansei.dataset", "value": {"stringValue": foreign}}]},
                    "scopeSpans": [{"spans": [{"traceId": "ab" * 16, "spanId": "cd" * 8}]}],
                }
            ]
        }
        rejected = http.post("/v1/traces", json=body).json()["partialSuccess"]
        assert rejected == {"rejectedSpans": "1", "errorMessage": f"no dataset '{foreign}'"}
        malformed = http.post("/v1/traces", content=b"{", headers={"content-type": "application/json"})
        assert (malformed.status_code, malformed.json()["code"]) == (400, 3)
    with gate.client("evil") as client, pytest.raises(NotFound):
        client.playbooks.get(dataset=own)


@asynccontextmanager
async def mcp_server(gate: Gate, address: str = "") -> AsyncIterator[str]:
    """Serve MCP over HTTP with bearer tokens, which the gateway verifies, or what is at `address`; yield its URL."""
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with AsyncClient(address or gate.address, token="") as client:
        callers = CallerClients(client)
        if not address:
            await callers.require_credentials(TOKEN_OPTION)
        tokens = GatewayTokens(callers)
        serving = asyncio.create_task(
            serve_http(
                lambda url: create_server(client, "", tokens, build_auth_settings("https://issuer.example", url)),
                "127.0.0.1:0",
                [],
                url.set_result,
                authenticates=True,
            )
        )
        try:
            yield await url
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def test_mcp_callers_act_with_the_rights_of_their_own_tokens(gate: Gate) -> None:
    dataset = f"acme--{uuid.uuid4().hex}"

    async def call(url: str, who: str, tool: str, mode: str, **arguments: str) -> tuple[bool, str]:
        headers = {"authorization": f"Bearer {gate.keys[who]}"}
        async with (
            create_mcp_http_client(headers=headers) as http,
            McpClient(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            result = await client.call_tool(tool, arguments)
            return result.is_error, str(result.content[0].text)  # type: ignore[union-attr]

    async with mcp_server(gate) as url:
        is_error, text = await call(url, "acme", "remember", "auto", text="Set the name first.", dataset=dataset)
        assert not is_error, text
        for mode in ("2026-07-28", "legacy"):
            is_error, text = await call(url, "acme reader", "read_playbook", mode, dataset=dataset)
            assert (is_error, "Set the name first." in text) == (False, True)
        is_error, text = await call(url, "acme reader", "remember", "auto", text="No.", dataset=dataset)
        assert (is_error, "SCOPE_MISSING" in text) == (True, True)
        is_error, text = await call(url, "evil", "read_playbook", "auto", dataset=dataset)
        assert (is_error, "NOT_FOUND" in text) == (True, True)


async def test_mcp_names_its_issuer_to_callers_without_a_token(gate: Gate) -> None:
    async with mcp_server(gate) as url, httpx.AsyncClient() as http:
        for headers in ({}, {"authorization": "Bearer unknown"}):
            refused = await http.post(url, json={}, headers=headers)
            assert refused.status_code == 401
            challenge = refused.headers["www-authenticate"]
            metadata_url = challenge.partition('resource_metadata="')[2].partition('"')[0]
            assert metadata_url == url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        metadata = (await http.get(metadata_url)).json()
    assert metadata["resource"] == url
    assert [issuer.rstrip("/") for issuer in metadata["authorization_servers"]] == ["https://issuer.example"]


async def test_mcp_is_unavailable_while_the_gateway_cannot_verify_tokens(gate: Gate) -> None:
    headers = {"authorization": f"Bearer {gate.keys['acme']}"}
    async with mcp_server(gate, address="127.0.0.1:1") as url, httpx.AsyncClient() as http:
        refused = await http.post(url, json={}, headers=headers)
        assert refused.status_code == 503
        assert "127.0.0.1:1" in refused.json()["error"]
        assert (await http.post(url, json={})).status_code == 401
