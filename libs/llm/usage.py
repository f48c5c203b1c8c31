"""Usage of model calls: tokens as the provider counted them, cost by a table of prices.

An unknown value is None, never 0: some providers send no count, and some models have no price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from opentelemetry import metrics
from pydantic import BaseModel, ConfigDict, Field

from hansei.playbook.v1.usage_pb2 import ModelUsage

_MILLION = 1_000_000

# The names follow OpenTelemetry's conventions for generative AI, where those define one.
_meter = metrics.get_meter("hansei.llm")
_tokens = _meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of answered model calls.")
_cost = _meter.create_counter(
    "hansei.llm.cost", "{USD}", "Cost of answered model calls in US dollars, as far as it is known."
)
_calls = _meter.create_counter("hansei.llm.calls", "{call}", "Answered model calls.")
_attempts = _meter.create_counter("hansei.llm.attempts", "{attempt}", "Attempts of each answered model call.")

Number = TypeVar("Number", int, float)


class Price(BaseModel):
    """The price of a model, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(default=0.0, ge=0, allow_inf_nan=False)


PUBLISHED_PRICES: Mapping[str, Price] = {
    "gpt-4o": Price(input=2.50, output=10.00),
    "gpt-4o-mini": Price(input=0.15, output=0.60),
    "gpt-4.1": Price(input=2.00, output=8.00),
    "gpt-4.1-mini": Price(input=0.40, output=1.60),
    "text-embedding-3-small": Price(input=0.02),
    "text-embedding-3-large": Price(input=0.13),
}
"""List prices of OpenAI without discounts; the setting LLM_PRICES adds to them and overrides them."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of one successful model call, with the number of its attempts."""

    model: str
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    attempts: int = 1


@dataclass(slots=True)
class UsageTotal:
    """The usage of all calls under one `collect_usage()`; a sum is None if the value of one call is unknown."""

    usages: list[Usage] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """Return the number of successful calls."""
        return len(self.usages)

    @property
    def input_tokens(self) -> int | None:
        """Return the number of tokens sent."""
        return _sum(usage.input_tokens for usage in self.usages)

    @property
    def output_tokens(self) -> int | None:
        """Return the number of tokens received."""
        return _sum(usage.output_tokens for usage in self.usages)

    @property
    def cost_usd(self) -> float | None:
        """Return the cost in US dollars."""
        return _sum(usage.cost_usd for usage in self.usages)


def encode_usage(total: UsageTotal) -> ModelUsage:
    """Return the usage as a message: the sums of known values, and the number of calls without them."""
    usages = total.usages
    return ModelUsage(
        calls=len(usages),
        input_tokens=sum(usage.input_tokens or 0 for usage in usages),
        output_tokens=sum(usage.output_tokens or 0 for usage in usages),
        calls_without_tokens=sum(None in (usage.input_tokens, usage.output_tokens) for usage in usages),
        cost_usd=sum(usage.cost_usd or 0.0 for usage in usages),
        calls_without_cost=sum(usage.cost_usd is None for usage in usages),
    )


def _sum(parts: Iterable[Number | None]) -> Number | None:
    total: Number = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


_usage_totals: ContextVar[tuple[UsageTotal, ...]] = ContextVar("hansei_usage_totals", default=())


@contextmanager
def collect_usage() -> Iterator[UsageTotal]:
    """Collect the usage of every model call in the block and in the tasks started there; blocks may be nested."""
    total = UsageTotal()
    token = _usage_totals.set((*_usage_totals.get(), total))
    try:
        yield total
    finally:
        _usage_totals.reset(token)


def record(usage: Usage) -> None:
    """Add `usage` to every open total and to the metrics of the process."""
    for total in _usage_totals.get():
        total.usages.append(usage)
    model = {"gen_ai.request.model": usage.model}
    _calls.add(1, {**model, "cost_known": usage.cost_usd is not None})
    _attempts.add(usage.attempts, model)
    for direction, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
        if count is not None:
            _tokens.record(count, {**model, "gen_ai.token.type": direction})
    if usage.cost_usd is not None:
        _cost.add(usage.cost_usd, model)


def compute_cost(input_tokens: int | None, output_tokens: int | None, price: Price | None) -> float | None:
    """Return the cost of these tokens in US dollars; None if the price or a needed count is unknown."""
    if price is None or input_tokens is None or (output_tokens is None and price.output > 0):
        return None
    return (input_tokens * price.input + (output_tokens or 0) * price.output) / _MILLION
