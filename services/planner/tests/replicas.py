"""Planner processes over a database, as tests need them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from services.planner.adapters.sql.repository import SqlExecutionStore
from services.planner.domain.execution import ExecutionState
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.tests.parts import (
    ScriptedTool,
    StandingClock,
    agent_plan,
    agent_step,
    answer,
)
from services.planner.usecases.execute import Executor
from services.planner.usecases.executions import Executions, Ownership
from services.planner.usecases.tokens import find_open_question

Bound = tuple[str, int, int | None]
"""The parts that an answer is bound to: the token, the plan's version, the step."""
PROCEED = InterventionResponse(action=InterventionAction.PROCEED)


class MachineClock(StandingClock):
    """The clocks of a machine: `advance` is time that passes, `put` is somebody who sets the clock."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds = 0.0

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._seconds += seconds

    def set_clock(self, seconds: float) -> None:
        super().advance(seconds)

    def monotonic(self) -> float:
        return self._seconds


@asynccontextmanager
async def replica(
    location: Path | str,
    plan_executor: Executor,
    owner: str = "one",
    clock: MachineClock | None = None,
    lease_seconds: float = 10.0,
) -> AsyncIterator[Executions]:
    """Yield a planner process's executions over a database file."""
    store = SqlExecutionStore(str(location))
    await store.database.open()
    options: dict[str, Any] = {} if clock is None else {"clock": clock, "monotonic": clock.monotonic}
    executions = Executions(store, plan_executor, Ownership(owner, lease_seconds, 0.01), **options)
    await executions.open()
    try:
        yield executions
    finally:
        await executions.close()
        await store.database.close()


async def until_quiet(executions: Executions, execution_id: str) -> ExecutionState:
    """The state once the execution pauses or ends."""
    states = [state async for _, state in executions.watch(execution_id, until_paused=True)]
    return states[-1]


async def question(executions: Executions, execution_id: str) -> Bound:
    """Token, plan version and step of the open question."""
    recorded = find_open_question(await executions.read_log(execution_id))
    event = recorded.event
    assert event.kind == "intervention_requested"
    return executions.create_token(execution_id, recorded), event.plan_version, event.request.step_id


def asking() -> ScriptedTool:
    return ScriptedTool({"s2": answer("two", 0.5)})


def three() -> Any:
    return agent_plan(agent_step(1), agent_step(2, 1), agent_step(3, 2))
