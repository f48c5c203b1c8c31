"""Executions in a real SQLite file: answers, watching, cancelling, lists, audits."""

import asyncio
import random
import sqlite3
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chassis.errors import RequestIdReused
from libs.storage.idempotency import IdempotencyKey
from services.planner.adapters.sql.schema import requests
from services.planner.domain.errors import (
    AnswerRefused,
    ExecutionEnded,
    ExecutionNotFound,
    ExecutionNotPaused,
    PlanAlreadyExecuted,
    TooMuchInformation,
)
from services.planner.domain.fold import replay
from services.planner.domain.results import OverallStatus, ToolResult
from services.planner.tests.parts import (
    ScriptedModel,
    ScriptedTool,
    agent_plan,
    agent_step,
    answer,
    executor,
    planner_with,
)
from services.planner.tests.replicas import PROCEED, Bound, MachineClock, asking, question, replica, three, until_quiet
from services.planner.usecases.executions import MAX_INFORMATION
from services.planner.usecases.ports import ExecutionFilter, ExecutionStatus
from services.planner.usecases.tokens import check_answer, find_open_question
from services.planner.usecases.verify_log import verify_log


def forge_answer(rng: random.Random, own: Bound, other: Bound) -> Bound:
    """Return an answer with one part mutated, taken from another execution, or made up."""
    token, version, step = own
    kind = rng.randrange(5)
    if kind == 0:
        position = rng.randrange(len(token))
        return (
            token[:position]
            + rng.choice([c for c in "0123456789abcdef" if c != token[position]])
            + token[position + 1 :],
            version,
            step,
        )
    if kind == 1:
        return token, version + rng.choice([-1, 1, 7]), step
    if kind == 2:
        return token, version, rng.choice([None, 1, 3, 99])
    return other if kind == 3 else (rng.randbytes(rng.randrange(1, 40)).hex(), version, step)


async def test_unknown_and_running_executions_are_distinguished(tmp_path: Path) -> None:  # P-130
    async with replica(tmp_path / "p.db", executor(ScriptedTool())) as executions:
        with pytest.raises(ExecutionNotFound, match=r"^Run 0123456789ab not found$"):
            await executions.answer("0123456789ab", PROCEED, "t", 1, 1, None)
        with pytest.raises(ExecutionNotFound):
            await executions.state("0123456789ab")
        execution_id = await executions.start(agent_plan(agent_step(1)), None, None)
        await until_quiet(executions, execution_id)
        with pytest.raises(ExecutionNotPaused, match=f"^Run {execution_id} is not paused$"):
            await executions.answer(execution_id, PROCEED, "t", 1, 1, None)
        with pytest.raises(ExecutionEnded):
            await executions.add_information(execution_id, "late", None)


async def test_no_plan_runs_twice(tmp_path: Path) -> None:
    tool, plan = ScriptedTool(), agent_plan(agent_step(1))
    async with replica(tmp_path / "p.db", executor(tool)) as executions:
        request = IdempotencyKey(str(uuid.uuid4()), "Method", b"a" * 32)
        first = await executions.start(plan, None, request)
        assert await executions.start(plan, None, request) == first  # a replay
        await until_quiet(executions, first)
        with pytest.raises(PlanAlreadyExecuted):
            await executions.start(plan, None, None)
        with pytest.raises(RequestIdReused):
            await executions.start(plan, None, IdempotencyKey(request.request_id, "Method", b"b" * 32))
    assert tool.queries == ["s1"]


async def test_stored_responses_are_deleted_when_they_are_old(tmp_path: Path) -> None:
    clock, request = MachineClock(), IdempotencyKey(str(uuid.uuid4()), "Method", b"a" * 32)
    async with replica(tmp_path / "p.db", executor(ScriptedTool()), clock=clock) as executions:
        await executions.start(agent_plan(agent_step(1)), None, request)
        store: Any = executions.store
        assert await requests.delete_expired(store.database, timedelta(0), clock) == 0
        clock.advance(1)
        assert await requests.delete_expired(store.database, timedelta(0), clock) == 1


async def test_an_answer_counts_once(tmp_path: Path) -> None:
    tool = asking()
    async with replica(tmp_path / "p.db", executor(tool)) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        bound = await question(executions, execution_id)
        request = IdempotencyKey(str(uuid.uuid4()), "Method", b"a" * 32)
        first = await executions.answer(execution_id, PROCEED, *bound, request)
        assert await executions.answer(execution_id, PROCEED, *bound, request) == first  # the same request again
        await until_quiet(executions, execution_id)
        with pytest.raises(ExecutionNotPaused):
            await executions.answer(execution_id, PROCEED, *bound, None)  # the same answer again
    assert tool.queries == ["s1", "s2", "s3"]


