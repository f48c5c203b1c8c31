"""The policy in recorded trajectories, and guards of two sources together."""

from __future__ import annotations

import numpy as np

from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryMessage
from libs.guards.mining import MiningPolicy
from libs.guards.policy import MIN_DOCUMENT_CHARS, collect_policies
from libs.guards.sources import WrittenTarget, evaluate_sources, select_written
from libs.guards.tests.trajectories import build_trajectory, call

LOOKUP_FIRST = "call.tool == 'refund' && !called('get_order')"
POLICY = "Look the order up before a refund. " * (MIN_DOCUMENT_CHARS // 30)


def with_instructions(trajectory: GuardTrajectory, text: str) -> GuardTrajectory:
    return GuardTrajectory(
        trajectory.id,
        trajectory.task_id,
        trajectory.is_success,
        (TrajectoryMessage(0, "system", text), *trajectory.events),
        trajectory.domain,
        trajectory.wrong_step,
    )


def test_a_policy_is_what_all_tasks_were_given() -> None:
    trajectories = [
        with_instructions(
            build_trajectory(
                f"t{number}",
                call(1, "get_policy", "", POLICY, topic="refunds"),
                call(2, "get_order", "", f"order {number} " * MIN_DOCUMENT_CHARS, id=f"A-{number}"),
                is_success=number > 1,
                domain="shop",
            ),
            "You are a clerk.",
        )
        for number in range(4)
    ]
    (policy,) = collect_policies([*trajectories])
    assert (policy.domain, policy.instructions) == ("shop", ("You are a clerk.",))
    assert policy.documents == (('get_policy({"topic": "refunds"})', POLICY),)
    assert policy.tools[1].startswith("- get_order(id: A-0 | A-1 | A-2) -> order 0")
    reversed_outcomes = [GuardTrajectory(r.id, r.task_id, not r.is_success, r.events, r.domain) for r in trajectories]
    assert collect_policies(reversed_outcomes) == [policy]


def test_written_targets_count_with_mined_guards_against_one_limit_of_false_alarms() -> None:
    failed = np.array([True] * 4 + [False] * 200)
    fires = np.zeros((204, 3), dtype=bool)
    fires[0:2, 0] = True
    fires[2:4, 1], fires[4:6, 1] = True, True
    fires[:, 2] = True
    limits = MiningPolicy(largest_false_alarm_bound=0.1)
    assert select_written(fires, failed, np.zeros((204, 0), dtype=bool), limits) == [0, 1]
    mined = np.zeros((204, 1), dtype=bool)
    mined[100] = True
    assert select_written(fires, failed, mined, limits) == [0]


def test_a_written_target_needs_no_significance_and_a_mined_one_does() -> None:
    order, refund = call(1, "get_order"), call(2, "refund")
    trajectories = [build_trajectory(f"f{number}", refund, is_success=False) for number in range(2)]
    trajectories += [build_trajectory(f"p{number}", order, refund) for number in range(70)]
    report = evaluate_sources(trajectories, [WrittenTarget(LOOKUP_FIRST), WrittenTarget("call.tool == 'refund'")])
    assert report["by_source"]["written"]["all"]["coverage"] > 0.5
    assert report["by_source"]["mined"]["all"]["coverage"] == 0.0
    assert report["by_source"]["unfiltered"]["all"]["false_alarms"] == 1.0
    assert report["false_alarms"] == 0.0
    assert [item["folds"] > 0 for item in report["targets"]] == [True, False]
