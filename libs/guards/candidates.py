"""Mine candidates of guards from trajectories, each with a lesson that people can edit and with its backtest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chassis.targets.target import Target
from libs.guards.backtest import backtest
from libs.guards.firings import build_firing_table
from libs.guards.guard_trajectory import GuardTrajectory
from libs.guards.mining import MinedGuard, mine_guards

_CALLS = {"": "any tool", "*": "a tool that may write"}


def mine_candidates(trajectories: Sequence[GuardTrajectory]) -> dict[str, Any]:
    """Return the guards that the trajectories support as a document, with the size of the search.

    The backtests are on the trajectories that the guards were mined from.
    """
    result = mine_guards(trajectories, build_firing_table(trajectories), range(len(trajectories)))
    return {
        "trajectories": len(trajectories),
        "failed_trajectories": sum(not trajectory.is_success for trajectory in trajectories),
        "predicates_tried": result.tried,
        "tests_counted": result.counted,
        "guards": [_describe(guard, trajectories) for guard in result.guards],
    }


def _describe(guard: MinedGuard, trajectories: Sequence[GuardTrajectory]) -> dict[str, Any]:
    source = guard.predicate.source
    return {
        "target": source,
        "lesson": describe_lesson(guard),
        "kind": guard.predicate.kind,
        "p_value": guard.p_value,
        "backtest": backtest(Target(source), trajectories).describe(),
    }


def describe_lesson(guard: MinedGuard) -> str:
    """Return the lesson of a mined guard in words: the call, what is wrong with it, and how often it failed."""
    call = _CALLS.get(guard.predicate.tool, guard.predicate.tool)
    firing = guard.failed_firing + guard.passed_firing
    return (
        f"Check before a call of {call}: {guard.predicate.kind}."
        f" {guard.failed_firing} of {firing} recorded trajectories with such a call failed ({guard.predicate.source})."
    )
