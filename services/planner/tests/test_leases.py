"""Executions over restarts and replicas: leases, fencing, takeovers, and counts over all of them."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from libs.storage.errors import StoreUnavailable
from services.planner.adapters.sql.repository import SqlExecutionStore
from services.planner.domain.answers import InterventionPolicy
from services.planner.domain.events import Budget, Effect, LogLine, StepInDoubt
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.moves import ExecutionRules
from services.planner.domain.replanning import ReplanManager
from services.planner.domain.results import OverallStatus, ToolResult
from services.planner.tests.parts import (
    ScriptedModel,
    ScriptedTool,
    agent_plan,
    agent_step,
    answer,
    executor,
    failure,
    planner_with,
)
from services.planner.tests.replicas import PROCEED, MachineClock, asking, question, replica, three, until_quiet
from services.planner.usecases.execute import Executor
from services.planner.usecases.executions import Executions, Ownership


async def test_a_pause_survives_its_process(tmp_path: Path) -> None:  # P-48, P-130
    plan, first, second = three(), asking(), asking()
    async with replica(tmp_path / "p.db", executor(first)) as executions:
        execution_id = await executions.start(plan, None, None)
        assert (await until_quiet(executions, execution_id)).is_paused
        await asyncio.gather(*(driven.task for driven in executions.driven.values() if driven.task))
        assert executions.driven == {}  # a paused execution holds no memory
    async with replica(tmp_path / "p.db", executor(second), "two") as executions:
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        state = await until_quiet(executions, execution_id)
    assert (first.queries, second.queries) == (["s1", "s2"], ["s3"])
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.SUCCESS


async def test_without_an_answer_in_time_the_execution_is_cancelled(tmp_path: Path) -> None:  # P-85, P-130
    clock = MachineClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        clock.advance(299)
        await executions.sweep_once()
        assert (await executions.state(execution_id)).is_paused
        clock.advance(2)
        await executions.sweep_once()
        state = await until_quiet(executions, execution_id)
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.CANCELLED
    assert state.history[-1].timeout_reached


@pytest.mark.parametrize("auto", [False, True])
async def test_without_a_person_to_ask_an_execution_continues_at_once(tmp_path: Path, auto: bool) -> None:  # P-85
    rules = ExecutionRules(policy=InterventionPolicy(auto_proceed_on_timeout=auto))
    async with replica(tmp_path / "p.db", executor(asking(), rules=rules)) as executions:
        execution_id = await executions.start(three(), None, None, human_available=False)
        result = await executions.await_result(execution_id)
    assert result.overall_status is (OverallStatus.SUCCESS if auto else OverallStatus.CANCELLED)


async def test_of_racing_resumers_one_wins(tmp_path: Path) -> None:
    """Four replicas over one database answer the same question at once: one execution, always."""
    tools = [asking() for _ in range(4)]
    replicas = [replica(tmp_path / "p.db", executor(tool), f"r{i}") for i, tool in enumerate(tools)]
    async with replicas[0] as a, replicas[1] as b, replicas[2] as c, replicas[3] as d:
        for _ in range(25):
            execution_id = await a.start(three(), None, None)
            await until_quiet(a, execution_id)
            bound = await question(a, execution_id)
            outcomes = await asyncio.gather(
                *(planner.answer(execution_id, PROCEED, *bound, None) for planner in (a, b, c, d)),
                return_exceptions=True,
            )
            assert sorted(type(o).__name__ for o in outcomes) == ["ExecutionNotPaused"] * 3 + ["int"]
            state = await until_quiet(a, execution_id)
            assert state.attempts == {1: 1, 2: 1, 3: 1}
    assert sum(tool.queries.count("s3") for tool in tools) == 25


async def test_a_replica_that_lost_its_lease_writes_nothing(tmp_path: Path) -> None:
    """A replica stopped in the middle of a call and woken after another one took over commits nothing."""
    clock, entered, woken = MachineClock(), asyncio.Event(), asyncio.Event()

    async def stop_in_call(_: Any) -> ToolResult:
        entered.set()
        await woken.wait()
        return answer("from the one that was stopped")

    plan = agent_plan(agent_step(1), agent_step(2, 1))
    late, quick = ScriptedTool({"s1": stop_in_call}), ScriptedTool()
    async with (
        replica(tmp_path / "p.db", executor(late, clock=clock), "late", clock) as first,
        replica(tmp_path / "p.db", executor(quick, clock=clock), "quick", clock) as second,
    ):
        execution_id = await first.start(plan, None, None)
        await entered.wait()
        await second.sweep_once()
        assert second.driven == {}  # the lease is held
        clock.advance(11)
        await second.sweep_once()
        state = await until_quiet(second, execution_id)
        task = first.driven[execution_id].task
        woken.set()
        assert task is not None
        await task
        assert await second.state(execution_id) == state
    assert state.result is not None
    assert state.result.final_answer == "s2"
    assert (late.queries, quick.queries) == (["s1"], ["s1", "s2"])


async def test_a_lease_that_cannot_be_released_is_logged_and_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, entered = MachineClock(), asyncio.Event()

    async def hanging(_: Any) -> ToolResult:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def away(_: Any) -> None:
        raise StoreUnavailable("the database went first")

    make_executor = executor(ScriptedTool({"s1": hanging}), clock=clock)
    async with replica(tmp_path / "p.db", make_executor, "one", clock) as first:
        execution_id = await first.start(agent_plan(agent_step(1)), None, None)
        await entered.wait()
        monkeypatch.setattr(first.store, "release", away)
    assert "lease could not be released; it has to expire error=the database went first" in caplog.text
    async with replica(tmp_path / "p.db", executor(ScriptedTool(), clock=clock), "two", clock) as second:
        await second.sweep_once()
        assert second.driven == {}
        clock.advance(11)
        await second.sweep_once()
        assert (await until_quiet(second, execution_id)).result is not None


async def test_an_execution_survives_a_failure_of_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, tool, errors = MachineClock(), ScriptedTool(), [StoreUnavailable("the database went first")]
    async with replica(tmp_path / "p.db", executor(tool, clock=clock), "one", clock) as executions:
        append = executions.store.append

        async def fail_once(*values: Any) -> None:
            if tool.queries and errors:
                raise errors.pop()
            await append(*values)

        monkeypatch.setattr(executions.store, "append", fail_once)
        execution_id = await executions.start(agent_plan(agent_step(1)), None, None)
        await asyncio.gather(*(driven.task for driven in executions.driven.values() if driven.task))
        assert (await executions.state(execution_id)).result is None
        await executions.sweep_once()
        clock.advance(11)
        await executions.sweep_once()
        result = await executions.await_result(execution_id)
    assert result.overall_status is OverallStatus.SUCCESS
    assert tool.queries == ["s1", "s1"]  # the tool has no effects, and its first result is not in the log


async def test_a_corrupt_log_does_not_stop_the_sweep(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = MachineClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        corrupt, intact = [await executions.start(three(), None, None) for _ in range(2)]
        for execution_id in (corrupt, intact):
            await until_quiet(executions, execution_id)
        with contextlib.closing(sqlite3.connect(tmp_path / "p.db")) as connection, connection:
            connection.execute("UPDATE planner_event SET payload = x'00' WHERE execution_id = ?", [corrupt])
            connection.execute("UPDATE planner_execution SET wake_at = wake_at - 1 WHERE execution_id = ?", [corrupt])
        clock.advance(301)
        await executions.sweep_once()
        state = await until_quiet(executions, intact)
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.CANCELLED
    assert f"execution could not be resumed; trying again later execution_id={corrupt}" in caplog.text


async def test_a_call_is_not_made_without_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may sleep for hours between intent and call; it checks its lease by its own clock before the call."""
    now = 0.0
    store = SqlExecutionStore(str(tmp_path / "p.db"))
    await store.database.open()
    tool = ScriptedTool()
    executions = Executions(store, executor(tool), Ownership("one", 10.0), monotonic=lambda: now)
    await executions.open()
    original = store.append

    async def slept(*args: Any) -> None:
        nonlocal now
        await original(*args)
        now = 11.0

    monkeypatch.setattr(store, "append", slept)
    execution_id = await executions.start(agent_plan(agent_step(1)), None, None)
    task = executions.driven[execution_id].task
    assert task is not None
    await task
    assert tool.calls == []
    await executions.close()
    await store.database.close()


