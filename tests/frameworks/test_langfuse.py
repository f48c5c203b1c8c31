"""Langfuse's own client writes a LangGraph agent to a server that records it; its models write what its API returns."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from services.reflector.adapters.importers.files import read_trajectories
from tests.frameworks.scripted_runs import RUNS, TASK, check_run

pytest.importorskip("langfuse", reason="the frameworks are not installed: make test-frameworks")
from google.protobuf.json_format import MessageToJson
from langchain.agents import create_agent
from langfuse import Langfuse
from langfuse.langchain import CallbackHandler
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from tests.frameworks.test_langgraph import build_model, invert


class LangfuseServer(ThreadingHTTPServer):
    """Records spans and scores, and returns them as the API does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans = ExportTraceServiceRequest()
        self.scores: list[dict[str, Any]] = []

    @property
    def observations(self) -> list[dict[str, Any]]:
        """Return the spans as observations, as the server of Langfuse derives them from attributes."""
        return [
            _build_observation(span)
            for resource in self.spans.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def _build_observation(span: Any) -> dict[str, Any]:
    attributes = {item.key.removeprefix("langfuse.observation."): item.value.string_value for item in span.attributes}
    return {
        "id": span.span_id.hex(),
        "traceId": span.trace_id.hex(),
        "parentObservationId": span.parent_span_id.hex() or None,
        "projectId": "p",
        "type": attributes.get("type", "span").upper(),
        "name": span.name,
        "startTime": datetime.fromtimestamp(span.start_time_unix_nano / 1e9, UTC).isoformat(),
        "level": attributes.get("level", "DEFAULT"),
        "statusMessage": attributes.get("status_message"),
        "input": attributes.get("input"),
        "output": attributes.get("output"),
        "usageDetails": json.loads(attributes.get("usage_details") or "{}"),
    }


class _Handler(BaseHTTPRequestHandler):
    server: LangfuseServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        if self.path.endswith("/otel/v1/traces"):
            self.server.spans.MergeFromString(body)
            return self._reply(b"", "application/x-protobuf")
        events = json.loads(body)["batch"]
        self.server.scores += [event["body"] for event in events if event["type"] == "score-create"]
        accepted = [{"id": event["id"], "status": 201} for event in events]
        return self._reply(json.dumps({"successes": accepted, "errors": []}).encode())

    def do_GET(self) -> None:
        path, now = urlsplit(self.path).path, datetime.now(UTC).isoformat()
        found = self.server.observations
        if "scores" in path:
            fields = {
                "timestamp": now,
                "createdAt": now,
                "updatedAt": now,
                "source": "API",
                "projectId": "p",
                "metadata": {},
            }
            fields["environment"] = "default"
            found = [{**score, **fields} for score in self.server.scores]
        if "v3/scores" in path:
            found = [{**score, "subject": {"kind": "trace", "id": score.pop("traceId")}} for score in found]
        meta = {"page": 1, "limit": 50, "totalItems": len(found), "totalPages": 1}
        self._reply(json.dumps({"data": found, "meta": meta}).encode())

    def _reply(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""


@pytest.fixture
def server() -> Iterator[LangfuseServer]:
    with LangfuseServer() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def record(server: LangfuseServer, run: str, **score: Any) -> Langfuse:
    """Run the agent of a scripted run, and send its observations and a score."""
    client = Langfuse(
        public_key=f"pk-{server.server_port}",
        secret_key="sk",
        base_url=f"http://127.0.0.1:{server.server_port}",
        tracer_provider=TracerProvider(),
    )
    handler = CallbackHandler(public_key=f"pk-{server.server_port}")
    agent = create_agent(build_model(RUNS[run]), [invert], system_prompt="Be brief.")
    agent.invoke({"messages": [("user", TASK)]}, config={"callbacks": [handler]})
    if score:
        client.create_score(trace_id=handler.last_trace_id, **score)
    client.flush()
    return client


@pytest.mark.parametrize("name", RUNS)
def test_observations_of_its_api_are_read(server: LangfuseServer, name: str) -> None:
    client = record(server, name)
    response = client.api.observations.get_many(fields="core,basic,io,usage")
    client.shutdown()
    check_run(response.json().encode(), name, "langfuse")


@pytest.mark.parametrize("name", RUNS)
def test_its_spans_are_read(server: LangfuseServer, name: str) -> None:
    record(server, name).shutdown()
    check_run(MessageToJson(server.spans).encode(), name, "otel")


@pytest.mark.parametrize("version", [2, 3])
def test_a_score_of_its_api_is_the_outcome(server: LangfuseServer, version: int) -> None:
    client = record(server, "gave up", name="correctness", value=0.0, data_type="NUMERIC", comment="no answer")
    observations = client.api.observations.get_many(fields="core,basic,io").data
    api = client.api
    scores = api.scores.get_many().data if version == 2 else api.scores_v3.get_many_v3(fields="details,subject").data
    client.shutdown()
    lines = [item.json() for item in [*observations, *scores]]
    (recorded,) = read_trajectories("\n".join(lines).encode(), "frameworks").trajectories
    assert (recorded.trajectory.status, recorded.trajectory.reward) == ("failure", 0.0)
    assert recorded.test_report == "Failed.\nSource: Langfuse's score correctness is 0.0 (no answer)."
