"""Targets from failures that an agent repaired inside one trajectory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.targets.target import Target
from libs.guards import repairs
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall, matches
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
    assert _find_targets(*failed) == ["call.tool == 'pay' && retries() > 0"]
    assert _find_targets(failed[0], call(2, "list"), failed[1]) == ["call.tool == 'pay' && failures() > 0"]


def test_a_prerequisite_may_be_an_operation_of_the_same_tool() -> None:
    target = (
        "call.tool == 'git' && call.args.command.contains('git commit')"
        " && !succeeded_args('git').exists(a, a.command.contains('git config'))"
    )
    commit = call(3, "git", "fatal: no email was given", command="git commit -m x")
    added, config = call(1, "git", command="git add ."), call(5, "git", command="git config user.email a@b")
    repaired = build_trajectory("r1", added, commit, config, call(7, "git", command="git commit -m x"))
    assert [repair.target for repair in select_repairs([repaired])] == [target]
    # In another repository the commit needs nothing: only the commit that failed is left.
    other = build_trajectory("r2", call(1, "git", command="git commit -m y"))
    [narrowed] = select_repairs([repaired, other])
    assert narrowed.target == target.replace(".contains('git commit')", " == 'git commit -m x'")
    assert select_repairs([repaired, other, build_trajectory("r3", call(1, "git", command="git commit -m x"))]) == []


def test_a_prerequisite_has_the_value_of_the_call() -> None:
    read = [call(step, "read", path=path) for step, path in ((1, "a.py"), (3, "b.py"))]
    edit = call(2, "edit", "Error: read it first", path="b.py")
    repaired = build_trajectory("r", read[0], edit, read[1], call(4, "edit", path="b.py"))
    [repair] = select_repairs([repaired])
    assert repair.target == "call.tool == 'edit' && !succeeded_args('read').exists(a, a.path == call.args.path)"


def test_a_value_is_wrong_if_the_error_names_a_part_that_the_repair_removed() -> None:
    error = "OperationalError: no such column: price"
    failed, repaired = call(1, "db", error, sql="SELECT price FROM t"), call(2, "db", sql="SELECT cents FROM t")
    assert _find_targets(failed, repaired) == ["call.tool == 'db' && call.args.sql == 'SELECT price FROM t'"]
    # A rejected push that was forced afterwards says nothing against the words of the first one.
    rejected = call(1, "git", "error: failed to push some refs", command="git push")
    assert _find_targets(rejected, call(2, "git", command="git push --force")) == []


def test_a_target_about_invented_values_excepts_a_valid_one() -> None:
    def build_repair(name: str, path: str) -> GuardTrajectory:
        listed = call(2, "list", "", {"files": ["a.py"]})
        return build_trajectory(
            name, call(1, "open", "Error: not found", path=path), listed, call(3, "open", path="a.py")
        )

    repaired = [build_repair("r1", "b.py"), build_repair("r2", "c.py")]
    readme = build_trajectory("r3", call(1, "open", path="README"))
    assert [repair.target for repair in select_repairs([*repaired, readme])] == [
        "call.tool == 'open' && !seen(call.args.path) && !(call.args.path in ['README'])"
    ]
    assert select_repairs([repaired[0], readme]) == []  # as many values were valid as failed


def test_a_correct_call_contradicts_a_target() -> None:
    repaired = build_trajectory("r1", call(1, "deploy", "Error: not built"), call(2, "build"), call(3, "deploy"))
    assert [repair.kind for repair in select_repairs([repaired])] == ["B without A"]
    assert select_repairs([repaired, build_trajectory("r2", call(1, "deploy"))]) == []


_CALLS = st.lists(
    st.builds(
        lambda tool, error, value: (tool, error, value),
        st.sampled_from(["deploy", "build", "git"]),
        st.sampled_from(["", "", "Error: not built", "Error: no such file a", "Error: at most 2"]),
        st.sampled_from(
            [{}, {"path": "a"}, {"path": "b c"}, {"n": 3}, {"command": "git commit"}, {"command": "git add"}]
        ),
    ),
    min_size=2,
    max_size=25,
)


@given(st.lists(_CALLS, min_size=1, max_size=2), st.sets(st.integers(0, 25), max_size=4))
def test_the_repairs_at_some_steps_are_those_of_all_steps(recorded: list[Any], steps: set[int]) -> None:
    trajectories = [
        build_trajectory(
            str(number), *(call(step, tool, error, **args) for step, (tool, error, args) in enumerate(calls))
        )
        for number, calls in enumerate(recorded)
    ]
    expected = [repair for repair in select_repairs(trajectories) if repair.rests_on(steps)]
    assert select_repairs(trajectories, steps) == expected


def test_targets_of_other_steps_are_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[TrajectoryCall] = []
    for number in range(0, 400, 2):
        error = f"OperationalError: no such column: price{number}"
        calls.append(call(number, "db", error, sql=f"SELECT price{number} FROM t"))
        calls.append(call(number + 1, "db", sql=f"SELECT cents{number} FROM t"))
    tested: list[Target] = []

    def count_test(target: Target, *arguments: Any) -> bool:
        tested.append(target)
        return matches(target, *arguments)

    monkeypatch.setattr(repairs, "matches", count_test)
    [repair] = select_repairs([build_trajectory("r", *calls)], {200})
    assert repair.target == "call.tool == 'db' && call.args.sql == 'SELECT price200 FROM t'"
    assert len(tested) == len(calls)


def test_prerequisites_in_a_long_trajectory_are_found() -> None:
    calls: list[TrajectoryCall] = []
    for number in range(0, 9_000, 3):
        calls.append(call(number, "deploy", "Error: not built", id=f"A-{number}"))
        calls.append(call(number + 1, "build", id=f"A-{number}"))
        calls.append(call(number + 2, "deploy", id=f"A-{number}"))
    prerequisite = "call.tool == 'deploy' && !succeeded_args('build').exists(a, a.id == call.args.id)"
    assert _find_targets(*calls) == [prerequisite]


def test_a_target_that_no_guard_can_have_is_left_out() -> None:
    arguments = {f"name_{number}": "x" * 400 for number in range(6)}
    deploys = [call(step, "deploy", error, **arguments) for step, error in ((1, "Error: not built"), (3, ""))]
    [repair] = select_repairs([build_trajectory("r", deploys[0], call(2, "build"), deploys[1])])
    assert (repair.target, len(repair.narrower)) == ("call.tool == 'deploy' && !succeeded('build')", 1)
    # Another deployment needs no build, and the target with all arguments is too long.
    assert select_repairs([build_trajectory("r", call(0, "deploy"), deploys[0], call(2, "build"), deploys[1])]) == []


@pytest.mark.parametrize("limit", ["9" * 30, "9" * 400])
def test_a_limit_that_no_guard_can_compare_is_no_rule(limit: str) -> None:
    failed = call(1, "read", f"Error: at least {limit}", n=1)
    assert select_repairs([build_trajectory("r", failed, call(2, "read", n=2))]) == []
