"""Stored backtests grow with the archive, each trajectory once, whichever replica adds it."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from chassis.targets.guard import CallGuard, GuardMode
from chassis.targets.target import Target
from libs.guards.backtest import Backtest, Firing
from libs.guards.guard_trajectory import GuardTrajectory
from services.evidence.adapters.sql.guard_repository import GuardRepository
from services.evidence.adapters.sql.guard_trial_queries import put_trial
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.archive import ArchivedTrajectory
from services.evidence.domain.guard_trials import GuardTrial
from services.evidence.domain.stored_backtest import StoredBacktest
from services.evidence.tests.archives import DATASET, NOW, open_archive, store
from services.evidence.usecases.backtest_archive import BacktestArchive
from services.evidence.usecases.check_call import limit_modes
from tests.conftest import create_database, database_location, postgres

__all__ = ["create_database", "database_location", "postgres"]

ALARM = Backtest(passed=2, firings=(Firing("a", "a", 0, 0, is_success=True, is_late=False),))


async def test_later_trajectories_are_tested_while_they_are_read(tmp_path: Path) -> None:
    decoded: list[int] = []

    def decode(trajectory: ArchivedTrajectory, body: bytes) -> GuardTrajectory:
        decoded.append(trajectory.number)
        return GuardTrajectory(trajectory.key.trajectory_id, "", True, ())

    async with open_archive(tmp_path) as (servicer, archive, _):
        for trajectory_id in ("t-1", "t-2", "t-3"):
            await store(servicer, trajectory_id)
        reading = BacktestArchive(archive, decode).read_since(DATASET, 1, 3)
        number, trajectory = await anext(reading)
        assert (number, trajectory.id, decoded) == (3, "t-3", [3])
        assert [number async for number, _ in reading] == [2]


async def test_a_backtest_counts_each_later_trajectory_once(database_location: str) -> None:
    evidence = EvidenceRepository(database_location)
    async with open_archive(evidence) as (servicer, _, _):
        guards = GuardRepository(evidence.database)
        await store(servicer, "t-1")
        first = await guards.find_archived_number(DATASET)
        assert (first > 0, await guards.find_archived_number("none")) == (True, 0)
        for target in ("true", "false"):
            await guards.store_backtest(DATASET, target, Backtest(failed=1, passed=7), first)
        await guards.store_backtest("none", "true", Backtest(), 0)
        assert await guards.list_grown_archives() == []

        await store(servicer, "t-2")
        [(dataset, newest)] = await guards.list_grown_archives()
        assert (dataset, newest) == (DATASET, await guards.find_archived_number(DATASET))
        outdated = await guards.find_outdated_backtests(DATASET, ["true"], newest)
        assert {target: stored.archived_number for target, stored in outdated.items()} == {"true": first}
        updated = await guards.add_to_backtests(DATASET, outdated, {"true": ALARM}, newest)
        assert updated == {"true": StoredBacktest(1, 0, 9, 1, 1, later_passed=2, later_alarms=1)}
        # Another replica that read the same backtest adds nothing, and nothing is left to add.
        assert await guards.add_to_backtests(DATASET, outdated, {"true": ALARM}, newest) == {}
        assert await guards.list_grown_archives() == []


async def test_guards_with_the_same_target_share_its_backtest_but_no_measurements(database_location: str) -> None:
    target = Target("true")
    earned, capped, other = (CallGuard(name, target, GuardMode.ASK, name) for name in ("earned", "capped", "other"))
    trials = [
        GuardTrial("capped", "true", GuardMode.SHADOW, 1, NOW, 0, cap=GuardMode.SHADOW),
        GuardTrial("earned", "true", GuardMode.ASK, 2, NOW, 0, earned=GuardMode.ASK),
        GuardTrial("other", "false", GuardMode.DENY, 3, NOW, 0, earned=GuardMode.DENY),  # of an earlier target
    ]

    async def list_modes(guard_store: GuardRepository, guards: list[CallGuard]) -> list[GuardMode]:
        return [guard.mode for guard in await limit_modes(guard_store, DATASET, guards, frozenset())]

    def insert(connection: Connection) -> None:
        for trial in trials:
            put_trial(connection, DATASET, trial)

    database = EvidenceRepository(database_location).database
    await database.open()
    try:
        await database.write(insert)
        guard_store = GuardRepository(database)
        guards = [earned, capped, other]
        assert await list_modes(guard_store, guards) == [GuardMode.ASK, GuardMode.SHADOW, GuardMode.SHADOW]
        await guard_store.store_backtest(DATASET, "true", Backtest(failed=1, passed=200), 0)
        modes = [GuardMode.ASK, GuardMode.SHADOW, GuardMode.ADVISE]
        assert await list_modes(guard_store, guards) == modes
        assert await list_modes(guard_store, guards * 40) == modes * 40  # too many to list in a query
    finally:
        await database.close()
