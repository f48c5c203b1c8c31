"""Traces: received in parts, learned once when they are complete, with evaluations that come later."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from chassis.errors import HanseiError, InvalidArgument, RequestIdReused, Unavailable
from gateway.access.domain.principal import SYSTEM, Principal
from gateway.http import otlp
from gateway.http.auth import Authentication
from gateway.http.json_codec import LARGE_BYTES
from gateway.otlp.adapters.sql.repository import TraceRepository
from gateway.otlp.adapters.sql.schema import MIGRATIONS
from gateway.otlp.domain.datasets import parse_datasets
from gateway.otlp.domain.errors import MalformedExport, TraceStoreFull
from gateway.otlp.domain.trace import PartKind, TraceKey, TraceLimits, TracePart
from gateway.otlp.rpc.convert import JSON, PROTOBUF, decode_request, decompress
from gateway.otlp.usecases import learn_traces
from gateway.otlp.usecases.learn_traces import TraceLearning
from gateway.otlp.usecases.receive_exports import ExportReceiver
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.gateway.v1 import bulk_service_pb2 as bulk
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from libs.storage.database import Database

TRACE = "0af7651916cd43dd8448eb211c80319c"
OTHER = "1bf7651916cd43dd8448eb211c80319c"
LIMITS = TraceLimits(
    timedelta(seconds=10), timedelta(minutes=30), timedelta(hours=24), trace_bytes=4_000, total_bytes=12_000
)


def spans(
    *ids: str,
    trace: str = TRACE,
    root: bool = False,
    resource: dict[str, str] | None = None,
    size: int = 0,
    **texts: str,
) -> ExportTraceServiceRequest:
    """Return an export of spans with these ids; the last one is the root if `root` is set."""
    request = ExportTraceServiceRequest()
    owner = request.resource_spans.add()
    for key, value in ({"service.name": "shop"} if resource is None else resource).items():
        owner.resource.attributes.add(key=key).value.string_value = value
    group = owner.scope_spans.add()
    for span_id in ids:
        is_root = root and span_id == ids[-1]
        span = group.spans.add(
            trace_id=bytes.fromhex(trace),
            span_id=bytes.fromhex(span_id * 8),
            parent_span_id=b"" if is_root else b"\x01" * 8,
            name="x" * size,
        )
        for key, value in texts.items():
            span.attributes.add(key=key).value.string_value = value
    return request


def evaluation(trace: str = TRACE, service: str = "judge") -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    owner = request.resource_logs.add()
    owner.resource.attributes.add(key="service.name").value.string_value = service
    records = owner.scope_logs.add().log_records
    records.add(trace_id=bytes.fromhex(trace), event_name="gen_ai.evaluation.result")
    records.add(trace_id=bytes.fromhex(trace), event_name="something else")
    return request


@dataclass
class OtlpSystem:
    """The reception and the learning of traces, with a clock, and scripted services behind them."""

    repository: TraceRepository
    receiver: ExportReceiver
    learning: TraceLearning
    now: datetime
    principal: Principal = SYSTEM
    failures: list[HanseiError] = field(default_factory=list)
    parsed: list[Any] = field(default_factory=list)
    jobs: list[tuple[str, str]] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    reports: list[evidence.ReportOutcomeRequest] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    trajectory: reflector.ParsedTrajectory = field(default_factory=reflector.ParsedTrajectory)

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    async def ParseTrajectories(
        self, request: reflector.ParseTrajectoriesRequest
    ) -> reflector.ParseTrajectoriesResponse:
        if self.failures:
            raise self.failures.pop(0)
        self.parsed.append([json.loads(line) for line in request.content.splitlines()])
        parsed = reflector.ParsedTrajectory()
        parsed.CopyFrom(self.trajectory)
        parsed.trajectory.dataset = request.dataset
        return reflector.ParseTrajectoriesResponse(trajectories=[parsed])

    async def ReportOutcome(self, request: evidence.ReportOutcomeRequest) -> evidence.ReportOutcomeResponse:
        self.reports.append(request)
        return evidence.ReportOutcomeResponse(counted=True)

    async def submit(self, requests: AsyncIterator[bulk.SubmitTrajectoriesRequest]) -> None:
        head, batch = [request async for request in requests]
        assert len(batch.batch.trajectories) == 1
        if any(job_id == head.head.request_id for job_id, _ in self.jobs):
            raise RequestIdReused(head.head.request_id, "other spans")
        self.jobs.append((head.head.request_id, head.head.dataset))

    async def add_owner(self, job_id: str, tenant: str) -> None:
        self.owners[job_id] = tenant

    async def learn_due(self) -> int:
        count = 0
        while await self.learning.learn_next():
            count += 1
        return count


@asynccontextmanager
async def open_system(folder: Path, datasets: str = "shop=d", now: datetime | None = None) -> AsyncIterator[OtlpSystem]:
    system: OtlpSystem
    database = Database(str(folder / "gateway.db"), MIGRATIONS, service="gateway", store="traces")
    repository = TraceRepository(database, LIMITS, lambda: system.now)

    class Peers:
        def __getattr__(self, name: str) -> Any:
            return getattr(system, name)

    peers = Peers()
    learning = TraceLearning(
        repository,
        peers,
        lambda requests: system.submit(requests),
        peers,
        lambda job_id, tenant: system.add_owner(job_id, tenant),
        lambda: system.now,
        count=lambda outcome: system.counts.append(outcome),
    )
    receiver = ExportReceiver(repository, parse_datasets(datasets), lambda: system.principal)
    system = OtlpSystem(repository, receiver, learning, now or datetime(2026, 11, 25, tzinfo=UTC))
    await database.open()
    try:
        yield system
    finally:
        await database.close()


async def test_a_trace_is_learned_once_its_root_has_ended_and_settled(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        await system.receiver.receive_spans(spans("a1", "a2"))
        system.advance(60)
        assert await system.learn_due() == 0
        await system.receiver.receive_spans(spans("a3", root=True))
        system.advance(9)
        await system.receiver.receive_spans(spans("a4"))  # late, but before the trace has settled
        system.advance(9)
        assert await system.learn_due() == 0
        system.advance(1)
        assert await system.learn_due() == 1
        [documents] = system.parsed
        ids = [
            span["spanId"] for document in documents for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]
        ]
        assert ids == ["a1" * 8, "a2" * 8, "a3" * 8, "a4" * 8]
        assert documents[0]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] == TRACE
        assert [dataset for _, dataset in system.jobs] == ["d"]
        assert await system.learn_due() == 0


async def test_exports_are_split_outside_the_event_loop(tmp_path: Path) -> None:
    class ObservedDatasets(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            threads.append(threading.get_ident())
            return super().get(name, default)

    threads: list[int] = []
    async with open_system(tmp_path) as system:
        receiver = ExportReceiver(system.repository, ObservedDatasets(shop="d", judge="d"), lambda: SYSTEM)
        await receiver.receive_spans(spans("a1"))
        await receiver.receive_logs(evaluation())
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_a_trace_without_a_root_is_learned_when_it_is_idle(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        await system.receiver.receive_spans(spans("a1"))
        system.advance(30 * 60)
        assert await system.learn_due() == 1
        assert len(system.jobs) == 1


async def test_spans_after_the_end_are_rejected_with_the_reason(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        await system.receiver.receive_spans(spans("a1", root=True))
        system.advance(10)
        await system.learn_due()
        response = await system.receiver.receive_spans(spans("a2", "a3"))
        assert response.partial_success.rejected_spans == 2
        assert response.partial_success.error_message == "the trace was learned or given up before"


async def test_traces_survive_a_restart_and_a_crash_during_learning(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        await system.receiver.receive_spans(spans("a1", root=True))
        system.advance(10)
        assert await system.repository.claim_due() is not None  # the process dies
    async with open_system(tmp_path, now=datetime(2026, 11, 25, 0, 0, 30, tzinfo=UTC)) as system:
        assert await system.learn_due() == 0  # still claimed
        system.advance(60)
        assert await system.learn_due() == 1
        assert len(system.jobs) == 1
        job_id = system.jobs[0][0]
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    async with open_system(other_folder) as system:
        system.jobs.append((job_id, "d"))
        await system.receiver.receive_spans(spans("a1", root=True))
        system.advance(10)
        assert await system.learn_due() == 1  # the same job id: nothing is submitted twice
        assert len(system.jobs) == 1
        assert system.counts == ["learned"]


async def test_an_unavailable_service_postpones_and_a_refused_trace_is_given_up(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        system.failures += [Unavailable("away"), InvalidArgument("holds no trajectory")]
        await system.receiver.receive_spans(spans("a1", root=True))
        system.advance(10)
        assert await system.learn_due() == 1
        assert await system.learn_due() == 0
        system.advance(15)
        assert await system.learn_due() == 1
        assert (system.jobs, system.counts) == ([], ["given up"])
        system.advance(3600)
        assert await system.learn_due() == 0


async def test_a_stored_trace_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        damaged = TracePart(TraceKey("d", OTHER), PartKind.SPANS, b"\xff", 1, has_root=True)
        await system.repository.add_parts("", [damaged])
        system.advance(1)
        await system.receiver.receive_spans(spans("a1", root=True))
        system.advance(10)
        running = asyncio.create_task(system.learning.run())
        async with asyncio.timeout(20):
            while not system.jobs:
                system.learning.notify()
                await asyncio.sleep(0.01)
        running.cancel()
        assert system.counts == ["learned"]


async def test_an_evaluation_that_comes_later_is_reported_for_the_servings(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        system.trajectory.trajectory.serving_ids.append("s-1")
        await system.receiver.receive_spans(spans("a1", root=True))
        system.advance(10)
        await system.learn_due()
        assert system.reports == []
        system.trajectory.trajectory.reward = 0.25
        # The evaluator is another service, without a dataset: its event names the trace.
        response = await system.receiver.receive_logs(evaluation())
        assert response.partial_success.rejected_log_records == 0
        system.advance(10)
        assert await system.learn_due() == 1
        assert len(system.parsed[-1]) == 2  # read with its trace
        assert [(report.serving_id, report.reward) for report in system.reports] == [("s-1", 0.25)]
        assert len(system.jobs) == 1
        response = await system.receiver.receive_logs(evaluation(OTHER))
        assert response.partial_success.rejected_log_records == 1
        assert "service.name 'judge' has no dataset" in response.partial_success.error_message


async def test_datasets_come_from_the_resource_or_the_setting_and_belong_to_the_caller(tmp_path: Path) -> None:
    async with open_system(tmp_path, "shop=d") as system:
        response = await system.receiver.receive_spans(spans("a1", resource={"service.name": "web"}))
        assert response.partial_success.rejected_spans == 1
        assert "service.name 'web' has no dataset" in response.partial_success.error_message
        system.principal = Principal("ci", tenant="acme", scopes=frozenset({"learn"}))
        response = await system.receiver.receive_spans(spans("a1"))
        assert response.partial_success.error_message == "no dataset 'd'"
        response = await system.receiver.receive_spans(spans("a1", resource={"hansei.dataset": "bad name"}))
        assert "'bad name' is no dataset" in response.partial_success.error_message
        response = await system.receiver.receive_spans(spans("a1", root=True, resource={"hansei.dataset": "acme--d"}))
        assert not response.HasField("partial_success")
        system.advance(10)
        assert await system.learn_due() == 1
        [(job_id, dataset)] = system.jobs
        assert (dataset, system.owners) == ("acme--d", {job_id: "acme"})
        # The events of another tenant do not reach the trace.
        system.principal = Principal("evil", tenant="evil", scopes=frozenset({"learn"}))
        assert (await system.receiver.receive_logs(evaluation())).partial_success.rejected_log_records == 1


async def test_a_trace_that_is_too_large_is_given_up(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        await system.receiver.receive_spans(spans("a1", size=3_000))
        response = await system.receiver.receive_spans(spans("a2", size=3_000, root=True))
        assert response.partial_success.rejected_spans == 1
        system.advance(3600)
        assert await system.learn_due() == 0


async def test_a_trace_that_is_too_large_for_the_reflector_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learn_traces, "MAX_DOCUMENT_BYTES", 400)
    async with open_system(tmp_path) as system:
        await system.receiver.receive_spans(spans("a1", size=10, root=True))
        await system.receiver.receive_spans(spans("b1", "b2", "b3", trace=OTHER, size=10, root=True))
        system.advance(10)
        assert await system.learn_due() == 2
        assert sorted(system.counts) == ["given up", "learned"]
        system.advance(3600)
        assert await system.learn_due() == 0


async def test_learned_traces_are_deleted_for_new_ones_and_then_exports_are_refused(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        for number in range(3):
            trace = f"{number + 1:032x}"
            await system.receiver.receive_spans(spans("a1", trace=trace, size=3_500, root=True))
        with pytest.raises(TraceStoreFull) as full:
            await system.receiver.receive_spans(spans("a1", trace=OTHER, size=3_500))
        assert full.value.retry_after
        system.advance(10)
        assert await system.learn_due() == 3
        response = await system.receiver.receive_spans(spans("a1", trace=OTHER, size=3_500))
        assert not response.HasField("partial_success")


async def test_learned_traces_are_deleted_when_their_retention_is_over(tmp_path: Path) -> None:
    async with open_system(tmp_path) as system:
        await system.receiver.receive_spans(spans("a1", root=True))
        system.advance(10)
        await system.learn_due()
        assert await system.repository.delete_expired() == 0
        system.advance(24 * 3600 + 1)
        assert await system.repository.delete_expired() == 1
        assert await system.repository.find_datasets("", [TRACE]) == {}


@pytest.mark.parametrize("ids", [(b"\x01" * 15, b"\x01" * 8), (b"\x01" * 16, b"")])
async def test_spans_without_valid_ids_are_rejected(tmp_path: Path, ids: tuple[bytes, bytes]) -> None:
    async with open_system(tmp_path) as system:
        request = spans("a1")
        span = request.resource_spans[0].scope_spans[0].spans[0]
        span.trace_id, span.span_id = ids
        response = await system.receiver.receive_spans(request)
        assert "trace_id of 16 bytes" in response.partial_success.error_message


def test_json_and_protobuf_have_the_same_contents() -> None:
    document = {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
                "scopeSpans": [{"spans": [{"traceId": TRACE, "spanId": "a1" * 8, "kind": 3, "later": {"x": 1}}]}],
            }
        ]
    }
    message = decode_request(json.dumps(document).encode(), JSON, ExportTraceServiceRequest())
    assert message.resource_spans[0].scope_spans[0].spans[0].trace_id.hex() == TRACE
    again = decode_request(message.SerializeToString(), PROTOBUF, ExportTraceServiceRequest())
    assert again == message


@pytest.mark.parametrize(
    ("body", "content_type", "rule"),
    [
        (b"{", JSON, "not OTLP JSON"),
        (b"[]", JSON, "must be a JSON object"),
        (b'{"resourceSpans": 3}', JSON, "resourceSpans must be a list"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}', JSON, "must be hexadecimal"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": 3}]}]}]}', JSON, "not OTLP JSON"),
        (b"[" * 100_000, JSON, "not OTLP JSON"),
        (b"\xff\xff", PROTOBUF, "not a ExportTraceServiceRequest"),
        (b"", "text/plain", "content-type 'text/plain' is not supported"),
    ],
)
def test_bodies_that_are_no_export_are_refused(body: bytes, content_type: str, rule: str) -> None:
    with pytest.raises(MalformedExport, match=rule):
        decode_request(body, content_type, ExportTraceServiceRequest())


def test_compressed_bodies_are_bounded() -> None:
    assert decompress(gzip.compress(b"a" * 100), "gzip", 100) == b"a" * 100
    for body, encoding, limit in (
        (gzip.compress(b"a" * 10_000), "gzip", 100),
        (gzip.compress(b"a" * 100)[:-9], "gzip", 1_000),
        (b"plain", "gzip", 100),
        (b"plain", "br", 100),
    ):
        with pytest.raises(MalformedExport):
            decompress(body, encoding, limit)


@pytest.mark.parametrize("text", ["shop", "=d", "shop=bad name", "shop=a,shop=b"])
def test_wrong_mappings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|twice"):
        parse_datasets(text)
    assert parse_datasets(" shop = a , * = b,") == {"shop": "a", "*": "b"}


@pytest.mark.parametrize(("size", "is_in_thread"), [(10, False), (LARGE_BYTES, True)])
async def test_large_exports_are_decoded_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, is_in_thread: bool
) -> None:
    threads: list[int] = []

    def decode(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return decode_request(*arguments)

    monkeypatch.setattr(otlp, "decode_request", decode)
    span = {"traceId": TRACE, "spanId": "a1" * 8, "name": "x" * size}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    async with open_system(tmp_path) as system:
        router = otlp.build_routes(system.receiver, Authentication(None), max_bytes=10 * LARGE_BYTES)
        app = FastAPI()
        app.include_router(router)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
            response = await client.post("/v1/traces", content=body, headers={"Content-Type": JSON})
    assert (response.status_code, [ident != threading.get_ident() for ident in threads]) == (200, [is_in_thread])