async def test_cancel_by_another_replica_reaches_the_driver(tmp_path: Path) -> None:  # P-131
    entered = asyncio.Event()

    async def long(_: Any) -> ToolResult:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    tool = ScriptedTool({"s1": long})
    async with (
        replica(tmp_path / "p.db", executor(tool), "driver") as driver,
        replica(tmp_path / "p.db", executor(ScriptedTool()), "other") as other,
    ):
        execution_id = await driver.start(three(), None, None)
        await entered.wait()
        await other.cancel(execution_id, "enough")
        await driver.renew()  # what the background task does every few seconds
        state = await until_quiet(other, execution_id)
    assert state.is_cancelled
    assert state.result is not None


async def test_an_unsafe_call_in_doubt_asks_a_person(tmp_path: Path) -> None:
    clock, entered = MachineClock(), asyncio.Event()

    async def dies(_: Any) -> ToolResult:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    unsafe = ScriptedTool({"s1": dies}, effect=Effect.UNSAFE)
    again = ScriptedTool(effect=Effect.UNSAFE)
    async with (
        replica(tmp_path / "p.db", executor(unsafe, clock=clock), "dead", clock) as dead,
        replica(tmp_path / "p.db", executor(again, clock=clock), "next", clock) as heir,
    ):
        execution_id = await dead.start(agent_plan(agent_step(1), agent_step(2, 1)), None, None)
        await entered.wait()
        await heir.sweep_once()
        clock.advance(11)
        await heir.sweep_once()
        state = await until_quiet(heir, execution_id)
        assert any(isinstance(r.event, StepInDoubt) for r in await heir.read_log(execution_id))
        assert state.intervention_request is not None
        assert state.intervention_request.reason == "in doubt"
        assert again.calls == []
        response = InterventionResponse(action=InterventionAction.INPUT, user_input="it was sent")
        await heir.answer(execution_id, response, *await question(heir, execution_id), None)
        state = await until_quiet(heir, execution_id)
    assert (state.step_results[1].output, again.queries) == ("it was sent", ["s2"])


