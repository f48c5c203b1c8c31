"""Reads the tokens and the cost of model calls, under the names that providers and frameworks give them.

Numbers of logs are taken as they are; nothing is estimated, and no cost is computed from a price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from services.reflector.adapters.importers.json_records import Record, build_model
from services.reflector.domain.usage import MAX_COST_USD, MAX_TOKENS, TrajectoryUsage

Number = TypeVar("Number", int, float)

_INPUT = ("input_tokens", "prompt_tokens", "total_prompt_tokens", "request_tokens", "tokens_sent")
_OUTPUT = ("output_tokens", "completion_tokens", "total_completion_tokens", "response_tokens", "tokens_received")
_CACHED = (
    "cached_input_tokens",
    "cached_tokens",
    "total_cached_tokens",
    "cache_read_tokens",
    "cache_read_input_tokens",
)
_COST = ("cost_usd", "total_cost_usd", "instance_cost", "total_cost", "cost")
_DETAILS = {
    "input_tokens_details": "cached_tokens",
    "prompt_tokens_details": "cached_tokens",
    "input_token_details": "cache_read",
    "prompt_token_details": "cache_read",
}
"""Objects with parts of the input tokens, and the name of the cached part."""
_BESIDE_INPUT = ("cache_creation_input_tokens", "cache_read_input_tokens")
"""Tokens of Anthropic that its `input_tokens` do not include."""
_MAX_DIGITS = 20


def parse_tokens(value: object) -> int | None:
    """Return a number of tokens, None for any other value. JSON of protobuf writes 64-bit numbers as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_TOKENS else None


def parse_cost(value: object) -> float | None:
    """Return an amount of US dollars, None for any other value. Decimal numbers are written as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = float(value)
    except (ValueError, OverflowError):
        return None
    return amount if 0 <= amount <= MAX_COST_USD else None


def read_tokens(record: Record, *names: str) -> int | None:
    """Return the tokens of the first field that is there, None without one. Raise MalformedTrajectory."""
    return _read_first(record, names, parse_tokens, f"must be a whole number from 0 to {MAX_TOKENS:,}")


def read_cost(record: Record, *names: str) -> float | None:
    """Return the US dollars of the first field that is there, None without one. Raise MalformedTrajectory."""
    return _read_first(record, names, parse_cost, f"must be US dollars from 0 to {MAX_COST_USD:,}")


def _read_first(
    record: Record, names: Iterable[str], parse: Callable[[object], Number | None], rule: str
) -> Number | None:
    name = next((name for name in names if record.has(name)), None)
    if name is None:
        return None
    number = parse(record.value[name])
    if number is None:
        raise record.build_error(name, rule)
    return number


def read_usage(record: Record | None) -> TrajectoryUsage | None:
    """Return the usage of a model call, None without one. Raise MalformedTrajectory with the field."""
    if record is None:
        return None
    tokens, cached = read_tokens(record, *_INPUT), read_tokens(record, *_CACHED)
    for name, part in _DETAILS.items():
        details = record.value.get(name)
        if cached is None and isinstance(details, dict):
            cached = read_tokens(Record(details, record.build_path(name)), part)
    if record.has("input_tokens"):
        tokens = (tokens or 0) + sum(read_tokens(record, name) or 0 for name in _BESIDE_INPUT)
    return build_usage(record.location, tokens, cached, read_tokens(record, *_OUTPUT), read_cost(record, *_COST))


def build_usage(
    location: str, input_tokens: int | None, cached: int | None, output_tokens: int | None, cost: float | None
) -> TrajectoryUsage | None:
    """Return the usage of a call, None if no value is known. Raise MalformedTrajectory.

    Programs write a 0 for tokens that they do not know, and for the cost of models whose price they do not know.
    Cached tokens beyond the input tokens are not among them, so they are added.
    """
    if not input_tokens and not output_tokens and not cached:
        input_tokens = cached = output_tokens = None
    if cached and cached > (input_tokens or 0):
        input_tokens = (input_tokens or 0) + cached
    usage = build_model(
        TrajectoryUsage,
        location,
        input_tokens=input_tokens,
        cached_input_tokens=cached,
        output_tokens=output_tokens,
        cost_usd=cost or None,
    )
    return usage if usage.is_known else None


def add_usages(usages: Iterable[TrajectoryUsage | None], location: str) -> TrajectoryUsage | None:
    """Return the sums of the known values, None if there are none. Raise MalformedTrajectory."""
    stated = [usage.model_dump(exclude_none=True) for usage in usages if usage is not None]
    if not stated:
        return None
    names = {name for values in stated for name in values}
    sums = {name: sum(values.get(name, 0) for values in stated) for name in names - {"cost_usd"}}
    if "cost_usd" in names:
        sums["cost_usd"] = math.fsum(values.get("cost_usd", 0) for values in stated)
    return build_model(TrajectoryUsage, location, **sums)
