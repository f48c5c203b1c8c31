"""A rolling upgrade under load: replicas of two releases on one database, whose schema the newer one has migrated."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import inspect

from hansei.client import AsyncClient
from hansei.planner.v1 import planner_pb2
from hansei.reflector.v1.trajectory_pb2 import Trajectory
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard
from libs.storage.engines import create_database_engine, parse_location
from libs.storage.partitions import list_tables
from tests.behaviour.system.test_schemas import FOLDERS, revisions
from tests.support import systems
from tests.support.bulk_jobs import build_trajectory, jobs_at
from tests.support.campaigns import campaign_size
from tests.support.planner_service import ASK, answer, events, kinds

pytestmark = pytest.mark.long

COPIED = ("services", "gateway")
LINKED = ("allinone", "chassis", "config", "libs", "sdk", "stubs")
WAVES = campaign_size([[name] for name in systems.SERVICES], [list(systems.SERVICES)])
"""The services that have replicas of both releases at a time."""
ROUNDS = campaign_size(2, 1)
READY_SECONDS = 1.0
"""Seconds for which a replica is ready before another one is ended: callers that could not connect try again within
half a second (chassis/channels.py)."""
PAUSE_SECONDS = campaign_size(0.1, 0.5)
"""Pause between two calls of one caller; without it, callers take the processors from the starting replica."""
TRIES = 20
LAME_DUCK = {"HANSEI_LAME_DUCK_SECONDS": "1"}
FUTURE = "from_the_future"
MIGRATION = """
import sqlalchemy as sa
from alembic import op

from libs.storage.partitions import list_tables

revision, down_revision = "{revision}", "{before}"


def upgrade():
    found = sa.inspect(op.get_bind())
    for table in list_tables(op.get_bind()):
        columns = {{each["name"] for each in found.get_columns(table)}}
        if not columns & {{"version_num", "{future}"}}:
            op.add_column(table, sa.Column("{future}", sa.Text, nullable=True))
    op.create_table("{future}_{number}", sa.Column("id", sa.Integer, primary_key=True), sa.Column("{future}", sa.Text))