async def test_a_person_is_asked_about_a_call_in_doubt_before_the_failure_of_a_sibling(tmp_path: Path) -> None:
    """A replan would remove the step, and with it the question whether the call happened."""
    clock, entered = MachineClock(), asyncio.Event()

    async def dies(_: Any) -> ToolResult:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    reply = '{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"again"}]}'
    unsafe = ScriptedTool({"s1": failure(), "s2": dies}, effect=Effect.UNSAFE)
    next_tool = ScriptedTool(effect=Effect.UNSAFE)
    next_executor = executor(next_tool, planner=planner_with(ScriptedModel(reply)), clock=clock)
    async with (
        replica(tmp_path / "p.db", executor(unsafe, clock=clock), "dead", clock) as dead,
        replica(tmp_path / "p.db", next_executor, "next", clock) as heir,
    ):
        execution_id = await dead.start(agent_plan(agent_step(1), agent_step(2)), None, None)
        await entered.wait()
        await heir.sweep_once()
        clock.advance(11)
        await heir.sweep_once()
        state = await until_quiet(heir, execution_id)
        assert state.intervention_request is not None
        assert (state.intervention_request.step_id, state.intervention_request.reason) == (2, "in doubt")
        assert state.replan_count == 0
        response = InterventionResponse(action=InterventionAction.INPUT, user_input="it was sent")
        await heir.answer(execution_id, response, *await question(heir, execution_id), None)
        state = await until_quiet(heir, execution_id)
    assert (state.replan_count, next_tool.queries) == (1, ["again"])


