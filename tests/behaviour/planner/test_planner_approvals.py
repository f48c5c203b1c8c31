"""Issue: two replicas that resume the same approval are one execution, always: 1,000 approvals at the full size.

Four resumers race for each; one of them is stopped in its next call, and woken after another one took the execution
over.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from services.planner.domain.errors import ExecutionNotPaused
from services.planner.domain.events import StepFinished
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.results import OverallStatus, ToolResult
from services.planner.domain.tools import ToolInput
from services.planner.tests.parts import ScriptedTool, agent_plan, agent_step, answer, executor
from services.planner.tests.replicas import MachineClock, question, replica, until_quiet
from services.planner.usecases.executions import Executions
from services.planner.usecases.verify_log import verify_log
from tests.support.campaigns import campaign_cases

pytestmark = pytest.mark.long

APPROVALS = len(campaign_cases(range(1_000), short=100))
PROCEED = InterventionResponse(action=InterventionAction.PROCEED)


class StoppableTool(ScriptedTool):
    """A tool whose process can be stopped in the middle of a call."""

    def __init__(self) -> None:
        super().__init__({"s1": answer("one", 0.5)})
        self.running = asyncio.Event()
        self.running.set()
        self.stopped = asyncio.Event()

    async def run(self, tool_input: ToolInput) -> ToolResult:
        result = await super().run(tool_input)
        if tool_input.query == "s2" and not self.running.is_set():
            self.stopped.set()
            await self.running.wait()
        return result


async def test_each_approval_is_one_execution(tmp_path: Path) -> None:
    clock, tools = MachineClock(), [StoppableTool() for _ in range(4)]
    taken_over = 0
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(replica(tmp_path / "p.db", executor(tool, clock=clock), f"r{i}", clock))
            for i, tool in enumerate(tools)
        ]
        for number in range(APPROVALS):
            taken_over += await approve(number, replicas, tools, clock)
    assert taken_over > APPROVALS / 20  # the stopped replica is often the one that had succeeded


async def approve(number: int, replicas: list[Executions], tools: list[StoppableTool], clock: MachineClock) -> bool:
    """One approval; whether its winner was stopped and another one took over."""
    first = replicas[0]
    execution_id = await first.start(agent_plan(agent_step(1), agent_step(2, 1)), None, None)
    await until_quiet(first, execution_id)
    bound = await question(first, execution_id)
    late = number % 4
    tools[late].running.clear()
    tools[late].stopped.clear()
    order = [replicas[(late + i) % 4] for i in range(4)]
    outcomes = await asyncio.gather(
        *(planner.answer(execution_id, PROCEED, *bound, None) for planner in order),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ExecutionNotPaused) for outcome in outcomes) == 3
    won = isinstance(outcomes[0], int)
    heir = order[1]
    if won:
        await tools[late].stopped.wait()
        driven = replicas[late].driven[execution_id].task
        await heir.sweep_once()
        clock.advance(11)
        await heir.sweep_once()
        await until_quiet(heir, execution_id)
        tools[late].running.set()
        assert driven is not None
        await driven
    tools[late].running.set()
    state = await until_quiet(heir, execution_id)
    log = await heir.read_log(execution_id)
    finished = [r.event.step_id for r in log if isinstance(r.event, StepFinished)]
    assert finished == [1, 2]
    assert state.result is not None
    assert (state.result.overall_status, state.result.final_answer) == (OverallStatus.SUCCESS, "s2")
    assert (await verify_log(heir.store, execution_id)).findings == ()
    return won
