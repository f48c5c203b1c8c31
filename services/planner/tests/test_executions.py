"""Executions in a real SQLite file: leases, fencing, answers, watching, cancelling, auditing."""

import asyncio
import random
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from services.planner.adapters.sql.store import SqlExecutionStore
from services.planner.domain.answers import AskingPolicy
from services.planner.domain.errors import (
    AnswerRefused,
    PlanAlreadyRun,
    RequestIdReused,
    RunEnded,
    RunNotFound,
    RunNotPaused,
)
from services.planner.domain.events import Budget, Effect, LogLine, StepInDoubt
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import replayed
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.moves import Rules
from services.planner.domain.replanning import ReplanManager
from services.planner.domain.results import OverallStatus, ToolResult
from services.planner.tests.scripted import (
    FixedBackend,
    ScriptedModel,
    ScriptedTool,
    StandingClock,
    agent_plan,
    agent_step,
    answer,
    executor,
)
from services.planner.usecases.audit import audited
from services.planner.usecases.execute import Executor
from services.planner.usecases.executions import Executions, Ownership
from services.planner.usecases.plan import Planner
from services.planner.usecases.store import ExecutionStatus, Filter, Request
from services.planner.usecases.tokens import check_token, open_question

PROCEED = InterventionResponse(action=InterventionAction.PROCEED)


@asynccontextmanager
async def replica(
    place: Path | str,
    made: Executor,
    owner: str = "one",
    clock: StandingClock | None = None,
    lease_seconds: float = 10.0,
) -> AsyncIterator[Executions]:
    """A planner process's executions over a database file."""
    store = SqlExecutionStore(str(place))
    await store.open()
    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    executions = Executions(store, made, Ownership(owner, lease_seconds, 0.01), **options)
    await executions.open()
    try:
        yield executions
    finally:
        await executions.close()
        await store.close()


async def until_quiet(executions: Executions, execution_id: str) -> ExecutionState:
    """The state once the execution pauses or ends."""
    states = [state async for _, state in executions.watch(execution_id, until_paused=True)]
    return states[-1]


async def question(executions: Executions, execution_id: str) -> tuple[str, int, int | None]:
    """Token, plan version and step of the open question."""
    asked = open_question(await executions.log(execution_id))
    event = asked.event
    assert event.kind == "intervention_requested"
    return executions.token(execution_id, asked), event.plan_version, event.request.step_id


def asking() -> ScriptedTool:
    return ScriptedTool({"s2": answer("two", 0.5)})


def three() -> Any:
    return agent_plan(agent_step(1), agent_step(2, 1), agent_step(3, 2))


async def test_a_pause_survives_its_process(tmp_path: Path) -> None:  # P-48, P-130
    plan, first, second = three(), asking(), asking()
    async with replica(tmp_path / "p.db", executor(first)) as executions:
        execution_id = await executions.start(plan, None, None)
        assert (await until_quiet(executions, execution_id)).is_paused
        assert executions.driven == {}  # a paused execution holds no memory
    async with replica(tmp_path / "p.db", executor(second), "two") as executions:
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        state = await until_quiet(executions, execution_id)
    assert (first.queries, second.queries) == (["s1", "s2"], ["s3"])
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.SUCCESS


async def test_unknown_and_not_paused_runs_are_told_apart(tmp_path: Path) -> None:  # P-130
    async with replica(tmp_path / "p.db", executor(ScriptedTool())) as executions:
        with pytest.raises(RunNotFound, match=r"^Run 0123456789ab not found$"):
            await executions.answer("0123456789ab", PROCEED, "t", 1, 1, None)
        with pytest.raises(RunNotFound):
            await executions.state("0123456789ab")
        execution_id = await executions.start(agent_plan(agent_step(1)), None, None)
        await until_quiet(executions, execution_id)
        with pytest.raises(RunNotPaused, match=f"^Run {execution_id} is not paused$"):
            await executions.answer(execution_id, PROCEED, "t", 1, 1, None)
        with pytest.raises(RunEnded):
            await executions.add_information(execution_id, "late", None)