@pytest.mark.parametrize(
    ("budget", "used_up"),
    [
        (Budget(max_tokens=20), "20 tokens"),
        (Budget(max_cost_micro_usd=6), "6 cost_micro_usd"),
        (Budget(max_tool_calls=2), "2 tool_calls"),
        (Budget(max_wall_seconds=10), "10 wall_seconds"),
    ],
)
async def test_the_budget_holds_over_a_restart(tmp_path: Path, budget: Budget, used_up: str) -> None:
    clock = MachineClock()

    def five_seconds(confidence: float) -> Any:
        def advance_clock(_: Any) -> ToolResult:
            clock.advance(5)
            return answer("x", confidence, token_usage=10, cost_micro_usd=3)

        return advance_clock

    spent = ScriptedTool({f"s{i}": five_seconds(0.5 if i == 1 else 0.95) for i in range(1, 4)})
    async with replica(tmp_path / "p.db", executor(spent, clock=clock), clock=clock) as executions:
        execution_id = await executions.start(three(), budget, None)
        await until_quiet(executions, execution_id)
    clock.advance(60)  # the pause counts for nothing
    async with replica(tmp_path / "p.db", executor(spent, clock=clock), "two", clock) as executions:
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        state = await until_quiet(executions, execution_id)
        lines = [r.event.message for r in await executions.read_log(execution_id) if isinstance(r.event, LogLine)]
    assert spent.queries == ["s1", "s2"]
    assert lines[-1] == f"budget of {used_up} is used up"
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.PARTIAL


async def test_the_budget_holds_over_replans(tmp_path: Path) -> None:
    """The usage of replans counts towards the budget, and no replan resets the usage."""
    reply = '{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"again"}]}'
    planner = planner_with(ScriptedModel(reply, reply.replace("again", "more"), tokens=7))
    failing = ScriptedTool({name: ToolResult(success=False, error="x", token_usage=1) for name in ("s1", "again")})
    async with replica(tmp_path / "p.db", executor(failing, planner=planner)) as executions:
        execution_id = await executions.start(agent_plan(agent_step(1)), Budget(max_tokens=16), None)
        state = await until_quiet(executions, execution_id)
        lines = [r.event.message for r in await executions.read_log(execution_id) if isinstance(r.event, LogLine)]
    assert (state.tokens, state.replan_count, failing.queries) == (16, 2, ["s1", "again"])
    assert lines[-1] == "budget of 16 tokens is used up"


async def test_replans_are_counted_over_a_restart(tmp_path: Path) -> None:  # P-110, P-132
    modify = InterventionResponse(action=InterventionAction.MODIFY, user_input="変更")
    model = ScriptedModel('{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"low"}]}')

    def make_executor() -> Executor:
        tool = ScriptedTool({"s1": answer("x", 0.5), "low": answer("x", 0.5)})
        rules = ExecutionRules(replans=ReplanManager(max_replans=2))
        return executor(tool, planner=planner_with(model), rules=rules)

    async with replica(tmp_path / "p.db", make_executor()) as executions:
        execution_id = await executions.start(agent_plan(agent_step(1)), None, None)
        await until_quiet(executions, execution_id)
    state = None
    for i in range(3):
        async with replica(tmp_path / "p.db", make_executor(), f"r{i}") as executions:
            await executions.answer(execution_id, modify, *await question(executions, execution_id), None)
            state = await until_quiet(executions, execution_id)
    assert state is not None
    assert state.replan_count == 2
    assert state.result is not None  # the third request exceeds the limit of replans: the execution ends (P-111)
