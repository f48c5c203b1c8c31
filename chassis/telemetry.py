"""OpenTelemetry for every incoming and outgoing call: W3C trace context, spans, and rate, errors and duration.

Services also use ``tracer`` and ``meter``: ``meter.create_counter("hansei.votes", unit="{vote}")``. Without `install`
(in tests, in the SDK) they record nothing.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from chassis.errors import BadSetting
from chassis.memory_spans import get_memory_operation, set_memory_attributes

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACE_KEYS = ("traceparent", "tracestate")
_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

tracer = trace.get_tracer("hansei")
meter = metrics.get_meter("hansei")
_propagator = TraceContextTextMapPropagator()
_durations = {
    side: meter.create_histogram(
        f"rpc.{side}.duration",
        unit="s",
        description=f"Duration of calls at the {side} side, by method and status.",
        explicit_bucket_boundaries_advisory=_SECONDS,
    )
    for side in ("server", "client")
}
_failures = meter.create_counter(
    "hansei.calls.failed", unit="{call}", description="Failed calls of a service, by method, status and reason."
)
MAX_REASONS = 50
"""Pairs of status and reason that are counted for a method; others have the reason OTHER. Each is a time series."""


class MethodTelemetry:
    """The spans and the durations of one method, on the server or client side."""

    def __init__(self, path: str, kind: SpanKind) -> None:
        service, _, method = path.lstrip("/").partition("/")
        self._path = path
        self._kind = kind
        self._is_caller = kind is SpanKind.CLIENT
        self._operation = get_memory_operation(path) if self._is_caller else ""
        self._name = self._operation or f"{service}/{method}"
        self._histogram = _durations["server" if kind is SpanKind.SERVER else "client"]
        self._attributes: dict[str, str] = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        self._by_code: dict[str, dict[str, str]] = {}
        self._by_reason: dict[tuple[str, str], dict[str, str]] = {}

    def begin(self, parent: Context | None = None) -> Span:
        """Start a span; the caller ends it with `end`."""
        span = tracer.start_span(self._name, parent, kind=self._kind)
        if span.is_recording():
            span.set_attributes(self._attributes)
            if self._operation:
                span.set_attribute("gen_ai.operation.name", self._operation)
        return span

    def describe(self, span: Span, request: object, response: object) -> None:
        """Add what a call did with the memory of an agent to its span."""
        if span.is_recording():
            set_memory_attributes(self._path, span, request, response, is_caller=self._is_caller)

    def end(self, span: Span, code: str, seconds: float, reason: str = "") -> None:
        """Record the status and the duration of a call, and at the server side the reason of its failure."""
        attributes = self._by_code.get(code)
        if attributes is None:
            attributes = self._by_code[code] = {**self._attributes, "rpc.grpc.status_code": code}
        self._histogram.record(seconds, attributes)
        if code != "OK" and not self._is_caller:
            self._count_failure(attributes, code, reason or code)
        if span.is_recording():
            span.set_attribute("rpc.grpc.status_code", code)
            if code != "OK":
                span.set_status(Status(StatusCode.ERROR, code))
        span.end()

    def _count_failure(self, attributes: dict[str, str], code: str, reason: str) -> None:
        labels = self._by_reason.get((code, reason))
        if labels is None:
            if len(self._by_reason) < MAX_REASONS:
                labels = self._by_reason[code, reason] = {**attributes, "reason": reason}
            else:
                labels = {**attributes, "reason": "OTHER"}
        _failures.add(1, labels)


def extract_context(metadata: Iterable[tuple[str, str | bytes]]) -> Context | None:
    """Return the trace context in the metadata of a call; None if it starts a trace."""
    carrier = tuple((key, value) for key, value in metadata if key in _TRACE_KEYS and isinstance(value, str))
    return _parse_context(carrier) if carrier else None


@lru_cache(maxsize=256)
def _parse_context(carrier: tuple[tuple[str, str], ...]) -> Context:
    """Return the trace context. The calls that serve one call have the same, unless spans are recorded."""
    return _propagator.extract(dict(carrier), Context())


def enter(span: Span) -> None:
    """Make the span current for the rest of this task, whose context ends with the call; without a trace do nothing."""
    if span.get_span_context().is_valid:
        otel_context.attach(trace.set_span_in_context(span))


def build_metadata(span: Span) -> tuple[tuple[str, str], ...]:
    """Return the metadata that makes `span` the parent of an outgoing call; empty without a trace."""
    if not span.get_span_context().is_valid:
        return ()
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span))
    return tuple(carrier.items())


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The telemetry that `install` set up. ``close`` exports the remaining records and stops it.

    ``metrics_address`` is empty if metrics are not served.
    """

    metrics_address: str
    close: Callable[[], None]


def install(
    service: str, metrics_address: str, sample_ratio: float, context: ssl.SSLContext | None = None
) -> Telemetry:
    """Set up traces and metrics for this process, once: OTLP if its endpoint is set, Prometheus if an address is.

    With a `context`, metrics are served over TLS.
    """
    # Imported here, because clients share this module and never call `install`.
    from opentelemetry.sdk.resources import Resource

    closing = ExitStack()
    resource = Resource.create({"service.name": service})
    readers, served_at, stop_endpoint = _start_prometheus(metrics_address, context)
    closing.callback(stop_endpoint)
    if os.environ.get(ENDPOINT_VARIABLE):
        readers.append(_export_traces(resource, sample_ratio, closing))
    if readers:
        from opentelemetry.sdk.metrics import MeterProvider

        meter_provider = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        metrics.set_meter_provider(meter_provider)
        closing.callback(meter_provider.shutdown)
    return Telemetry(served_at, closing.close)


def _start_prometheus(
    address: str, context: ssl.SSLContext | None
) -> tuple[list[MetricReader], str, Callable[[], None]]:
    if not address:
        return [], "", lambda: None
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from prometheus_client import start_http_server

    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host.strip("[]") or "127.0.0.1")
    except (OSError, ValueError) as error:
        raise BadSetting(f"HANSEI_METRICS_ADDRESS: cannot serve metrics on {address!r}: {error}") from error

    if context is not None:
        # The handshake runs in the thread of the request, so a slow caller delays no other.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return [PrometheusMetricReader()], f"{host}:{server.server_port}", stop


def _export_traces(resource: Resource, sample_ratio: float, closing: ExitStack) -> MetricReader:
    """Export the spans of this process by OTLP until `closing`; return the reader that exports its metrics."""
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    sampler = ParentBased(TraceIdRatioBased(sample_ratio))
    traces = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    trace.set_tracer_provider(traces)
    closing.callback(traces.shutdown)
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return PeriodicExportingMetricReader(OTLPMetricExporter())
