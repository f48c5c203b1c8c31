"""Spans and durations of model calls, named as in OpenTelemetry's conventions for generative AI.

They never contain prompts or replies, which are user data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from libs.llm.usage import Usage

_tracer = trace.get_tracer("hansei.llm")
_durations = metrics.get_meter("hansei.llm").create_histogram(
    "gen_ai.client.operation.duration",
    "s",
    "Duration of model calls with all their attempts, by result.",
    explicit_bucket_boundaries_advisory=[0.01 * 2**power for power in range(14)],
)


@contextmanager
def model_call(operation: Literal["chat", "embeddings"], provider: str, model: str) -> Iterator[Span]:
    """Run one call, with all its attempts, in a span; of an error, the span records only the class name."""
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }
    began = time.perf_counter()
    ended = dict(attributes)
    with _tracer.start_as_current_span(
        f"{operation} {model}",
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            ended["error.type"] = type(error).__name__
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            _durations.record(time.perf_counter() - began, ended)


def set_span_usage(span: Span, usage: Usage) -> None:
    """Set the known token counts of a call on its span."""
    for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
        if tokens is not None:
            span.set_attribute(f"gen_ai.usage.{direction}_tokens", tokens)
