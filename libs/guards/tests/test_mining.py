"""Guards are mined where a predicate separates failed from passed trajectories, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from chassis.targets.session import SessionHistory
from chassis.targets.target import Target
from libs.guards.association import compute_p_values
from libs.guards.backtest import backtest
from libs.guards.candidates import mine_candidates
from libs.guards.evaluation import evaluate_guards
from libs.guards.firings import NEVER, FiringTable, Predicate, build_firing_table
from libs.guards.grammar import quote
from libs.guards.guard_trajectory import GuardTrajectory
from libs.guards.mining import MiningPolicy, mine_guards
from libs.guards.tests.trajectories import build_trajectory, call


def _build_trajectories(failing: int = 12, passing: int = 90) -> list[GuardTrajectory]:
    """Return trajectories that fail when the refund was not preceded by a look at the order."""
    order = {"order_id": "A-1", "total": 30}
    failed = [
        build_trajectory(f"f{number}", call(1, "refund", amount=10 + number), is_success=False)
        for number in range(failing)
    ]
    passed = [
        build_trajectory(f"p{number}", call(1, "get_order", "", order), call(2, "refund", amount=10 + number))
        for number in range(passing)
    ]
    return failed + passed


def test_a_left_out_check_is_found() -> None:
    trajectories = _build_trajectories()
    result = mine_guards(trajectories, build_firing_table(trajectories), range(len(trajectories)))
    assert [guard.predicate.source for guard in result.guards] == ["call.tool == 'refund' && !succeeded('get_order')"]
    assert (result.guards[0].failed_firing, result.guards[0].passed_firing) == (12, 0)
    assert result.tried >= result.counted > 0


def test_outcomes_at_random_give_no_guard() -> None:
    random = np.random.default_rng(3)
    found = 0
    for _ in range(10):
        outcomes = random.random(100) < 0.8
        trajectories = [
            build_trajectory(f"{number}", call(1, "refund", amount=int(random.integers(5))), is_success=bool(outcome))
            for number, outcome in enumerate(outcomes)
        ]
        found += len(mine_guards(trajectories, build_firing_table(trajectories), range(len(trajectories))).guards)
    assert found <= 1


def test_few_passing_trajectories_cannot_show_that_false_alarms_are_rare() -> None:
    trajectories = _build_trajectories(failing=12, passing=40)
    assert mine_guards(trajectories, build_firing_table(trajectories), range(len(trajectories))).guards == ()


def test_repeated_trajectories_of_one_task_are_one_unit() -> None:
    single = build_trajectory("one", call(1, "refund", amount=1), is_success=False)
    trajectories = [
        *[GuardTrajectory(f"r{number}", "one", False, single.events) for number in range(20)],
        *_build_trajectories(0, 20),
    ]
    p_values, _ = compute_p_values(trajectories, np.array([[not trajectory.is_success] for trajectory in trajectories]))
    assert p_values[0] >= 1 / 21


def test_guards_are_measured_on_other_tasks() -> None:
    report = evaluate_guards(_build_trajectories())
    assert sorted(report) == ["baselines", "by_domain", "coverage", "false_alarms", "guards"]
    assert (report["coverage"], report["false_alarms"]) == (1.0, 0.0)
    assert report["by_domain"]["all"]["coverage_low"] > 0.7
    assert report["baselines"]["first_write_call"]["false_alarms"] == 1.0
    json.dumps(report, allow_nan=False)


def test_guards_are_measured_on_a_file_of_tests() -> None:
    test = [
        build_trajectory("t1", call(1, "refund", amount=3), is_success=False),
        build_trajectory("t2", call(1, "get_order")),
    ]
    report = evaluate_guards(_build_trajectories(), test)
    assert (report["coverage"], report["false_alarms"], report["by_domain"]["all"]["coverage_trajectories"]) == (
        1.0,
        0.0,
        1,
    )


def test_a_firing_after_the_first_wrong_write_is_late() -> None:
    events = (call(1, "refund", amount=1), call(2, "refund", amount=1))
    trajectory = GuardTrajectory("r", "r", False, events, wrong_step=1)
    result = backtest(Target("call.tool == 'refund' && repeats() > 0"), [trajectory])
    assert (result.failed, result.failed_firing, result.firings[0].is_late) == (1, 0, True)


def test_a_repaired_failure_of_a_passing_trajectory_is_no_false_alarm() -> None:
    unread, read = call(1, "edit", "Error: read the file first"), call(2, "read")
    repaired = build_trajectory("repaired", unread, read, call(3, "edit"))
    alarming = build_trajectory("alarming", unread, call(2, "edit"))
    result = backtest(Target("call.tool == 'edit' && !succeeded('read')"), [repaired, alarming])
    assert (result.passed, result.passed_firing, result.false_alarms) == (2, 2, 1)
    # The false alarm is shown by its call, not by the failed one before it.
    assert [(firing.step, firing.is_false_alarm) for firing in result.firings] == [(1, False), (2, True)]


def test_a_guard_of_repaired_failures_can_leave_shadow() -> None:
    repaired = [
        build_trajectory(str(number), call(1, "edit", "Error: read first"), call(2, "read"), call(3, "edit"))
        for number in range(150)
    ]
    assert backtest(Target("call.tool == 'edit' && !succeeded('read')"), repaired).false_alarm_bound <= 0.02


def test_every_proposed_predicate_is_a_target() -> None:
    odd = call(1, 'send "mail"\'s', text="it's\n\\n", count=2.5, flag=True, items=[1], none=None)
    table = build_firing_table([build_trajectory("r", odd, odd)])
    for predicate in table.predicates:
        Target(predicate.source)


def test_texts_are_quoted_for_cel() -> None:
    for text in ("it's", 'a "b"', "back\\slash", "line\nfeed\t\r"):
        assert Target(f"call.args.x == {quote(text)}").matches(call(0, "t", x=text).request, SessionHistory())


def _build_table(fires: NDArray[np.bool_], parts: Sequence[int]) -> FiringTable:
    predicates = tuple(Predicate(f"call.args.n == {n}", "test", "", count) for n, count in enumerate(parts))
    return FiringTable(predicates, np.where(fires, 0, NEVER).astype(np.int32))


def test_each_guard_costs_half_a_false_alarm_more_than_it_raised() -> None:
    """With 111 passing trajectories the limit is 2.24 false alarms; a third guard with one of them makes 2.5."""
    trajectories = [GuardTrajectory(f"r{task}", f"t{task}", task >= 30, ()) for task in range(141)]
    fires = np.zeros((141, 3), dtype=bool)
    fires[:12, 0] = fires[12:22, 1] = fires[22:30, 2] = fires[40, 0] = True
    table = _build_table(fires, (1, 1, 1))
    guards = mine_guards(trajectories, table, range(141)).guards
    assert [guard.column for guard in guards] == [1, 2]
    assert len(mine_guards(trajectories, table, range(141), MiningPolicy(largest_false_alarms=0.03)).guards) == 3


def test_of_equal_guards_the_one_with_more_conditions_is_first() -> None:
    trajectories = [GuardTrajectory(f"r{task}", f"t{task}", task >= 20, ()) for task in range(120)]
    fires = np.zeros((120, 2), dtype=bool)
    fires[:10, 0] = fires[5:15, 1] = True
    for parts in ((1, 3), (3, 1)):
        guards = mine_guards(trajectories, _build_table(fires, parts), range(120)).guards
        assert guards[0].column == parts.index(3)


@pytest.mark.parametrize("value", [2**70, 10**400, float("inf")])
def test_numbers_that_no_target_can_have_are_left_out(value: float) -> None:
    trajectories = [
        build_trajectory(f"r{number}", call(1, "refund", amount=value), is_success=number > 3) for number in range(8)
    ]
    sources = [predicate.source for predicate in build_firing_table(trajectories).predicates]
    assert "call.tool == 'refund'" in sources
    assert evaluate_guards(trajectories)["guards"] == mine_candidates(trajectories)["guards"] == []


def test_predicates_that_are_too_long_for_a_target_are_left_out() -> None:
    calls = [call(number, f"change_the_item_of_number_{number:03}", n=number) for number in range(100)]
    for predicate in build_firing_table([build_trajectory("r", *calls)]).predicates:
        Target(predicate.source)
