"""Settings of the traces that arrive by OTLP."""

from __future__ import annotations

from pydantic import Field

from chassis.settings import Settings


class OtlpSettings(Settings):
    """Settings of the assembly of trajectories from traces."""

    otlp_datasets: str = ""
    """Datasets by the `service.name` of a trace: `shop-agent=shop,billing=bills`; the name `*` stands for all others.
    The resource attribute `hansei.dataset` takes precedence. Traces without a dataset are not stored."""

    otlp_settle_seconds: float = Field(10.0, gt=0, le=3600)
    """Seconds without a new span after which a trace whose root has ended is learned."""

    otlp_idle_seconds: float = Field(1800.0, gt=0, le=86_400)
    """Seconds without a new span after which a trace whose root never arrived is learned from the spans that
    arrived."""

    otlp_retention_hours: float = Field(24.0, gt=0, le=720)
    """Hours for which a learned trace is kept, so that scores and feedback that arrive later are joined with it."""

    otlp_trace_max_bytes: int = Field(8 * 1024 * 1024, ge=1024, le=12_000_000)
    """Bytes of the spans of one trace; a larger trace is dropped and not learned."""

    otlp_max_bytes: int = Field(256 * 1024 * 1024, ge=1024)
    """Bytes of all stored spans. Learned traces are deleted first; then exports are refused with RESOURCE_EXHAUSTED."""
