"""The planner's store on PostgreSQL: what holds on SQLite holds for replicas over one server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, text

from libs.sql.engines import url_of
from services.planner.adapters.sql import schema
from services.planner.domain.errors import AnswerRefused, RunNotPaused
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.results import OverallStatus
from services.planner.tests import replicas as replicas_of_tests
from services.planner.tests.replicas import MachineClock, question, replica, until_quiet
from services.planner.tests.scripted import ScriptedTool, agent_plan, agent_step, answer, executor
from services.planner.usecases.audit import audited
from services.planner.usecases.executions import Executions
from services.planner.usecases.store import ExecutionStatus, Feedback, Filter, Request
from tests.behaviour.postgres_server import PostgresServer

PROCEED = InterventionResponse(action=InterventionAction.PROCEED)
FIRST_SCHEMA = Path(replicas_of_tests.__file__).with_name("first_schema") / "postgresql.sql"


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """An empty database."""
    return postgres.database()


def asking() -> ScriptedTool:
    return ScriptedTool({"s1": answer("one", 0.5)})


def plan() -> Any:
    return agent_plan(agent_step(1), agent_step(2, 1))


async def replicas(stack: AsyncExitStack, url: str, count: int, clock: MachineClock) -> list[Executions]:
    """Planners that start together over one database."""
    opening = [replica(url, executor(asking(), clock=clock), f"r{i}", clock) for i in range(count)]
    return list(await asyncio.gather(*(stack.enter_async_context(each) for each in opening)))


async def test_replicas_share_a_server(url: str) -> None:
    clock = MachineClock()
    async with AsyncExitStack() as stack:
        several = await replicas(stack, url, 4, clock)
        for number in range(20):
            execution_id = await several[number % 4].start(plan(), None, None)
            await until_quiet(several[0], execution_id)
            bound = await question(several[1], execution_id)
            with pytest.raises(AnswerRefused):
                await several[2].answer(execution_id, PROCEED, "0" * 64, bound[1], bound[2], None)
            outcomes = await asyncio.gather(
                *(each.answer(execution_id, PROCEED, *bound, None) for each in several), return_exceptions=True
            )
            assert sum(isinstance(o, int) for o in outcomes) == 1
            assert sum(isinstance(o, RunNotPaused) for o in outcomes) == 3
            state = await until_quiet(several[3], execution_id)
            assert state.result is not None
            assert state.result.overall_status is OverallStatus.SUCCESS
            assert state.attempts == {1: 1, 2: 1}
            assert (await audited(several[3].store, execution_id)).findings == ()
        listed = await several[0].store.listed(Filter(ExecutionStatus.SUCCESS, limit=100))
        assert len(listed) == 20


async def test_a_dead_replica_is_replaced(url: str) -> None:
    clock, entered = MachineClock(), asyncio.Event()

    async def dies(_: Any) -> Any:
        entered.set()
        await asyncio.Event().wait()

    async with (
        replica(url, executor(ScriptedTool({"s1": dies}), clock=clock), "dead", clock) as dead,
        replica(url, executor(ScriptedTool(), clock=clock), "heir", clock) as heir,
    ):
        execution_id = await dead.start(plan(), None, None)
        await entered.wait()
        await heir.sweep_once()
        clock.advance(11)
        await heir.sweep_once()
        state = await until_quiet(heir, execution_id)
    assert state.result is not None
    assert state.result.final_answer == "s2"


async def test_feedback_counts_once(url: str) -> None:
    clock = MachineClock()
    async with replica(url, executor(asking(), clock=clock), "one", clock) as executions:
        store, request = executions.store, Request("6a1c9b1e-4f0e-4c55-8d7b-0f3c2a9e1d77", bytes(32))
        assert await store.add_feedback(Feedback(0.8, True), clock(), request)
        assert not await store.add_feedback(Feedback(0.8, True), clock(), request)
        assert [each for _, each in await store.all_feedback()] == [Feedback(0.8, True)]


async def test_the_tables_of_the_first_version_are_taken_over(url: str) -> None:
    clock, first = MachineClock(), FIRST_SCHEMA.read_text(encoding="utf-8")
    engine = create_engine(url_of(url))
    with engine.begin() as connection:
        connection.exec_driver_sql(first)
        connection.execute(
            text("INSERT INTO planner_secrets (name, value) VALUES ('answers', :key)"), {"key": bytes(range(32))}
        )
    async with AsyncExitStack() as stack:  # several that start together take turns
        several = await replicas(stack, url, 4, clock)
        assert await several[0].store.answer_key() == bytes(range(32))
        execution_id = await several[1].start(plan(), None, None)
        await until_quiet(several[2], execution_id)
        await several[3].answer(execution_id, PROCEED, *await question(several[3], execution_id), None)
        state = await until_quiet(several[3], execution_id)
        assert state.result is not None
        assert state.result.overall_status is OverallStatus.SUCCESS
    assert differences(engine) == []
    engine.dispose()


def differences(engine: Engine) -> list[object]:
    with engine.connect() as connection:
        options = {"compare_type": True, "version_table": schema.VERSION_TABLE}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata))
