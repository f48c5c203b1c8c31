"""Results that disagree without anything having changed in between."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.trajectories.actions import extract_actions
from services.reflector.domain.contradictions import find_contradictions
from services.reflector.domain.findings import TrajectoryFinding
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.tests.trajectories import MakeStep, build_trajectory, calls, returns, says, steps
from services.reflector.usecases.reflect_offline import reflect_by_rules

ENDS = ("failure", "success")
STOCK = {"id": "p-1", "stock": 7, "name": "lamp"}


def find_in(*log: MakeStep) -> list[TrajectoryFinding]:
    return list(find_contradictions(extract_actions(steps(*log))))


def ask(tool: str, answer: object, **arguments: object) -> list[MakeStep]:
    return [calls(tool, arguments), returns(answer if isinstance(answer, str) else json.dumps(answer))]


def test_a_call_with_two_results_is_reported_with_both_steps() -> None:
    [finding] = find_in(*ask("get_stock", STOCK, id="p-1"), *ask("get_stock", {**STOCK, "stock": 4}, id="p-1"))
    assert (finding.kind, finding.steps) == ("contradicted_result", (1, 3))
    facts = [finding.facts[name] for name in ("tool", "fact", "before", "after")]
    assert facts == ["get_stock", "stock", "7", "4"]


def test_a_contradiction_between_two_tools_is_reported() -> None:
    [finding] = find_in(*ask("list_products", [STOCK]), *ask("get_product", {**STOCK, "stock": 4}, id="p-1"))
    assert (finding.facts["fact"], finding.steps) == ("stock", (1, 3))


@pytest.mark.parametrize("text", ["Seats left: {}", "There are {} seats as of 2026-01-0{} 10:0{}"])
def test_texts_that_differ_in_a_number_are_reported(text: str) -> None:
    [finding] = find_in(*ask("get_seats", text.format(3, 1, 1)), *ask("get_seats", text.format(5, 2, 2)))
    assert (finding.facts["before"], finding.facts["after"]) == ("3", "5")


@pytest.mark.parametrize("tool", ["update_stock", "http POST", "bash", "python", "sell"])
def test_a_write_between_two_reads_explains_their_difference(tool: str) -> None:
    between = ask(tool, "done", x=1)
    log = [*ask("get_stock", STOCK, id="p-1"), *between, *ask("get_stock", {**STOCK, "stock": 4}, id="p-1")]
    assert find_in(*log) == []


@pytest.mark.parametrize(("command", "findings"), [("cat count.txt", 1), ("cat count.txt; rm count.txt", 0)])
def test_a_command_line_may_do_more_than_it_begins_with(command: str, findings: int) -> None:
    assert (
        len(find_in(*ask("bash", "lines: 3", command=command), *ask("bash", "lines: 4", command=command))) == findings
    )


def test_an_interrupted_call_may_have_changed_something() -> None:
    failed = [calls("update_stock", {"id": "p-1"}), returns("Error: timed out")]
    log = [*ask("get_stock", STOCK, id="p-1"), *failed, *ask("get_stock", {**STOCK, "stock": 4}, id="p-1")]
    assert find_in(*log) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"state": "pending", "job_status": "queued"}, {"state": "done", "job_status": "ok"}),
        ({"updated_at": "1", "token": "a", "total_time": 1}, {"updated_at": "2", "token": "b", "total_time": 2}),
        ("as of 10:01", "as of 10:02"),
        ("Paris is in France", "Paris is a city"),
        ([1, 2], [2, 1]),
        ({"hits": [{"id": "a", "n": 1}, {"id": "b", "n": 2}]}, {"hits": [{"id": "b", "n": 2}, {"id": "a", "n": 1}]}),
    ],
)
def test_volatile_values_and_other_notations_contradict_nothing(first: object, second: object) -> None:
    assert find_in(*ask("get_x", first, q="x"), *ask("get_x", second, q="x")) == []


def test_other_arguments_are_another_question() -> None:
    euros = ask("get_price", {"id": "p-1", "price": 10}, id="p-1", currency="EUR")
    dollars = ask("get_price", {"id": "p-1", "price": 11}, id="p-1", currency="USD")
    assert find_in(*euros, *dollars) == []


def test_an_unknown_tool_contradicts_only_itself() -> None:
    weather = [ask("weather", {"degrees": degrees}, city="Oslo") for degrees in (3, 9)]
    assert [finding.facts["fact"] for finding in find_in(*weather[0], *weather[1])] == ["degrees"]
    assert find_in(*weather[0], *ask("oracle", {"says": 1}), *weather[1]) == []


def test_a_fact_is_reported_once_and_only_after_a_failed_trajectory() -> None:
    log = [step for stock in (1, 2, 3) for step in ask("get_stock", {**STOCK, "stock": stock}, id="p-1")]
    assert len(find_in(*log)) == 1
    insights_by_status = [
        reflect_by_rules(ReflectionRequest(build_trajectory(*log, status=status), "test")).insights for status in ENDS
    ]
    assert [len(insights) for insights in insights_by_status] == [1, 0]


def test_the_lesson_names_tool_and_fact_and_not_their_values() -> None:
    log = [*ask("get_stock", STOCK, id="p-1"), *ask("get_stock", {**STOCK, "stock": 4}, id="p-1")]
    [insight] = reflect_by_rules(ReflectionRequest(build_trajectory(*log, says("Seven.")), "test")).insights
    assert "`get_stock`" in insight.key_insight
    assert '"stock"' in insight.key_insight
    assert not any(value in insight.key_insight for value in "74")
    assert 'step 1 says "7", step 3 says "4"' in insight.error_identification


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "a", "x_id"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=5))
def test_any_results_are_compared_and_the_same_never_disagree(values: list[object]) -> None:
    log = [step for value in values for step in ask("get_x", json.dumps(value))]
    assert len(find_in(*log)) <= 64 * len(values)
    if values:
        assert find_in(*ask("get_x", json.dumps(values[0])), *ask("get_x", json.dumps(values[0]))) == []