async def test_ten_thousand_forged_answers_are_refused(tmp_path: Path) -> None:
    rng = random.Random(6)
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        ids = [await executions.start(three(), None, None) for _ in range(2)]
        for execution_id in ids:
            await until_quiet(executions, execution_id)
        own, other = await question(executions, ids[0]), await question(executions, ids[1])
        log = await executions.read_log(ids[0])
        key = await executions.store.load_answer_key()
        check_answer(key, ids[0], find_open_question(log), *own)
        for _ in range(10_000):
            with pytest.raises(AnswerRefused):
                check_answer(key, ids[0], find_open_question(log), *forge_answer(rng, own, other))
        for _ in range(50):
            with pytest.raises(AnswerRefused):
                await executions.answer(ids[0], PROCEED, *forge_answer(rng, own, other), None)
        assert await executions.read_log(ids[0]) == log


async def test_an_answer_after_its_expiry_is_refused(tmp_path: Path) -> None:
    clock = MachineClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        bound = await question(executions, execution_id)
        clock.advance(301)
        with pytest.raises(AnswerRefused, match="expired"):
            await executions.answer(execution_id, PROCEED, *bound, None)


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
    async with replica(tmp_path / "p.db", executor(tool, planner=planner_with(model))) as executions:
        execution_id = await executions.start(three(), None, None)
        await entered.wait()
        await executions.add_information(execution_id, "it is red", None)
        go_on.set()
        state = await until_quiet(executions, execution_id)
    assert tool.queries == ["s1", "other"]  # finished work is kept
    assert "New information: it is red" in model.prompts[0][1]
    assert (state.replan_count, [s.step_id for s in state.plan.steps]) == (1, [1, 4, 5])


@pytest.mark.parametrize(
    ("text", "accepted", "why"),
    [
        ("x", MAX_INFORMATION, "text cannot be added: an execution may have at most 100 texts of information"),
        ("x" * 10_000, 10, r"text must not raise .* above 100000 characters \(now 110000\)"),
    ],
)
async def test_the_information_of_an_execution_is_bounded(tmp_path: Path, text: str, accepted: int, why: str) -> None:
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        for _ in range(accepted):
            await executions.add_information(execution_id, text, None)
        with pytest.raises(TooMuchInformation, match=why) as caught:
            await executions.add_information(execution_id, text, None)
        assert [violation.field for violation in caught.value.violations] == ["text"]
        assert len((await executions.state(execution_id)).information) == accepted
        await executions.cancel(execution_id, "")
        await until_quiet(executions, execution_id)


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
    clock = MachineClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        ids = []
        for i in range(5):
            clock.advance(1)
            ids.append(await executions.start(agent_plan(agent_step(1), original_query=f"100% of {i}"), None, None))
            await until_quiet(executions, ids[-1])
        paused = await executions.start(three(), None, None)
        await until_quiet(executions, paused)
        store = executions.store
        assert [s.execution_id for s in await store.list_executions(ExecutionFilter(ExecutionStatus.PAUSED))] == [
            paused
        ]
        found = await store.list_executions(ExecutionFilter(ExecutionStatus.SUCCESS, limit=2))
        assert [s.execution_id for s in found] == [ids[4], ids[3]]
        last = found[-1]
        position = (last.start_time, last.execution_id)
        rest = await store.list_executions(ExecutionFilter(ExecutionStatus.SUCCESS, before=position))
        assert [s.execution_id for s in rest] == [ids[2], ids[1], ids[0]]
        assert [s.original_query for s in await store.list_executions(ExecutionFilter(query_contains="0% of 3"))] == [
            "100% of 3"
        ]


async def test_a_log_is_replayed_without_calling_anything(tmp_path: Path) -> None:
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        state = await until_quiet(executions, execution_id)
        found = await verify_log(executions.store, execution_id)
        assert (found.findings, found.state) == ((), state)


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE planner_event SET payload = replace(payload, 'two', 'six') WHERE kind = 'tool_returned'",
        "UPDATE planner_event SET created_at = created_at + 1 WHERE sequence = 2",
        "DELETE FROM planner_event WHERE sequence = 3",
        "UPDATE planner_event SET kind = 'log' WHERE sequence = 4",
    ],
)
async def test_a_forged_log_is_detected(tmp_path: Path, forgery: str) -> None:
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        execution_id = await executions.start(three(), None, None)
        await until_quiet(executions, execution_id)
        with sqlite3.connect(tmp_path / "p.db") as connection:
            connection.execute(forgery)
        found = await verify_log(executions.store, execution_id)
        assert "does not fit its chain of hashes" in found.findings[0]


async def test_every_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The state replayed from memory equals the state replayed from the database."""
    async with replica(tmp_path / "p.db", executor(asking())) as executions:
        execution_id = await executions.start(three(), None, None)
        live = await until_quiet(executions, execution_id)
        assert replay(await executions.read_log(execution_id)) == live
