"""A collector of traces: a gRPC server that speaks OTLP and stores the received spans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

WAIT_SECONDS = 60


class Collector(trace_service_pb2_grpc.TraceServiceServicer, metrics_service_pb2_grpc.MetricsServiceServicer):
    """Keeps spans, each with the name of the service that sent it. Metrics are taken and dropped."""

    def __init__(self) -> None:
        self.endpoint = ""
        self._spans: list[tuple[str, Any]] = []
        self._changed = threading.Condition()

    def Export(self, request: Any, context: Any) -> Any:
        if isinstance(request, metrics_service_pb2.ExportMetricsServiceRequest):
            return metrics_service_pb2.ExportMetricsServiceResponse()
        with self._changed:
            for resource in request.resource_spans:
                names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
                found = (span for scope in resource.scope_spans for span in scope.spans)
                self._spans += [(names["service.name"], span) for span in found]
            self._changed.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def wait_for_spans(self, enough: Callable[[list[tuple[str, Any]]], bool]) -> list[tuple[str, Any]]:
        """Return all spans as soon as they are enough, or after a minute."""
        with self._changed:
            self._changed.wait_for(lambda: enough(self._spans), WAIT_SECONDS)
            return list(self._spans)


@contextmanager
def collector() -> Iterator[Collector]:
    """Yield a collector on loopback, as long as the block."""
    made = Collector()
    server = grpc.server(ThreadPoolExecutor(4))
    add: tuple[Any, ...] = (
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server,
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server,
    )
    for addition in add:
        addition(made, server)
    made.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield made
    finally:
        server.stop(None).wait()
