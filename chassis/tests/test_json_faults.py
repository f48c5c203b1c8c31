"""Errors of JSON that is no message of the contract name the field, the value and the rule."""

from __future__ import annotations

from typing import Any

import pytest

from chassis.errors import InvalidArgument
from chassis.json_faults import parse_message
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from hansei.playbook.v1 import review_pb2
from hansei.search.v1 import search_service_pb2

PLAN = {"original_query": "q", "complexity": 0.5}


@pytest.mark.parametrize(
    ("message", "value", "field", "rule"),
    [
        (pb.Plan, {"steps": True}, "steps", "must be a list (got true)"),
        (pb.Plan, {"steps": {"a": 1}}, "steps", "must be a list (got an object)"),
        (pb.Plan, {"steps": [None]}, "steps[0]", "must not be null"),
        (pb.Plan, {"steps": ["x"]}, "steps[0]", "must be an object (got 'x')"),
        (
            pb.Plan,
            {"steps": [{"stepId": 1}, {"step_id": "x"}]},
            "steps[1].step_id",
            "must be a whole number from -2147483648 to 2147483647 (got 'x')",
        ),
        (pb.Plan, {"steps": [{"depends_on": [1, 2.5]}]}, "steps[0].depends_on[1]", "must be a whole number"),
        (pb.Plan, {"steps": [{"nothing": 1}]}, "steps[0]", "has no field 'nothing'"),
        (pb.Plan, {"requires_confirmation": "yes"}, "requires_confirmation", "must be true or false (got 'yes')"),
        (pb.Plan, {"complexity": []}, "complexity", "must be a number (got a list)"),
        (pb.Plan, {"collection": 7}, "collection", "must be a text (got 7)"),
        (
            pb.Plan,
            {"created_at": "today"},
            "created_at",
            "must be a time such as \"2026-03-01T09:30:00Z\" (got 'today')",
        ),
        (pb.Budget, {"max_wall_time": {"seconds": 1}}, "max_wall_time", 'must be a duration such as "1.5s"'),
        (pb.PlanStep, {"action": {}}, "action", "must be one of ACTION_ASK_USER, ACTION_CODE_EXECUTE, "),
        (pb.Plan, {"plan_id": "a", "planId": "b"}, "", "has both plan_id and planId, of which only one may be set"),
        (
            service_pb.DrawPlanRequest,
            {"plan": PLAN, "execution_id": "0123456789ab"},
            "",
            "has both plan and execution_id, of which only one may be set",
        ),
        (review_pb2.DatasetPolicy, {"trust": {"a": "x"}}, 'trust["a"]', "must be one of TRUST_TIER_"),
        (review_pb2.DatasetPolicy, {"trust": []}, "trust", "must be an object (got a list)"),
        (search_service_pb2.SearchRequest, {"query": {"embedding": {"values": 7}}}, "query.embedding.values", "base64"),
    ],
)
def test_the_first_wrong_field_is_named(message: Any, value: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_message(value, message.DESCRIPTOR)
    assert caught.value.message.startswith(f"not a {message.DESCRIPTOR.name}: {field}".rstrip())
    assert rule in caught.value.message
    assert [violation.field for violation in caught.value.violations] == ([field] if field else [])


def test_values_that_the_parser_accepts_are_no_faults() -> None:
    plan = parse_message({**PLAN, "steps": [{"stepId": "1", "action": 3, "description": "d"}]}, pb.Plan.DESCRIPTOR)
    assert (plan.steps[0].step_id, plan.steps[0].action) == (1, pb.ACTION_REASONING)


def test_a_message_that_is_nested_too_deeply_is_refused() -> None:
    value: Any = {}
    for _ in range(200):
        value = {"embedding": value}
    with pytest.raises(InvalidArgument, match="has no field 'embedding'"):
        parse_message({"query": value}, search_service_pb2.SearchRequest.DESCRIPTOR)