"""
"""Changes of a schema that a release may contain, made to every table at once."""


def newer_release(folder: Path) -> dict[str, str]:
    """Return the code of today with one more migration for each schema, and the environment that runs it."""
    for name in LINKED:
        (folder / name).symlink_to(systems.ROOT / name)
    for name in COPIED:
        # With the compiled modules, which the processes of the newer release would otherwise compile again.
        shutil.copytree(systems.ROOT / name, folder / name, ignore=shutil.ignore_patterns("tests"))
    for number, migrations in enumerate(FOLDERS):
        text = MIGRATION.format(revision=FUTURE, before=revisions(migrations)[-1], future=FUTURE, number=number)
        (folder / migrations / "versions" / f"{FUTURE}.py").write_text(text, encoding="utf-8")
    return {"PYTHONPATH": ":".join(str(folder / part) for part in ("", "stubs", "sdk"))}


class Callers:
    """Each goes through one part of hansei over and over; a call that fails ends the test."""

    def __init__(self, client: AsyncClient, dataset: str) -> None:
        self._client = client
        self._dataset = dataset
        self._numbers = iter(range(10**6))
        self.learned: list[str] = []
        self._parts = [self._loop, self._loop, self._plan, self._rank]
        self._done = [0] * len(self._parts)
        self._moved = asyncio.Condition()
        self.enough = False

    async def go_on(self) -> None:
        """Call until it is enough."""
        async with asyncio.TaskGroup() as tasks:
            for number, part in enumerate(self._parts):
                tasks.create_task(self._repeat(number, part))

    async def progress(self) -> None:
        """Wait until each has gone through its part a few more times than now."""
        goal = [done + ROUNDS for done in self._done]
        async with self._moved:
            await self._moved.wait_for(lambda: all(done >= count for done, count in zip(self._done, goal, strict=True)))

    async def _repeat(self, number: int, part: Callable[[], Awaitable[None]]) -> None:
        while not self.enough:
            await part()
            self._done[number] += 1
            async with self._moved:
                self._moved.notify_all()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _loop(self) -> None:
        """Learn, search and ask."""
        trajectory = build_trajectory(self._dataset, next(self._numbers))
        revision = await self._learn(trajectory)
        self.learned.append(trajectory.id)
        assert (await self._client.search(self._dataset, "tool1 fails", min_revision=revision)).results
        assert (await self._client.ask(self._dataset, "What fails?")).trajectory.generated_answer

    async def _learn(self, trajectory: Trajectory) -> int:
        """Learn, once more whenever the store failed (C-41), as a caller does; return the revision."""
        request_id = str(uuid.uuid4())
        for _ in range(TRIES):
            curation = (await self._client.learn(trajectory, request_id=request_id)).curation
            if curation.saved:
                return int(curation.revision)
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"not saved after {TRIES} calls")

    async def _plan(self) -> None:
        """Start a plan that asks, and answer."""
        (*_, question) = await events(self._client.planner.execute_plan(plan=ASK))
        request = answer(question, user_input="青")
        found = await events(
            self._client.planner.resume_plan(
                execution_id=request.execution_id,
                response=request.response,
                answer_token=request.answer_token,
                plan_version=request.plan_version,
                step_id=request.step_id,
                request_id=request.request_id,
            )
        )
        assert kinds(found)[-1] == "finished"
        assert found[-1].finished.overall_status == planner_pb2.EXECUTION_STATUS_SUCCESS

    async def _rank(self) -> None:
        """Enter a submission, and read the ranking."""
        key = leaderboard.RoundKey(execution_id=self._dataset, team_id=uuid.uuid4().hex, round_number=1)
        entry = leaderboard.LeaderBoardEntry(key=key, team_name="t", submission_content="s", score=1)
        await self._client.leaderboard.upsert_entry(entry=entry)
        assert (await self._client.leaderboard.list_entries(execution_id=self._dataset)).entries


async def test_every_service_is_upgraded_while_it_is_called(tmp_path: Path) -> None:
    dataset, code, data = f"upgrade-{uuid.uuid4().hex[:8]}", tmp_path / "newer", tmp_path / "data"
    code.mkdir()
    data.mkdir()
    with systems.two_releases(data, newer_release(code), **LAME_DUCK) as system:
        async with AsyncClient(system.address) as client, asyncio.TaskGroup() as tasks:
            callers = Callers(client, dataset)
            tasks.create_task(callers.go_on())
            for names in WAVES:
                await upgrade(system, names, callers)
            callers.enough = True
        with jobs_at(system.replicas("gateway")[1]) as jobs:
            assert sorted(jobs.sources(dataset)) == sorted(callers.learned)


async def upgrade(system: systems.System, names: Sequence[str], callers: Callers) -> None:
    """Start newer replicas, which migrate, and end the older ones, one after the other, while everybody calls."""
    for name in names:
        await callers.progress()
        await asyncio.to_thread(system.start, f"{name}-2")
        await asyncio.to_thread(system.wait_until_started, f"{name}-2")
        if "database" in systems.SERVICES[name]:
            _check_migrated(system.programs[name].environment[systems.SERVICES[name]["database"]])
    await asyncio.sleep(READY_SECONDS)
    await callers.progress()
    for name in names:
        assert await asyncio.to_thread(system.stop, name) == 0
        await callers.progress()


def _check_migrated(url: str) -> None:
    engine = create_database_engine(parse_location(url), "test", writes=False)
    with engine.connect() as connection:
        found = inspect(connection)
        columns = {name: {column["name"] for column in found.get_columns(name)} for name in list_tables(connection)}
    tables = [name for name, names in columns.items() if "version_num" not in names]
    assert all(FUTURE in columns[name] for name in tables)
    assert any(name.startswith(FUTURE) for name in tables)
    engine.dispose()