async def test_no_plan_runs_twice(tmp_path: Path) -> None:
    tool, plan = ScriptedTool(), agent_plan(agent_step(1))
    async with replica(tmp_path / "p.db", executor(tool)) as executions:
        request = Request(str(uuid.uuid4()), b"a" * 32)
        first = await executions.start(plan, None, request)
        assert await executions.start(plan, None, request) == first  # a replay
        await until_quiet(executions, first)
        with pytest.raises(PlanAlreadyRun):
            await executions.start(plan, None, None)
        with pytest.raises(RequestIdReused):
            await executions.start(plan, None, Request(request.request_id, b"b" * 32))
    assert tool.queries == ["s1"]


async def test_an_answer_counts_once(tmp_path: Path) -> None:
    tool = asking()
    async with replica(tmp_path / "p.db", executor(tool)) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        bound = await question(executions, execution_id)
        request = Request(str(uuid.uuid4()), b"a" * 32)
        first = await executions.answer(execution_id, PROCEED, *bound, request)
        assert await executions.answer(execution_id, PROCEED, *bound, request) == first  # the same request again
        await until_quiet(executions, execution_id)
        with pytest.raises(RunNotPaused):
            await executions.answer(execution_id, PROCEED, *bound, None)  # the same answer again
    assert tool.queries == ["s1", "s2", "s3"]


Bound = tuple[str, int, int | None]


def forged(rng: random.Random, own: Bound, other: Bound) -> Bound:
    """An answer with one part mutated, taken from another execution, or made up."""
    token, version, step = own
    kind = rng.randrange(5)
    if kind == 0:
        place = rng.randrange(len(token))
        return (
            token[:place] + rng.choice([c for c in "0123456789abcdef" if c != token[place]]) + token[place + 1 :],
            version,
            step,
        )
    if kind == 1:
        return token, version + rng.choice([-1, 1, 7]), step
    if kind == 2:
        return token, version, rng.choice([None, 1, 3, 99])
    return other if kind == 3 else (rng.randbytes(rng.randrange(1, 40)).hex(), version, step)


async def test_ten_thousand_forged_answers_are_refused(tmp_path: Path) -> None:
    rng = random.Random(6)
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        ids = [await executions.start(three(), None, None) for _ in range(2)]
        for each in ids:
            await until_quiet(executions, each)
        own, other = await question(executions, ids[0]), await question(executions, ids[1])
        log = await executions.log(ids[0])
        key = await executions.store.answer_key()
        check_token(key, ids[0], open_question(log), *own)
        for _ in range(10_000):
            with pytest.raises(AnswerRefused):
                check_token(key, ids[0], open_question(log), *forged(rng, own, other))
        for _ in range(50):
            with pytest.raises(AnswerRefused):
                await executions.answer(ids[0], PROCEED, *forged(rng, own, other), None)
        assert await executions.log(ids[0]) == log


async def test_an_answer_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    clock = StandingClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        bound = await question(executions, execution_id)
        clock.advance(301)
        with pytest.raises(AnswerRefused, match="expired"):
            await executions.answer(execution_id, PROCEED, *bound, None)


async def test_nobody_in_time_cancels(tmp_path: Path) -> None:  # P-85, P-130
    clock = StandingClock()
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
async def test_with_nobody_to_ask_an_execution_goes_on_at_once(tmp_path: Path, auto: bool) -> None:  # P-85
    rules = Rules(asking=AskingPolicy(auto_proceed_on_timeout=auto))
    async with replica(tmp_path / "p.db", executor(asking(), rules=rules)) as executions:
        execution_id = await executions.start(three(), None, None, human_available=False)
        result = await executions.result(execution_id)
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
                *(each.answer(execution_id, PROCEED, *bound, None) for each in (a, b, c, d)), return_exceptions=True
            )
            assert sorted(type(o).__name__ for o in outcomes) == ["RunNotPaused"] * 3 + ["int"]
            state = await until_quiet(a, execution_id)
            assert state.attempts == {1: 1, 2: 1, 3: 1}
    assert sum(tool.queries.count("s3") for tool in tools) == 25


