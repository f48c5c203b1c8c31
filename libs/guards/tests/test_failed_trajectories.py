"""Targets that a model writes from failed trajectories: the prompt, and their measurement on other tasks."""

from __future__ import annotations

import numpy as np

from libs.guards.failed_trajectories import build_messages, describe_tools
from libs.guards.guard_trajectory import GuardTrajectory
from libs.guards.sources import WrittenTarget, evaluate_sources, select_written
from libs.guards.tests.trajectories import build_trajectory, call

LOOKUP_FIRST = "call.tool == 'refund' && !called('get_order')"
ORDER, REFUND = call(1, "get_order"), call(2, "refund")


def build_failures(*tasks: str) -> list[GuardTrajectory]:
    return [build_trajectory(task, REFUND, is_success=False, domain="shop") for task in tasks]


def build_passes(count: int) -> list[GuardTrajectory]:
    return [build_trajectory(f"passed-{number}", ORDER, REFUND, domain="shop") for number in range(count)]


def measure(
    targets: list[WrittenTarget], train: list[GuardTrajectory], test: list[GuardTrajectory] | None = None
) -> tuple[float, float]:
    """Return the coverage of written targets with and without a backtest."""
    by_source = evaluate_sources(train, targets, test)["by_source"]
    return by_source["written"]["all"]["coverage"], by_source["unfiltered"]["all"]["coverage"]


def test_a_prompt_has_one_trajectory_and_no_value_of_others() -> None:
    secret = call(1, "get_order", "", {"total": "of-another-task"}, id="other-id", note="other-note")
    lost = call(2, "refund", "order A-1 is locked", id="A-1")
    failed = build_trajectory("task-of-the-check", lost, is_success=False, domain="shop", request="Refund A-1.")
    others = [build_trajectory("other", secret, domain="shop"), build_trajectory("far", call(1, "book"), domain="air")]
    tools = describe_tools([failed, *others], "shop")
    assert tools == "- get_order(id, note)\n- refund(id)"
    (_, system), (_, prompt) = build_messages(failed, tools)
    assert '[0] user: Refund A-1.\n[2] call: refund({"id": "A-1"})\n    error: order A-1 is locked' in prompt
    assert not [part for part in ("other-id", "other-note", "of-another-task", "task-of-the-check") if part in prompt]
    (_, same), _ = build_messages(build_failures("b")[0], "")
    assert system == same


def test_a_long_trajectory_is_shortened() -> None:
    calls = [call(number, "read", "", "x" * 5_000) for number in range(1, 40)]
    _, (_, prompt) = build_messages(build_trajectory("long", *calls, is_success=False), "", chars=20_000)
    assert 10_000 < len(prompt) < 25_000
    assert "characters are left out here" in prompt


def test_a_target_is_not_used_on_the_task_that_it_was_written_from() -> None:
    train, test = [*build_failures("a", "b", "c"), *build_passes(120)], build_failures("a")
    assert measure([WrittenTarget(LOOKUP_FIRST, "shop", "b")], train, test) == (1.0, 1.0)
    assert measure([WrittenTarget(LOOKUP_FIRST, "shop", "a")], train, test) == (0.0, 0.0)
    assert measure([WrittenTarget(LOOKUP_FIRST, "air", "a")], train, test) == (1.0, 1.0)


def test_no_fold_uses_a_target_of_a_task_that_it_tests() -> None:
    trajectories = [*build_failures("a", "b", "c"), *build_passes(120)]
    report = evaluate_sources(trajectories, [WrittenTarget(LOOKUP_FIRST, "shop", "a")])
    covered = report["by_source"]["written"]["shop"]["coverage_firing"]
    assert 0 < covered <= 2


def test_the_failure_that_a_target_was_written_from_is_no_evidence_for_it() -> None:
    others = [build_trajectory("b", call(1, "cancel"), is_success=False, domain="shop"), *build_passes(120)]
    train = [*build_failures("a"), *others]
    test = build_failures("c")
    assert measure([WrittenTarget(LOOKUP_FIRST, "shop", "")], train, test)[0] == 1.0
    assert measure([WrittenTarget(LOOKUP_FIRST, "shop", "a")], train, test) == (0.0, 1.0)


def test_of_equal_targets_one_is_used() -> None:
    failed = np.array([True] * 3 + [False] * 200)
    fires = np.zeros((203, 3), dtype=bool)
    fires[:2, :2] = True
    fires[1:3, 2] = True
    assert select_written(fires, failed, fires[:, :0]) == [0, 2]
