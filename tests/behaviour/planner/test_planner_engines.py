"""The planner's store on PostgreSQL: replicas over one server behave as on SQLite."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine

from libs.storage.engines import parse_location
from libs.storage.idempotency import IdempotencyKey
from services.planner.adapters.sql import schema
from services.planner.domain.errors import AnswerRefused, ExecutionNotPaused
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.results import OverallStatus
from services.planner.tests.parts import ScriptedTool, agent_plan, agent_step, answer, executor
from services.planner.tests.replicas import MachineClock, question, replica, until_quiet
from services.planner.usecases.executions import Executions
from services.planner.usecases.ports import ExecutionFilter, ExecutionStatus, Feedback
from services.planner.usecases.verify_log import verify_log
from tests.support.postgres_server import PostgresServer

PROCEED = InterventionResponse(action=InterventionAction.PROCEED)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return an empty database."""
    return postgres.database()


def asking() -> ScriptedTool:
    return ScriptedTool({"s1": answer("one", 0.5)})


def plan() -> Any:
    return agent_plan(agent_step(1), agent_step(2, 1))


async def replicas(stack: AsyncExitStack, url: str, count: int, clock: MachineClock) -> list[Executions]:
    """Planners that start together over one database."""
    opening = [replica(url, executor(asking(), clock=clock), f"r{i}", clock) for i in range(count)]
    return list(await asyncio.gather(*(stack.enter_async_context(item) for item in opening)))


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
                *(item.answer(execution_id, PROCEED, *bound, None) for item in several), return_exceptions=True
            )
            assert sum(isinstance(o, int) for o in outcomes) == 1
            assert sum(isinstance(o, ExecutionNotPaused) for o in outcomes) == 3
            state = await until_quiet(several[3], execution_id)
            assert state.result is not None
            assert state.result.overall_status is OverallStatus.SUCCESS
            assert state.attempts == {1: 1, 2: 1}
            assert (await verify_log(several[3].store, execution_id)).findings == ()
        summaries = await several[0].store.list_executions(ExecutionFilter(ExecutionStatus.SUCCESS, limit=100))
        assert len(summaries) == 20


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
        store, request = executions.store, IdempotencyKey("6a1c9b1e-4f0e-4c55-8d7b-0f3c2a9e1d77", "Method", bytes(32))
        for _ in range(2):
            await store.add_feedback(Feedback(0.8, True), clock(), request)
        assert [item for _, item in await store.list_feedback()] == [Feedback(0.8, True)]


async def test_migrations_make_the_tables_of_the_schema(url: str) -> None:
    async with AsyncExitStack() as stack:  # replicas that start together take turns, and share one secret
        several = await replicas(stack, url, 4, MachineClock())
        assert len({await item.store.load_answer_key() for item in several}) == 1
    engine = create_engine(parse_location(url))
    assert differences(engine) == []
    engine.dispose()


def differences(engine: Engine) -> list[object]:
    with engine.connect() as connection:
        options = {"compare_type": True, "version_table": schema.MIGRATIONS.version_table}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata))
