"""Mine candidates of guards from recorded runs, each with a lesson that people can edit and with its backtest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chassis.targets.target import Target
from libs.guards.backtest import backtest
from libs.guards.firings import build_firing_table
from libs.guards.mining import MinedGuard, MiningPolicy, mine_guards
from libs.guards.recorded_run import RecordedRun

_CALLS = {"": "any tool", "*": "a tool that may write"}


def mine_candidates(runs: Sequence[RecordedRun], policy: MiningPolicy | None = None) -> dict[str, Any]:
    """Return the guards that the runs support as a document, with the size of the search.

    The backtests are on the runs that the guards were mined from.
    """
    result = mine_guards(runs, build_firing_table(runs), range(len(runs)), policy)
    return {
        "runs": len(runs),
        "failed_runs": sum(not run.is_success for run in runs),
        "predicates_tried": result.tried,
        "tests_counted": result.counted,
        "guards": [_describe(guard, runs) for guard in result.guards],
    }


def _describe(guard: MinedGuard, runs: Sequence[RecordedRun]) -> dict[str, Any]:
    source = guard.predicate.source
    return {
        "target": source,
        "lesson": describe_lesson(guard),
        "kind": guard.predicate.kind,
        "p_value": guard.p_value,
        "backtest": backtest(Target(source), runs).describe(),
    }


def describe_lesson(guard: MinedGuard) -> str:
    """Return the lesson of a mined guard in words: the call, what is wrong with it, and how often such runs failed."""
    call = _CALLS.get(guard.predicate.tool, guard.predicate.tool)
    firing = guard.failed_firing + guard.passed_firing
    return (
        f"Check before a call of {call}: {guard.predicate.kind}."
        f" {guard.failed_firing} of {firing} recorded runs with such a call failed ({guard.predicate.source})."
    )
