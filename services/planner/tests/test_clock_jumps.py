"""The clock of a machine jumps: holders keep their leases, durations stay right, times in logs never decrease."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from services.planner.domain.events import Budget
from services.planner.domain.results import OverallStatus, ToolResult
from services.planner.tests.parts import ScriptedTool, agent_plan, agent_step, answer, executor
from services.planner.tests.replicas import PROCEED, MachineClock, asking, question, replica, three, until_quiet

HOUR = 3600.0


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_clock_jump_ends_no_lease_of_a_live_holder(tmp_path: Path, jump: float) -> None:
    entered, woken = asyncio.Event(), asyncio.Event()

    async def long(_: Any) -> ToolResult:
        entered.set()
        await woken.wait()
        return answer("one")

    tool, idle = ScriptedTool({"s1": long}), ScriptedTool()
    clocks = MachineClock(), MachineClock()
    async with (
        replica(tmp_path / "p.db", executor(tool, clock=clocks[0]), "driver", clocks[0]) as driver,
        replica(tmp_path / "p.db", executor(idle, clock=clocks[1]), "jumper", clocks[1]) as jumper,
    ):
        execution_id = await driver.start(three(), None, None)
        await entered.wait()
        await jumper.sweep_once()
        clocks[1].set_clock(jump)
        for _ in range(4):
            await jumper.sweep_once()
            for clock in clocks:
                clock.advance(9)
            await driver.renew()
        assert jumper.driven == {}
        clocks[0].set_clock(jump)
        await driver.renew()  # its own clock does not take it from the driver either
        woken.set()
        state = await until_quiet(driver, execution_id)
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.SUCCESS
    assert (tool.queries, idle.queries) == (["s1", "s2", "s3"], [])


async def test_a_replica_that_died_with_a_fast_clock_is_replaced_after_a_lease(tmp_path: Path) -> None:
    entered = asyncio.Event()

    async def dies(_: Any) -> ToolResult:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    ahead, right = MachineClock(), MachineClock()
    ahead.set_clock(HOUR)
    tool = ScriptedTool()
    async with (
        replica(tmp_path / "p.db", executor(ScriptedTool({"s1": dies}), clock=ahead), "dead", ahead) as dead,
        replica(tmp_path / "p.db", executor(tool, clock=right), "heir", right) as heir,
    ):
        execution_id = await dead.start(agent_plan(agent_step(1)), None, None)
        await entered.wait()
        await dead.renew()
        await heir.sweep_once()
        right.advance(9.9)
        await heir.sweep_once()
        assert heir.driven == {}
        right.advance(0.1)
        await heir.sweep_once()
        state = await until_quiet(heir, execution_id)
        log = await heir.read_log(execution_id)
    assert state.result is not None
    assert tool.queries == ["s1"]
    assert all(a.created_at <= b.created_at for a, b in pairwise(log))


async def test_a_clock_jump_uses_no_budget_of_time(tmp_path: Path) -> None:
    clock = MachineClock()

    def jumps(_: Any) -> ToolResult:
        clock.set_clock(HOUR)
        clock.advance(2)
        return answer("x")

    tool = ScriptedTool({f"s{i}": jumps for i in (1, 2, 3)})
    async with replica(tmp_path / "p.db", executor(tool, clock=clock), clock=clock) as executions:
        execution_id = await executions.start(three(), Budget(max_wall_seconds=10), None)
        state = await until_quiet(executions, execution_id)
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.SUCCESS
    assert state.result.total_execution_time_ms == 6000


async def test_an_open_question_is_answered_after_the_clock_jumps_back(tmp_path: Path) -> None:
    clock = MachineClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        bound = await question(executions, execution_id)
        clock.set_clock(-HOUR)
        await executions.answer(execution_id, PROCEED, *bound, None)
        state = await until_quiet(executions, execution_id)
        log = await executions.read_log(execution_id)
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.SUCCESS
    assert state.result.total_execution_time_ms == 0
    (answered_event,) = (recorded.event for recorded in log if recorded.event.kind == "intervention_answered")
    assert answered_event.response.response_time_ms == 0
    assert all(a.created_at <= b.created_at for a, b in pairwise(log))
