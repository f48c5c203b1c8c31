"""Offline replay of a log: its chain of hashes, its states, its result, without calling anything."""

from __future__ import annotations

from dataclasses import dataclass

from services.planner.domain.errors import CorruptLog
from services.planner.domain.events import Finished
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import replay
from services.planner.domain.results import order_results
from services.planner.usecases.ports import ExecutionStore


@dataclass(frozen=True, slots=True)
class LogAudit:
    """What an audit found; no findings means that the log is whole."""

    events: int
    findings: tuple[str, ...]
    state: ExecutionState | None


async def audit_log(store: ExecutionStore, execution_id: str) -> LogAudit:
    """Replays an execution's log and compares what it says with what the replay gives. Errors: RunNotFound."""
    try:
        log = await store.read(execution_id)
    except CorruptLog as error:
        return LogAudit(0, (error.message,), None)
    state = replay(log)
    findings = []
    last = log[-1].event
    if isinstance(last, Finished):
        if tuple(order_results(state.plan, state.step_results)) != last.result.step_results:
            findings.append("the step results of the end are not those of the log")
        if state.final_answer != last.result.final_answer and not (last.result.final_answer or "").startswith(
            "実行エラー"
        ):
            findings.append("the answer of the end is not that of the log")
        if state.replan_count != last.result.replan_count:
            findings.append("the number of replans of the end is not that of the log")
    return LogAudit(len(log), tuple(findings), state)
