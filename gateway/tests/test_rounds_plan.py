"""The plan of an execution of rounds: defaults and violations."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from chassis.errors import InvalidArgument
from chassis.server import validation
from gateway.orchestrator.rounds import build_plan
from gateway.tests.scripted_peers import rounds_request, team
from hansei.gateway.v1 import rounds_service_pb2 as rounds


def plan(request: rounds.RunRoundsRequest) -> rounds.RunRoundsRequest:
    return build_plan(request, lambda: "new-id")


def seconds(made: rounds.RunRoundsRequest) -> tuple[float, ...]:
    limits = (made.submission_timeout, made.judgment_timeout, made.team_timeout)
    return tuple(limit.ToTimedelta().total_seconds() for limit in limits)


def test_an_unset_plan_has_the_defaults() -> None:
    request = rounds.RunRoundsRequest(user_prompt="p", teams=[team("a")])
    made = plan(request)
    assert (made.max_rounds, made.min_rounds, made.judge_on_final_round) == (5, 2, True)  # G-47
    assert seconds(made) == (300, 60, 1800)  # G-47
    assert made.execution_id == "new-id"  # G-49
    assert (made.teams[0].dataset, made.teams[0].instruction) == ("appworld", "")  # G-46
    assert not made.HasField("evaluation")
    assert not made.HasField("judge_model")


def test_set_values_of_a_plan_are_used() -> None:
    timeouts = {
        f"{name}_timeout": Duration(seconds=1, nanos=500_000_000) for name in ("submission", "judgment", "team")
    }
    made = plan(
        rounds_request(
            team("a", dataset="d", instruction="i"), max_rounds=3, min_rounds=3, judge_on_final_round=False, **timeouts
        )
    )
    assert (made.max_rounds, made.min_rounds, made.judge_on_final_round) == (3, 3, False)
    assert seconds(made) == (1.5, 1.5, 1.5)
    assert (made.teams[0].dataset, made.teams[0].instruction) == ("d", "i")
    assert made.execution_id == "execution-1"


def test_max_rounds_of_one_limits_min_rounds_to_one() -> None:
    assert plan(rounds_request(max_rounds=1)).min_rounds == 1  # G-48


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"teams": [team("b"), team("a"), team("b"), team("a"), team("c")]}, "Duplicate team ids found: b, a"),  # G-46
        ({"min_rounds": 4, "max_rounds": 3}, "min_rounds (4) must be <= max_rounds (3)"),  # G-47
        ({"min_rounds": 2, "max_rounds": 1}, "min_rounds (2) must be <= max_rounds (1)"),  # G-48: only if it is omitted
        ({"min_rounds": 6}, "min_rounds (6) must be <= max_rounds (5)"),
        ({"user_prompt": " 　\n"}, "user_prompt cannot be empty"),
        ({"execution_id": ""}, "execution_id cannot be empty"),
        ({"teams": [team(" ")]}, "team_id cannot be empty"),
        ({"teams": [team("a"), team("b", team_name="")]}, "team_name cannot be empty"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        plan(rounds_request(**fields))
    assert str(caught.value) == message
    assert [violation.description for violation in caught.value.violations] == [message]


@pytest.mark.parametrize(
    "fields",
    [
        {"teams": []},  # G-46: at least one
        {"max_rounds": 0},
        {"max_rounds": 11},  # G-47
        {"min_rounds": 0},
        {"teams": [team("a", dataset="a b")]},
        {"submission_timeout": Duration()},
        {"team_timeout": Duration(seconds=7001)},
    ],
)
def test_the_contract_refuses_values_out_of_range(fields: dict[str, Any]) -> None:
    request = rounds.RunRoundsRequest(**{"user_prompt": "p", "teams": [team("a")], **fields})
    with pytest.raises(InvalidArgument):
        validation.check(request)