async def test_who_lost_the_lease_writes_no_more(tmp_path: Path) -> None:
    """A replica stopped in the middle of a call and woken after another one took over commits nothing."""
    clock, entered, woken = StandingClock(), asyncio.Event(), asyncio.Event()

    async def stopped(_: Any) -> ToolResult:
        entered.set()
        await woken.wait()
        return answer("from the one that was stopped")

    plan = agent_plan(agent_step(1), agent_step(2, 1))
    late, quick = ScriptedTool({"s1": stopped}), ScriptedTool()
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


async def test_a_call_is_not_made_without_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the intent and the call a process can sleep for hours; it asks its own clock before it acts."""
    now = 0.0
    store = SqlExecutionStore(str(tmp_path / "p.db"))
    await store.open()
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
    await store.close()


async def test_cancel_reaches_a_running_tool(tmp_path: Path) -> None:  # P-131
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def long(_: Any) -> ToolResult:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    tool = ScriptedTool({"s1": long})
    async with replica(tmp_path / "p.db", executor(tool)) as executions:
        execution_id = await executions.start(three(), None, None)
        await entered.wait()
        await executions.cancel(execution_id, "enough")
        state = await until_quiet(executions, execution_id)
        assert cancelled.is_set()
        await executions.cancel(execution_id, "again")  # changes nothing
        assert await executions.state(execution_id) == state
    assert state.result is not None
    assert (state.result.overall_status, tool.queries) == (OverallStatus.CANCELLED, ["s1"])


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


async def test_cancel_ends_a_paused_execution(tmp_path: Path) -> None:  # P-131
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        await executions.cancel(execution_id, "")
        state = await until_quiet(executions, execution_id)
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.CANCELLED


async def test_information_leads_to_a_replan_before_the_next_step(tmp_path: Path) -> None:  # P-92, P-129
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> ToolResult:
        entered.set()
        await go_on.wait()
        return answer("one")

    tool = ScriptedTool({"s1": slow})
    model = ScriptedModel('{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"other"}]}')
    async with replica(tmp_path / "p.db", executor(tool, planner=Planner(FixedBackend(), model))) as executions:
        execution_id = await executions.start(three(), None, None)
        await entered.wait()
        await executions.add_information(execution_id, "it is red", None)
        go_on.set()
        state = await until_quiet(executions, execution_id)
    assert tool.queries == ["s1", "other"]  # finished work is kept
    assert "新しい情報: it is red" in model.prompts[0][1]
    assert (state.replan_count, [s.step_id for s in state.plan.steps]) == (1, [1, 4])


async def test_a_watcher_misses_nothing_and_sees_nothing_twice(tmp_path: Path) -> None:
    tool = asking()
    async with replica(tmp_path / "p.db", executor(tool)) as executions:
        execution_id = await executions.start(three(), None, None)
        seen: list[int] = []
        while True:
            last = seen[-1] if seen else 0
            async for recorded, _ in executions.watch(execution_id, last, until_paused=True):
                seen.append(recorded.sequence)
                if len(seen) % 2:
                    break  # the connection is lost
            state = await executions.state(execution_id)
            if state.is_paused and seen[-1] == state.sequence:
                await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
            if state.result is not None and seen[-1] == state.sequence:
                break
        assert seen == list(range(1, state.sequence + 1))
        assert executions._watchers == {}


async def test_lists_are_filtered_and_paged(tmp_path: Path) -> None:
    clock = StandingClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        ids = []
        for i in range(5):
            clock.advance(1)
            ids.append(await executions.start(agent_plan(agent_step(1), original_query=f"100% of {i}"), None, None))
            await until_quiet(executions, ids[-1])
        paused = await executions.start(three(), None, None)
        await until_quiet(executions, paused)
        store = executions.store
        assert [s.execution_id for s in await store.listed(Filter(ExecutionStatus.PAUSED))] == [paused]
        found = await store.listed(Filter(ExecutionStatus.SUCCESS, limit=2))
        assert [s.execution_id for s in found] == [ids[4], ids[3]]
        last = found[-1]
        place = (round(last.started_at.timestamp() * 1e6), last.execution_id)
        rest = await store.listed(Filter(ExecutionStatus.SUCCESS, before=place))
        assert [s.execution_id for s in rest] == [ids[2], ids[1], ids[0]]
        assert [s.query for s in await store.listed(Filter(query_contains="0% of 3"))] == ["100% of 3"]


async def test_a_log_is_replayed_without_calling_anything(tmp_path: Path) -> None:
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        state = await until_quiet(executions, execution_id)
        found = await audited(executions.store, execution_id)
        assert (found.findings, found.state) == ((), state)


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE planner_events SET payload = replace(payload, 'two', 'six') WHERE kind = 'tool_returned'",
        "UPDATE planner_events SET created_at = created_at + 1 WHERE sequence = 2",
        "DELETE FROM planner_events WHERE sequence = 3",
        "UPDATE planner_events SET kind = 'log' WHERE sequence = 4",
    ],
)
async def test_a_forged_log_is_found_out(tmp_path: Path, forgery: str) -> None:
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        with sqlite3.connect(tmp_path / "p.db") as connection:
            connection.execute(forgery)
        found = await audited(executions.store, execution_id)
        assert "does not fit its chain of hashes" in found.findings[0]


async def test_an_unsafe_call_in_doubt_asks_a_person(tmp_path: Path) -> None:
    clock, entered = StandingClock(), asyncio.Event()

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
        clock.advance(11)
        await heir.sweep_once()
        state = await until_quiet(heir, execution_id)
        assert any(isinstance(r.event, StepInDoubt) for r in await heir.log(execution_id))
        assert state.intervention_request is not None
        assert state.intervention_request.reason == "in doubt"
        assert again.calls == []
        told = InterventionResponse(action=InterventionAction.INPUT, user_input="it was sent")
        await heir.answer(execution_id, told, *await question(heir, execution_id), None)
        state = await until_quiet(heir, execution_id)
    assert (state.step_results[1].output, again.queries) == ("it was sent", ["s2"])


async def test_the_budget_holds_over_a_restart(tmp_path: Path) -> None:
    spent = ScriptedTool({f"s{i}": answer("x", 0.5 if i == 1 else 0.95, token_usage=10) for i in range(1, 4)})
    async with replica(tmp_path / "p.db", executor(spent)) as executions:
        execution_id = await executions.start(three(), Budget(max_tokens=20), None)
        await until_quiet(executions, execution_id)
    async with replica(tmp_path / "p.db", executor(spent), "two") as executions:
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        state = await until_quiet(executions, execution_id)
        lines = [r.event.message for r in await executions.log(execution_id) if isinstance(r.event, LogLine)]
    assert spent.queries == ["s1", "s2"]
    assert lines[-1] == "budget of 20 tokens is used up"
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.PARTIAL


async def test_replans_are_counted_over_a_restart(tmp_path: Path) -> None:  # P-110, P-132
    modify = InterventionResponse(action=InterventionAction.MODIFY, user_input="変更")
    model = ScriptedModel('{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"low"}]}')

    def made() -> Executor:
        tool = ScriptedTool({"s1": answer("x", 0.5), "low": answer("x", 0.5)})
        rules = Rules(replans=ReplanManager(max_replans=2))
        return executor(tool, planner=Planner(FixedBackend(), model), rules=rules)

    async with replica(tmp_path / "p.db", made()) as executions:
        execution_id = await executions.start(agent_plan(agent_step(1)), None, None)
        await until_quiet(executions, execution_id)
    state = None
    for i in range(3):
        async with replica(tmp_path / "p.db", made(), f"r{i}") as executions:
            await executions.answer(execution_id, modify, *await question(executions, execution_id), None)
            state = await until_quiet(executions, execution_id)
    assert state is not None
    assert state.replan_count == 2
    assert state.result is not None  # the third wish finds no replan left: the run ends (P-111)


async def test_every_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    """What is folded from memory and what is folded from the database is the same state."""
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        execution_id = await executions.start(three(), None, None)
        live = await until_quiet(executions, execution_id)
        assert replayed(await executions.log(execution_id)) == live
