"""Verify the log of an execution without any call: its chain of hashes, its states, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from services.planner.domain.errors import CorruptLog
from services.planner.domain.events import ExecutionFinished
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import replay
from services.planner.domain.results import order_results
from services.planner.domain.texts import TEXTS
from services.planner.usecases.ports import ExecutionStore


@dataclass(frozen=True, slots=True)
class LogVerification:
    """The findings of a verification; without any, the log is intact."""

    events: int
    findings: tuple[str, ...]
    state: ExecutionState | None


async def verify_log(store: ExecutionStore, execution_id: str) -> LogVerification:
    """Replay the log of an execution and compare it with the stored result. Raises ExecutionNotFound."""
    try:
        log = await store.read(execution_id)
    except CorruptLog as error:
        return LogVerification(0, (error.message,), None)
    state = replay(log)
    findings = []
    last = log[-1].event
    if isinstance(last, ExecutionFinished):
        if tuple(order_results(state.plan, state.step_results)) != last.result.step_results:
            findings.append("the final step results differ from those of the log")
        crashes = tuple(texts.crash.format(error="") for texts in TEXTS.values())
        if state.final_answer != last.result.final_answer and not (last.result.final_answer or "").startswith(crashes):
            findings.append("the final answer differs from that of the log")
        if state.replan_count != last.result.replan_count:
            findings.append("the final number of replans differs from that of the log")
    return LogVerification(len(log), tuple(findings), state)
