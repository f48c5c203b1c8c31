"""One trace from caller to callee, as a collector receives it over OTLP."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from chassis.tests.probe import pb, rpc
from chassis.tests.process import ProbeProcess, probe_process

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector(trace_service_pb2_grpc.TraceServiceServicer, metrics_service_pb2_grpc.MetricsServiceServicer):
    """Stores the spans that it receives."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        self.metrics: set[str] = set()

    async def Export(self, request: Any, context: Any) -> Any:
        if isinstance(request, metrics_service_pb2.ExportMetricsServiceRequest):
            for resource in request.resource_metrics:
                self.metrics |= {metric.name for scope in resource.scope_metrics for metric in scope.metrics}
            return metrics_service_pb2.ExportMetricsServiceResponse()
        for resource in request.resource_spans:
            (name,) = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
            self.spans += [(name, span) for scope in resource.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


async def test_a_call_continues_the_trace_of_its_caller_and_is_exported_before_exit() -> None:
    collector, server = Collector(), grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()

    async with AsyncExitStack() as stack:

        async def probe(name: str, **settings: str) -> tuple[ProbeProcess, str]:
            exporting = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SERVICE_NAME": name}
            process = await stack.enter_async_context(probe_process(**exporting, **settings))
            return process, (await process.read_until("server started"))["address"]

        callee, far = await probe("callee")
        caller, near = await probe("caller", HANSEI_NEXT_ADDR=far)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(near))
        await rpc.ProbeServiceStub(channel).Trace(
            pb.TraceRequest(hops=1), metadata=[("traceparent", f"00-{TRACE}-{PARENT}-01")], timeout=60
        )
        for process in (caller, callee):
            process.terminate()
            assert await process.read_rest() == 0
    await server.stop(None)

    spans = {(service, span.kind): span for service, span in collector.spans}
    served = spans["caller", Span.SPAN_KIND_SERVER]
    inner_call = spans["caller", Span.SPAN_KIND_CLIENT]
    answered = spans["callee", Span.SPAN_KIND_SERVER]
    assert len(collector.spans) == 3
    assert {span.name for span in spans.values()} == {"probe.v1.ProbeService/Trace"}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert served.parent_span_id.hex() == PARENT
    assert inner_call.parent_span_id == served.span_id
    assert answered.parent_span_id == inner_call.span_id
    assert {"rpc.server.duration", "rpc.client.duration"} <= collector.metrics
