"""Targets from failures that an agent repaired inside one trajectory."""

from __future__ import annotations

from libs.guards.guard_trajectory import TrajectoryCall
from libs.guards.repairs import find_repairs, select_repairs
from libs.guards.tests.trajectories import build_trajectory, call


def _find_targets(*calls: TrajectoryCall) -> list[str]:
    return [repair.target for repair in find_repairs(build_trajectory("r", *calls))]


def test_a_tool_that_came_before_the_success_is_a_prerequisite() -> None:
    assert _find_targets(call(1, "deploy", "Error: not built"), call(2, "build"), call(3, "deploy")) == [
        "call.tool == 'deploy' && !succeeded('build')"
    ]


def test_a_tool_that_had_succeeded_before_is_no_prerequisite() -> None:
    assert _find_targets(call(1, "build"), call(2, "deploy", "Error: busy"), call(3, "build"), call(4, "deploy")) == []


def test_allowed_values_of_an_error_are_a_rule() -> None:
    error = "Cabin class 'first' not available. Available: business, economy."
    assert _find_targets(call(1, "book", error, cabin="first"), call(2, "book", cabin="economy")) == [
        "call.tool == 'book' && !(call.args.cabin in ['business', 'economy'])"
    ]


def test_a_limit_of_an_error_is_a_rule() -> None:
    assert _find_targets(call(1, "read", "Error: at most 2,000 lines", lines=9000), call(2, "read", lines=2000)) == [
        "call.tool == 'read' && call.args.lines > 2000"
    ]


def test_an_invented_argument_is_a_rule() -> None:
    listed = call(2, "list", "", {"files": ["a.py"]})
    assert _find_targets(call(1, "open", "Error: no such file", path="b.py"), listed, call(3, "open", path="a.py")) == [
        "call.tool == 'open' && !seen(call.args.path)"
    ]


def test_the_same_call_after_the_same_error_is_a_rule() -> None:
    failed = [call(step, "pay", "Error: card refused", card="1") for step in (1, 2)]
    assert _find_targets(*failed) == ["call.tool == 'pay' && failures() > 0"]


def test_a_correct_call_contradicts_a_target() -> None:
    repaired = build_trajectory("r1", call(1, "deploy", "Error: not built"), call(2, "build"), call(3, "deploy"))
    assert [repair.kind for repair in select_repairs([repaired])] == ["B without A"]
    assert select_repairs([repaired, build_trajectory("r2", call(1, "deploy"))]) == []
