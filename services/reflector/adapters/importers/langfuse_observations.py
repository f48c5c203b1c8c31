"""Translates an observation of Langfuse, of its API or of a span, into attributes of the GenAI conventions."""

from __future__ import annotations

import re

from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.message_parts import read_messages
from services.reflector.adapters.importers.otlp import Value
from services.reflector.adapters.importers.span_usage import encode_usage
from services.reflector.adapters.importers.trace_records import build_agent, build_model_call, build_tool_call
from services.reflector.adapters.importers.usage import build_usage, read_cost, read_tokens
from services.reflector.domain.usage import TrajectoryUsage

_CACHED = re.compile("input.*cached|cache_read.*input")
"""Names of tokens that were read from a cache; of those written to it the name is `cache_creation_input_tokens`."""
_MODELS = ("GENERATION",)
_TOOLS = ("TOOL",)
_AGENTS = ("AGENT", "CHAIN", "SPAN")


def read_attributes(record: Record) -> dict[str, Value]:
    """Return the attributes of an observation, none for a kind that has no messages. Raise MalformedTrajectory."""
    kind = record.get_text("type").upper()
    if kind in _TOOLS:
        return build_tool_call(record.get_text("name"), "", record.value.get("input"), record.value.get("output"))
    if kind not in (*_MODELS, *_AGENTS):
        return {}
    is_root = not record.has("parentObservationId") or record.value.get("isRootObservation") is True
    if kind not in _MODELS and not is_root and kind != "AGENT":
        return {}
    inputs = read_messages(record.value.get("input"), record.build_path("input"), "user")
    outputs = read_messages(record.value.get("output"), record.build_path("output"), "assistant")
    if kind in _MODELS:
        return {**build_model_call(inputs, outputs), **encode_usage(_read_usage(record))}
    return build_agent(record.get_text("name") if kind == "AGENT" else "", inputs, outputs)


def _read_usage(record: Record) -> TrajectoryUsage | None:
    """Return the usage of a call. Its details count a token under one name only, such as `input_cached_tokens`."""
    details = record.get_child("usageDetails") or record.get_child_or_empty("usage")
    if details.get_text("unit", "TOKENS") != "TOKENS":
        return None
    names = [name for name in details.value if not name.endswith("Cost")]
    tokens = {name: read_tokens(details, name) or 0 for name in names if "input" in name or "output" in name}
    costs = record.get_child_or_empty("costDetails")
    return build_usage(
        record.location,
        sum(count for name, count in tokens.items() if "input" in name),
        sum(count for name, count in tokens.items() if _CACHED.search(name)),
        sum(count for name, count in tokens.items() if "output" in name),
        read_cost(costs, "total") or read_cost(record, "totalCost", "calculatedTotalCost"),
    )
