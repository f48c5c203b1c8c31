"""Failed calls are counted by reason, within a limit of time series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import SpanKind

from chassis import telemetry


@pytest.fixture
def list_failures(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[tuple[str, str], int]]:
    """Return a function that returns the numbers of failed calls by status and reason."""
    reader = InMemoryMetricReader()
    counter = MeterProvider([reader], shutdown_on_exit=False).get_meter("hansei").create_counter("hansei.calls.failed")
    monkeypatch.setattr(telemetry, "_failures", counter)

    def count_failures() -> dict[tuple[str, str], int]:
        data: Any = reader.get_metrics_data()
        points = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points if data else []
        return {(str(p.attributes["rpc.grpc.status_code"]), str(p.attributes["reason"])): p.value for p in points}

    return count_failures


def test_failures_are_counted_by_status_and_reason(list_failures: Callable[[], dict[tuple[str, str], int]]) -> None:
    method = telemetry.MethodTelemetry("/probe.v1.ProbeService/Echo", SpanKind.SERVER)
    for code, reason in [("OK", ""), ("NOT_FOUND", "DATASET_NOT_FOUND"), ("NOT_FOUND", "NONE"), ("CANCELLED", "")] * 2:
        method.end(method.begin(), code, 0.1, reason)
    telemetry.MethodTelemetry("/p/Echo", SpanKind.CLIENT).end(method.begin(), "NOT_FOUND", 0.1, "NONE")
    assert list_failures() == {
        ("NOT_FOUND", "DATASET_NOT_FOUND"): 2,
        ("NOT_FOUND", "NONE"): 2,
        ("CANCELLED", "CANCELLED"): 2,
    }


def test_the_number_of_reasons_is_limited(list_failures: Callable[[], dict[tuple[str, str], int]]) -> None:
    method = telemetry.MethodTelemetry("/probe.v1.ProbeService/Echo", SpanKind.SERVER)
    for number in range(2 * telemetry.MAX_REASONS):
        method.end(method.begin(), "INTERNAL", 0.1, f"REASON_{number}")
    method.end(method.begin(), "INTERNAL", 0.1, "REASON_0")
    counts = list_failures()
    assert len(counts) == telemetry.MAX_REASONS + 1
    assert counts["INTERNAL", "OTHER"] == telemetry.MAX_REASONS
    assert counts["INTERNAL", "REASON_0"] == 2
