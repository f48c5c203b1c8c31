"""The tokens and the cost that each format states: the examples of the formats, with usages added to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from services.reflector.adapters.importers.files import FORMATS, read_trajectories
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import Format
from services.reflector.domain.trajectory import Trajectory
from services.reflector.tests.test_hostile_files import FILES, load

Condition = Callable[[dict[str, Any]], bool]
USAGE = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7, "cost_usd": 0.25}


def list_objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSON value, the outer ones first."""
    if isinstance(value, dict):
        yield value
    for inner in list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from list_objects(inner)


def add_fields(documents: list[Any], condition: Condition, **fields: Any) -> int:
    """Add fields to the objects that meet the condition; return their number."""
    found = [value for value in list_objects(documents) if condition(value)]
    for value in found:
        value.update(fields)
    return len(found)


def write(documents: list[Any]) -> bytes:
    return "\n".join(map(json.dumps, documents)).encode()


def read(documents: list[Any]) -> list[Trajectory]:
    return [recorded.trajectory for recorded in read_trajectories(write(documents), "d").trajectories]


def refusal(documents: list[Any]) -> str:
    with pytest.raises(MalformedTrajectory) as caught:
        read(documents)
    return str(caught.value)


def has(**values: Any) -> Condition:
    return lambda found: all(found.get(name) == value for name, value in values.items())


def is_root(name: str) -> Condition:
    return lambda found: name in found


OPENAI = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 40}}
RESPONSES = {"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 40}}
ANTHROPIC = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 50,
    "cache_read_input_tokens": 40,
    "output_tokens": 7,
    "server_tool_use": {"web_search_requests": 0},
}
LANGCHAIN = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, "input_token_details": {"cache_read": 40}}
TOTAL = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7}
# Of each format: the objects that state a usage, their fields, and the usage of one of them.
STATED: dict[Format, tuple[Condition, dict[str, Any], dict[str, Any]]] = {
    "hansei": (is_root("steps"), {"usage": {**USAGE, "input_tokens": "100"}}, USAGE),
    "openai": (is_root("messages"), {"usage": {**OPENAI, "cost": 0.25}}, USAGE),
    "tau_bench": (is_root("traj"), {"usage": USAGE}, USAGE),
    "anthropic": (lambda found: found.get("role") == "assistant", {"usage": ANTHROPIC}, TOTAL),
    "langchain": (lambda found: found.get("type") == "ai" and "content" in found, {"usage_metadata": LANGCHAIN}, TOTAL),
    "swe_agent": (
        is_root("exit_status"),
        {"model_stats": {"instance_cost": 0.25, "tokens_sent": 100, "tokens_received": 7}},
        {"input_tokens": 100, "output_tokens": 7, "cost_usd": 0.25},
    ),
    "atif": (
        has(source="agent"),
        {"metrics": {"prompt_tokens": 100, "cached_tokens": 40, "completion_tokens": 7, "cost_usd": 0.25}},
        USAGE,
    ),
    "claude_code": (lambda found: found.get("role") == "assistant" and "id" in found, {"usage": ANTHROPIC}, TOTAL),
    "pydantic_ai": (
        has(kind="response"),
        {"usage": {"input_tokens": 100, "cache_read_tokens": 40, "output_tokens": 7, "details": {}}},
        TOTAL,
    ),
    "state_bench": (is_root("conversation"), {"token_usage": {**TOTAL, "total_cost_usd": 0.25}}, USAGE),
    "agents_sdk": (has(type="generation"), {"usage": RESPONSES}, TOTAL),
    "langsmith": (
        has(run_type="llm"),
        {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "prompt_token_details": {"cache_read": 40},
            "total_cost": "0.25",
        },
        USAGE,
    ),
    "langfuse": (
        has(type="GENERATION"),
        {
            "usageDetails": {"input": 60, "input_cached_tokens": 40, "output": 5, "output_reasoning_tokens": 2},
            "costDetails": {"input": 0.2, "output": 0.05, "total": 0.25},
        },
        USAGE,
    ),
    "smolagents": (
        is_root("step_number"),
        {"token_usage": {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107}},
        {"input_tokens": 100, "output_tokens": 7},
    ),
    "tau2_bench": (
        lambda found: found.get("role") == "assistant",
        {"usage": {"prompt_tokens": 100, "completion_tokens": 7}},
        {"input_tokens": 100, "output_tokens": 7},
    ),
}
WITHOUT = {"who_and_when", "cursor"}
"""Formats in which nothing states tokens."""
ELSEWHERE = {"otel", "codex", "openai_responses"}
"""Formats with tests of their own below."""


def test_each_format_is_covered() -> None:
    assert set(STATED) | WITHOUT | ELSEWHERE == set(FORMATS)


