"""Corrections of outcomes: all is counted again, outside of the writer, as if the outcome had been reported so."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chassis.errors import Aborted
from services.evidence.adapters.sql import corrections, queries
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.recount import Recount
from services.evidence.domain.trials import BulletState, BulletTrial
from services.evidence.tests.test_store import BULLETS, DATASET, NOW, run_sessions, start_key
from services.evidence.usecases.ports import OutcomeReport, RankedBullet
from tests.conftest import create_database, database_location, postgres

__all__ = ["create_database", "database_location", "postgres"]


def open_repository(location: str) -> EvidenceRepository:
    return EvidenceRepository(location, clock=lambda: NOW)


async def read_measurements(store: EvidenceRepository) -> tuple[Any, ...]:
    """Return lift, counts, bullets and history as they are stored, then as a recount computes them."""

    def read(connection: Any) -> tuple[Any, ...]:
        trials = queries.select_trials(connection, DATASET)
        assert trials is not None
        bullets = queries.select_bullet_trials(connection, DATASET)
        points = [point for trial_id in (0, *(b.id for b in bullets)) for point in _points(connection, trial_id)]
        recount = Recount(trials, queries.select_bullet_trials(connection, DATASET), {})
        recount.count(queries.select_reports(connection, trials, 0, 10_000))
        return (
            (trials.lift, trials.reports, bullets, sorted(points)),
            (recount.trials.lift, recount.trials.reports, recount.bullets, sorted(recount.list_points())),
        )

    return await store.database.read(read)


def _points(connection: Any, trial_id: int) -> list[Any]:
    return queries.select_points(connection, DATASET, trial_id)


async def test_other_datasets_go_on_while_a_correction_is_counted(database_location: str) -> None:
    store = open_repository(database_location)
    await store.database.open()
    try:
        for dataset in (DATASET, "other"):
            await store.start(start_key(dataset), dataset, TrialPolicy(playbook_holdout=0.1))
        (serving_id, *_) = await run_sessions(store, range(150), lambda served: float("b-0" in served))
        correction = asyncio.create_task(store.report(DATASET, OutcomeReport(serving_id, 0.5, True)))
        await asyncio.sleep(0)  # the correction is in the queue of the writer before the serving
        await store.serve("other", "session", BULLETS)
        assert not correction.done()
        assert (await correction).outcome == 0.5
    finally:
        await store.database.close()


async def test_a_correction_compares_each_bullet_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparisons = 0

    def count_and_compare(trial: BulletTrial, other: object) -> bool:
        nonlocal comparisons
        comparisons += 1
        return trial is other

    bullets = [RankedBullet(f"b-{number}", "0" * 16, None) for number in range(50)]
    store = open_repository(str(tmp_path / "evidence.db"))
    await store.database.open()
    try:
        await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0))
        serving_id, _ = await store.serve(DATASET, "session", bullets)
        await store.report(DATASET, OutcomeReport(serving_id, 0.0, False))
        monkeypatch.setattr(BulletTrial, "__eq__", count_and_compare)
        await store.report(DATASET, OutcomeReport(serving_id, 1.0, True))
    finally:
        await store.database.close()
    assert comparisons <= len(bullets)


async def test_corrections_among_reports_and_new_bullets_give_the_measurements_of_a_recount(
    database_location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrections, "REPORTS_AT_ONCE", 7)
    monkeypatch.setattr(corrections, "MOST_LATE_REPORTS", 2)
    chance = random.Random(3)
    store = open_repository(database_location)
    await store.database.open()
    try:
        await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.2))
        serving_ids = await run_sessions(store, range(30), lambda _: float(chance.random() < 0.5))
        outcomes: dict[str, float] = {}

        async def report(number: int) -> None:
            bullets = [*BULLETS, RankedBullet(f"n-{number // 8}", "0" * 16, None)]
            serving_id, _ = await store.serve(DATASET, f"other-{number}", bullets)
            await store.report(DATASET, OutcomeReport(serving_id, float(chance.random() < 0.5), False))

        async def correct(serving_id: str, outcome: float) -> None:
            for _ in range(100):  # new bullets may be faster than a correction: then it is sent again
                try:
                    result = await store.report(DATASET, OutcomeReport(serving_id, outcome, True))
                except Aborted:
                    continue
                assert (result.counted, result.outcome) == (True, outcome)
                outcomes[serving_id] = outcome
                return
            raise AssertionError

        await asyncio.gather(
            *(report(number) for number in range(40)),
            *(correct(serving_id, chance.random()) for serving_id in serving_ids[:12]),
        )
        stored, recounted = await read_measurements(store)
        assert stored == recounted
        assert stored[1].total == 70
        assert len(stored[2]) == len(BULLETS) + 5
        for serving_id, outcome in outcomes.items():
            repeated = await store.report(DATASET, OutcomeReport(serving_id, -1.0, False))
            assert repeated.outcome == outcome
    finally:
        await store.database.close()


async def test_a_correction_changes_decisions_once(database_location: str) -> None:
    store = open_repository(database_location)
    await store.database.open()
    try:
        await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.0))
        serving_ids = await run_sessions(store, range(60), lambda served: float("b-0" in served))
        assert [made.after for _, made in await store.list_decisions(DATASET, None, 9)] == [BulletState.PROVEN]
        results = await asyncio.gather(
            *(store.report(DATASET, OutcomeReport(serving_id, 0.5, True)) for serving_id in serving_ids)
        )
        decisions = [decision for result in results for decision in result.decisions]
        assert [(number, made.before, made.after) for number, made in decisions] == [
            (2, BulletState.PROVEN, BulletState.TRIAL)
        ]
        assert await store.list_later_decisions(DATASET, 1, 9) == decisions
        stored, recounted = await read_measurements(store)
        assert stored[2:] == recounted[2:]
    finally:
        await store.database.close()


async def test_a_correction_forgets_no_session_after_an_undo_when_the_clock_goes_back(database_location: str) -> None:
    seconds, jump = count(), [timedelta(0)]

    def now() -> datetime:
        return NOW + timedelta(seconds=next(seconds)) - jump[0]

    store = EvidenceRepository(database_location, clock=now)
    await store.database.open()
    try:
        await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.0))
        await run_sessions(store, range(60), lambda served: float("b-0" in served))
        ((number, _),) = await store.list_decisions(DATASET, None, 9)
        await store.undo_decision(DATASET, number)
        jump[0] = timedelta(hours=1)
        serving_ids = await run_sessions(store, range(60, 70), lambda _: 1.0)
        await store.report(DATASET, OutcomeReport(serving_ids[0], 0.5, True))
        trial = next(trial for trial in await store.list_bullet_trials(DATASET) if trial.bullet_id == "b-0")
        assert trial.statistics.served + trial.statistics.withheld == 10
    finally:
        await store.database.close()
