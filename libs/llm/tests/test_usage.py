from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from pydantic import ValidationError

from hansei.playbook.v1.usage_pb2 import ModelUsage
from libs.llm.usage import Price, Usage, collect_usage, compute_cost, encode_usage, record


def usage(sent: int | None = 10, received: int | None = 5, cost: float | None = 0.5) -> Usage:
    return Usage("m", sent, received, cost)


def test_usage_sums_the_calls_of_its_block() -> None:
    record(usage())
    with collect_usage() as outer:
        record(usage())
        with collect_usage() as inner:
            record(usage(sent=1, received=2, cost=0.25))
    record(usage())
    assert (inner.calls, inner.input_tokens, inner.output_tokens, inner.cost_usd) == (1, 1, 2, 0.25)
    assert (outer.calls, outer.input_tokens, outer.output_tokens, outer.cost_usd) == (2, 11, 7, 0.75)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    with collect_usage() as total:
        record(usage())
        record(usage(cost=None))
        record(usage(sent=None, received=None, cost=None))
    assert (total.calls, total.input_tokens, total.output_tokens, total.cost_usd) == (3, None, None, None)


def test_the_contract_gets_the_known_sums_and_the_number_of_unknown_calls() -> None:
    with collect_usage() as total:
        assert encode_usage(total) == ModelUsage()
        record(usage())
        record(usage(cost=None))
        record(usage(sent=None, received=None, cost=None))
    assert encode_usage(total) == ModelUsage(
        calls=3, input_tokens=20, output_tokens=10, calls_without_tokens=1, cost_usd=0.5, calls_without_cost=2
    )


def test_no_calls_cost_nothing() -> None:
    with collect_usage() as total:
        pass
    assert (total.calls, total.input_tokens, total.cost_usd) == (0, 0, 0)


async def test_usage_counts_calls_of_tasks_started_inside_and_no_others() -> None:
    async def spend() -> int:
        with collect_usage() as own:
            record(usage())
            await asyncio.sleep(0)
        return own.calls

    with collect_usage() as total:
        assert list(await asyncio.gather(spend(), spend())) == [1, 1]
    assert total.calls == 2


def test_cost_is_known_only_when_everything_in_it_is() -> None:
    price = Price(input=0.15, output=0.60)
    assert compute_cost(1_000_000, 500_000, price) == pytest.approx(0.45)
    assert compute_cost(0, 0, price) == 0
    assert compute_cost(None, 1, price) is None
    assert compute_cost(1, None, price) is None
    assert compute_cost(1, 1, None) is None
    assert compute_cost(1_000_000, None, Price(input=0.02)) == pytest.approx(0.02)


@pytest.mark.parametrize("price", [{"input": -1}, {"input": float("inf")}, {"input": 1, "out": 2}, {}])
def test_a_price_that_is_none_is_refused(price: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Price.model_validate(price)


def test_calls_are_in_the_metrics_of_the_process_and_unknown_numbers_are_not() -> None:
    program = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from libs.llm.usage import Usage, record
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
record(Usage("m", 10, 5, 0.5, attempts=2))
record(Usage("m", None, None, None))
for metric in sorted(reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics, key=lambda m: m.name):
    for point in metric.data.data_points:
        sum = getattr(point, "value", None) or point.sum
        print(metric.name, sum, *(value for name, value in point.attributes.items() if name != "gen_ai.request.model"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "gen_ai.client.token.usage 10 input",
        "gen_ai.client.token.usage 5 output",
        "hansei.llm.attempts 3",
        "hansei.llm.calls 1 True",
        "hansei.llm.calls 1 False",
        "hansei.llm.cost 0.5",
    ]
