"""Reads the tokens and the cost of the model calls of a trace, from attributes of its spans.

The attributes of OpenInference and those of earlier GenAI conventions are read too. A value that is no number is
ignored, as are other attributes of a wrong type: the trace of a running agent is never refused for its usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from services.reflector.adapters.importers.otlp import Span, Value
from services.reflector.adapters.importers.usage import add_usages, build_usage, parse_cost, parse_tokens
from services.reflector.domain.usage import TrajectoryUsage

Number = TypeVar("Number", int, float)

_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_COST = ("gen_ai.usage.cost", "llm.cost.total")


def encode_usage(usage: TrajectoryUsage | None) -> dict[str, Value]:
    """Return the attributes of a usage."""
    if usage is None:
        return {}
    return {
        _INPUT[0]: usage.input_tokens,
        _CACHED[0]: usage.cached_input_tokens,
        _OUTPUT[0]: usage.output_tokens,
        _COST[0]: usage.cost_usd,
    }


def sum_span_usages(calls: Iterable[Span], location: str) -> TrajectoryUsage | None:
    """Return the usage of calls, None without any. A call within another one is the same call, traced twice."""
    usages: dict[str, TrajectoryUsage] = {}
    parents: dict[str, str] = {}
    for span in calls:
        usage = _read_usage(span)
        if usage is not None:
            usages[span.id], parents[span.id] = usage, span.parent
    outermost = [usage for span_id, usage in usages.items() if parents[span_id] not in usages]
    return add_usages(outermost, location)


def _read_usage(span: Span) -> TrajectoryUsage | None:
    attributes = span.attributes
    return build_usage(
        span.location,
        _find_first(attributes, _INPUT, parse_tokens),
        _find_first(attributes, _CACHED, parse_tokens),
        _find_first(attributes, _OUTPUT, parse_tokens),
        _find_first(attributes, _COST, parse_cost),
    )


def _find_first(
    attributes: Mapping[str, Value], names: Iterable[str], parse: Callable[[object], Number | None]
) -> Number | None:
    numbers = (parse(attributes.get(name)) for name in names)
    return next((number for number in numbers if number is not None), None)
