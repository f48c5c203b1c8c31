"""Metrics of traces."""

from __future__ import annotations

from chassis.telemetry import meter

_items = meter.create_counter(
    "hansei.otlp.items", unit="{item}", description="Spans and events that arrived by OTLP, by outcome."
)
_traces = meter.create_counter("hansei.otlp.traces", unit="{trace}", description="Complete traces, by outcome.")


def count_items(outcome: str, items: int) -> None:
    """Count spans or events."""
    _items.add(items, {"outcome": outcome})


def count_trace(outcome: str) -> None:
    """Count one trace."""
    _traces.add(1, {"outcome": outcome})