@pytest.mark.parametrize("name", STATED)
def test_the_stated_usages_are_summed(name: Format) -> None:
    condition, fields, expected = STATED[name]
    documents = load(FILES[name])
    before = read(documents)
    count = add_fields(documents, condition, **fields)
    after = read(documents)
    assert count
    usages = [trajectory.usage.model_dump(exclude_none=True) for trajectory in after if trajectory.usage]
    assert {key: sum(usage[key] for usage in usages) for key in usages[0]} == {
        key: pytest.approx(count * value) for key, value in expected.items()
    }
    # A usage does not identify a trajectory, and changes nothing else in it.
    for old, new in zip(before, after, strict=True):
        assert new.content_id == old.content_id
        assert new.model_copy(update={"usage": old.usage, "created_at": old.created_at}) == old


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"codex"}))
def test_a_usage_that_no_log_states_is_unknown(name: str) -> None:
    assert [trajectory.usage for trajectory in read(load(FILES[name]))] == [None] * len(read(load(FILES[name])))


def test_lines_of_one_message_of_claude_code_share_its_usage() -> None:
    documents = load(FILES["claude_code"])
    is_reply: Condition = lambda found: found.get("role") == "assistant" and "id" in found  # noqa: E731
    add_fields(documents, is_reply, id="msg_same", usage={**ANTHROPIC, "output_tokens": 1})
    last = [found for found in list_objects(documents) if is_reply(found)][-1]
    last["usage"] = ANTHROPIC
    (trajectory,) = read(documents)
    assert trajectory.usage
    assert trajectory.usage.model_dump(exclude_none=True) == TOTAL


def test_costs_of_older_transcripts_of_claude_code_are_beside_the_message() -> None:
    documents = load(FILES["claude_code"])
    count = add_fields(documents, has(type="assistant"), costUSD=0.5)
    (trajectory,) = read(documents)
    assert trajectory.usage
    assert trajectory.usage.model_dump(exclude_none=True) == {"cost_usd": count * 0.5}


def test_the_last_count_of_codex_is_that_of_the_session() -> None:
    documents = load(FILES["codex"])
    totals = [found["thread_token_usage"] for found in list_objects(documents) if "thread_token_usage" in found]
    (trajectory,) = read(documents)
    assert trajectory.usage
    assert trajectory.usage.input_tokens == totals[-1]["input_tokens"] > totals[0]["input_tokens"]
    older = [line for line in documents if line["type"] != "token_usage_record"]
    assert read(older)[0].usage is None
    counts = [None, {"total_token_usage": {**TOTAL, "input_tokens": 50}}, {"total_token_usage": TOTAL}, None]
    older += [{"type": "event_msg", "payload": {"type": "token_count", "info": info}} for info in counts]
    (trajectory,) = read(older)
    assert trajectory.usage
    assert trajectory.usage.model_dump(exclude_none=True) == TOTAL


def test_a_response_has_its_usage() -> None:
    items = load(FILES["openai_responses"])[0]
    (trajectory,) = read([{"object": "response", "input": "q", "output": items, "usage": RESPONSES}])
    assert trajectory.usage
    assert trajectory.usage.model_dump(exclude_none=True) == TOTAL


def test_final_metrics_of_atif_count_without_those_of_steps() -> None:
    documents = load(FILES["atif"])
    final = {
        "total_prompt_tokens": 100,
        "total_cached_tokens": 40,
        "total_completion_tokens": 7,
        "total_cost_usd": 0.25,
    }
    documents[0]["final_metrics"] = final
    assert (
        read(documents)[0].usage == Trajectory.model_validate({**read(documents)[0].model_dump(), "usage": USAGE}).usage
    )
    # The cost includes that of sub-agents, which are trajectories of their own.
    documents[0]["subagent_trajectories"] = [{**documents[0], "session_id": "other"}]
    assert [trajectory.usage.cost_usd if trajectory.usage else 0 for trajectory in read(documents)] == [None, 0.25]


def add_attributes(documents: list[Any], operation: str, attributes: dict[str, Any]) -> int:
    """Add attributes to the spans of an operation; return their number."""
    spans = [
        found
        for found in list_objects(documents)
        if "spanId" in found and {"stringValue": operation} in [pair["value"] for pair in found["attributes"]]
    ]
    for span in spans:
        kinds = {str: "stringValue", float: "doubleValue", int: "intValue"}
        span["attributes"] += [{"key": key, "value": {kinds[type(value)]: value}} for key, value in attributes.items()]
    return len(spans)


