from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from libs.llm import tracing
from libs.llm.usage import Usage

CALL = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("test"))
    return exporter


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    monkeypatch.setattr(tracing, "_durations", meter.create_histogram("durations"))
    return reader


def points(reader: InMemoryMetricReader) -> list[HistogramDataPoint]:
    found = reader.get_metrics_data()
    assert found is not None
    (metric,) = found.resource_metrics[0].scope_metrics[0].metrics
    return [point for point in metric.data.data_points if isinstance(point, HistogramDataPoint)]


def test_a_call_is_a_span_with_its_tokens(spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
    with tracing.model_call("chat", "openai", "m") as span:
        tracing.set_span_usage(span, Usage("m", 3, None, None))
    (finished,) = spans.get_finished_spans()
    assert (finished.name, finished.kind, finished.status.is_ok) == ("chat m", SpanKind.CLIENT, True)
    assert finished.attributes == {**CALL, "gen_ai.usage.input_tokens": 3}
    (point,) = points(reader)
    assert (point.count, point.attributes) == (1, CALL)


def test_of_an_error_only_its_class_is_logged(spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
    with pytest.raises(ValueError, match="secret"), tracing.model_call("chat", "openai", "m"):
        raise ValueError("secret")
    (finished,) = spans.get_finished_spans()
    assert finished.attributes == {**CALL, "error.type": "ValueError"}
    assert not finished.events
    assert not finished.status.is_ok
    assert "secret" not in finished.to_json()
    (point,) = points(reader)
    assert point.attributes == {**CALL, "error.type": "ValueError"}