GENAI = {
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.cache_read.input_tokens": 40,
    "gen_ai.usage.output_tokens": 7,
    "gen_ai.usage.cost": 0.25,
}
OPENLLMETRY = {"gen_ai.usage.prompt_tokens": 100, "gen_ai.usage.completion_tokens": 7}
OPENINFERENCE = {
    "llm.token_count.prompt": 100,
    "llm.token_count.prompt_details.cache_read": 40,
    "llm.token_count.completion": 7,
    "llm.cost.total": 0.25,
}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (GENAI, USAGE),
        (OPENINFERENCE, USAGE),
        (OPENLLMETRY, {"input_tokens": 100, "output_tokens": 7}),
        ({"gen_ai.usage.input_tokens": -1, "gen_ai.usage.output_tokens": 7}, {"output_tokens": 7}),
        ({"gen_ai.usage.input_tokens": "many", "gen_ai.usage.cost": 1e30}, None),
    ],
)
def test_spans_of_model_calls_state_tokens(attributes: dict[str, Any], expected: dict[str, float] | None) -> None:
    documents = load(FILES["otel"])
    count = add_attributes(documents, "chat", attributes)
    add_attributes(documents, "invoke_agent", {"gen_ai.usage.input_tokens": 10**6})  # The sum of its calls.
    (trajectory,) = read(documents)
    if expected is None:
        expected, count = {"input_tokens": 10**6}, 1
    assert trajectory.usage
    assert trajectory.usage.model_dump(exclude_none=True) == {
        key: pytest.approx(count * value) for key, value in expected.items()
    }


def test_a_call_that_is_traced_twice_counts_once() -> None:
    documents = load(FILES["otel"])
    add_attributes(documents, "chat", GENAI)
    spans = next(found["spans"] for found in list_objects(documents) if "spans" in found)
    (before,) = read(documents)
    call = next(found for found in spans if {"stringValue": "chat"} in [pair["value"] for pair in found["attributes"]])
    attributes = [pair for pair in call["attributes"] if "messages" not in pair["key"]]
    spans.append({**call, "spanId": "0123456789abcdef", "parentSpanId": call["spanId"], "attributes": attributes})
    assert read(documents)[0].usage == before.usage


@pytest.mark.parametrize(
    ("usage", "problem"),
    [
        ({"input_tokens": -1}, ".usage.input_tokens: -1 must be a whole number from 0 to 1,000,000,000,000"),
        ({"output_tokens": 10**30}, ".usage.output_tokens: "),
        ({"output_tokens": 0.5}, ".usage.output_tokens: 0.5 must be a whole number"),
        ({"output_tokens": True}, ".usage.output_tokens: true must be a whole number"),
        ({"output_tokens": "many"}, ".usage.output_tokens: 'many' must be a whole number"),
        ({"cost_usd": -0.1}, ".usage.cost_usd: -0.1 must be US dollars from 0 to 100,000"),
        ({"cost_usd": "nan"}, ".usage.cost_usd: 'nan' must be US dollars"),
        ({"cost_usd": 1e30}, ".usage.cost_usd: 1e+30 must be US dollars"),
        ({"input_tokens": 1, "cached_input_tokens": 2}, "cached_input_tokens must be at most input_tokens"),
        (5, ".usage: 5 must be a JSON object"),
    ],
)
def test_a_bad_usage_of_our_own_format_is_refused_with_field_value_and_rule(usage: object, problem: str) -> None:
    first, second = load(FILES["hansei"]) * 2
    message = refusal([first, {**second, "usage": usage}])
    assert message.startswith("line 2")
    assert problem in message


@pytest.mark.parametrize(
    ("name", "documents", "problem"),
    [
        ("claude_code", {"usage": {"output_tokens": "many"}}, ".message.usage.output_tokens: 'many'"),
        ("tau2_bench", {"usage": {"prompt_tokens": -5}}, ".usage.prompt_tokens: -5"),
        ("pydantic_ai", {"usage": {"input_tokens": 10**30}}, ".usage.input_tokens: "),
        ("langfuse", {"usageDetails": {"input": 1.5}}, ".usageDetails.input: 1.5"),
        ("langsmith", {"total_cost": "free"}, ".total_cost: 'free' must be US dollars"),
    ],
)
def test_a_bad_usage_of_a_log_is_refused_with_its_place(name: Format, documents: dict[str, Any], problem: str) -> None:
    changed = load(FILES[name])
    assert add_fields(changed, STATED[name][0], **documents)
    assert problem in refusal(changed)


def test_our_own_format_takes_a_cost_of_0() -> None:
    (document,) = load(FILES["hansei"])
    (trajectory,) = read([{**document, "usage": {"cost_usd": 0}}])
    assert trajectory.usage
    assert trajectory.usage.model_dump(exclude_none=True) == {"cost_usd": 0}
    # Programs write 0 where they know no price.
    changed = load(FILES["tau2_bench"])
    changed[0]["simulations"][0] |= {"agent_cost": 0.0, "user_cost": 0.5}
    assert read(changed)[0].usage is None
    changed[0]["simulations"][0]["agent_cost"] = 0.25
    (trajectory,) = read(changed)
    assert trajectory.usage
    assert trajectory.usage.model_dump(exclude_none=True) == {"cost_usd": 0.25}
