"""Servings, reports and decisions as they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from chassis.errors import RequestIdReused
from hansei.evidence.v1 import evidence_service_pb2 as pb
from libs.storage.idempotency import IdempotencyKey
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.errors import ServingNotFound, TrialsNotFound
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.trials import BulletState
from services.evidence.usecases.ports import OutcomeReport, RankedBullet, RankedBullets, RecallQuery
from services.evidence.usecases.recall import NOT_STORED, Recall

NOW = datetime(2026, 11, 23, tzinfo=UTC)
DATASET = "devtools"
BULLETS = [RankedBullet(f"b-{number}", "0" * 16, f"message {number}") for number in range(3)]


class FixedSearch:
    """Ranks the same bullets for every query."""

    async def rank(self, query: RecallQuery) -> RankedBullets:
        return RankedBullets(BULLETS[: query.top_k or 10], 5)


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[EvidenceRepository]:
    store = EvidenceRepository(str(path / "evidence.db"), clock=lambda: NOW)
    await store.database.open()
    try:
        yield store
    finally:
        await store.database.close()


def start_key(dataset: str = DATASET) -> IdempotencyKey:
    return IdempotencyKey.for_message(pb.StartTrialsRequest(request_id=str(uuid4()), dataset=dataset))


async def run_sessions(
    store: EvidenceRepository, sessions: range, outcome: Callable[[set[str]], float], prefix: str = "s"
) -> list[str]:
    """Recall and report; `outcome` gets the ids of the bullets that were served. Return the serving ids."""
    recall = Recall(FixedSearch(), store)
    ids = []
    for number in sessions:
        recalled = await recall(RecallQuery(DATASET, f"{prefix}{number}", "a push was rejected"))
        served = {bullet.bullet_id for bullet in BULLETS if bullet.result in recalled.results}
        await store.report(DATASET, OutcomeReport(recalled.serving_id, outcome(served), False))
        ids.append(recalled.serving_id)
    return ids


def test_without_trials_recall_is_a_search_and_stores_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            recalled = await Recall(FixedSearch(), store)(RecallQuery(DATASET, "s", "q"))
            assert recalled.results == ["message 0", "message 1", "message 2"]
            assert (recalled.serving_id, recalled.is_randomized, recalled.revision) == ("", False, 5)
            assert await store.find_trials(DATASET) is None

    asyncio.run(run())


def test_a_session_gets_the_same_bullets_again_also_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy())
            requests = [RecallQuery(DATASET, f"s{number}", "q") for number in range(40)]
            first = [await Recall(FixedSearch(), store)(request) for request in requests]
        async with open_store(tmp_path) as store:
            assert [await Recall(FixedSearch(), store)(request) for request in requests] == first
            trials = await store.find_trials(DATASET)
            assert trials is not None
            assert trials.servings.total == 40
        assert {len(recalled.results) for recalled in first} >= {0, 2, 3}
        assert len({recalled.serving_id for recalled in first}) == 40

    asyncio.run(run())


def test_bullets_that_share_an_id_are_measured_as_they_are_served(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.0))
            twins = [RankedBullet("b", version * 16, version) for version in "01"]
            served = [(await store.serve(DATASET, f"session-{number}", twins))[1] or [] for number in range(60)]
            assert any(first.is_served != second.is_served for first, second in served)
            assert len({exposure.trial_id for exposures in served for exposure in exposures}) == 2

    asyncio.run(run())


def test_a_bullet_that_decides_success_is_proven_and_one_that_prevents_it_is_not_served_any_more(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            policy = TrialPolicy(playbook_holdout=0.0)
            await store.start(start_key(), DATASET, policy)
            await run_sessions(store, range(200), lambda served: float("b-0" in served))
            trials = {trial.bullet_id: trial for trial in await store.list_bullet_trials(DATASET)}
            assert trials["b-0"].state is BulletState.PROVEN
            assert trials["b-1"].state is trials["b-2"].state is BulletState.TRIAL
            await run_sessions(store, range(200, 500), lambda served: float("b-1" not in served))
            decisions = await store.list_decisions(DATASET, None, 10)
            assert ("b-1", BulletState.HARMFUL) in [(made.bullet_id, made.after) for _, made in decisions]
            assert [number for number, _ in decisions] == list(range(len(decisions), 0, -1))
            recalled = [
                await Recall(FixedSearch(), store)(RecallQuery(DATASET, f"later{number}", "q")) for number in range(50)
            ]
            assert not any("message 1" in answer.results for answer in recalled)
            assert any("message 0" in answer.results for answer in recalled)

    asyncio.run(run())


def test_the_first_report_counts_and_a_repeat_changes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy())
            (serving_id,) = await run_sessions(store, range(1), lambda _: 1.0)
            repeated = await store.report(DATASET, OutcomeReport(serving_id, 1.0, False))
            contradicting = await store.report(DATASET, OutcomeReport(serving_id, 0.0, False))
            assert (repeated.counted, contradicting.counted, contradicting.outcome) == (True, False, 1.0)
            trials = await store.find_trials(DATASET)
            assert trials is not None
            assert trials.reports.total == 1

    asyncio.run(run())


def test_a_correction_recomputes_all_measurements(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.1))
            ids = await run_sessions(store, range(120), lambda served: float("b-0" in served))
            before = await store.list_bullet_trials(DATASET)
            trials = await store.find_trials(DATASET)
            assert trials is not None
            corrected = next(ids[number] for number in range(120) if trials.gets_playbook(f"s{number}"))
            await store.report(DATASET, OutcomeReport(corrected, 0.5, True))
            changed = await store.list_bullet_trials(DATASET)
            assert changed != before
            outcome = 1.0 if changed[0].statistics.served_total < before[0].statistics.served_total else 0.0
            await store.report(DATASET, OutcomeReport(corrected, outcome, True))
            assert [trial.statistics for trial in await store.list_bullet_trials(DATASET)] == [
                trial.statistics for trial in before
            ]
            assert (await store.find_trials(DATASET)).lift == trials.lift  # type: ignore[union-attr]

    asyncio.run(run())


def test_other_holdouts_restart_measurements_and_late_reports_are_stored_but_not_measured(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            assert await store.start(start_key(), DATASET, TrialPolicy())
            recalled = await Recall(FixedSearch(), store)(RecallQuery(DATASET, "s", "q"))
            assert not await store.start(start_key(), DATASET, TrialPolicy(margin=0.2))
            assert await store.start(start_key(), DATASET, TrialPolicy(bullet_holdout=0.5))
            assert (await store.report(DATASET, OutcomeReport(recalled.serving_id, 1.0, False))).counted
            trials = await store.find_trials(DATASET)
            assert trials is not None
            assert (trials.generation, trials.servings.total, trials.reports.total) == (2, 0, 0)
            assert await store.list_bullet_trials(DATASET) == []

    asyncio.run(run())


def test_lost_reports_of_one_arm_stop_decisions(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.5))
            recall = Recall(FixedSearch(), store)
            for number in range(400):
                recalled = await recall(RecallQuery(DATASET, f"s{number}", "q"))
                if recalled.results or number % 4 == 0:  # sessions without a playbook rarely report
                    outcome = float("message 0" in recalled.results)
                    await store.report(DATASET, OutcomeReport(recalled.serving_id, outcome, False))
            trials = await store.find_trials(DATASET)
            assert trials is not None
            assert [(name, failed) for name, _, failed in trials.list_checks()] == [
                ("servings", False),
                ("reports", True),
            ]
            early = trials.decisions
            await run_sessions(store, range(400, 500), lambda served: float("b-1" in served))
            assert (await store.find_trials(DATASET)).decisions == early  # type: ignore[union-attr]

    asyncio.run(run())


def test_servings_after_the_report_are_not_measured(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.0))
            recall = Recall(FixedSearch(), store)
            recalled = await recall(RecallQuery(DATASET, "s", "q", top_k=1))
            await store.report(DATASET, OutcomeReport(recalled.serving_id, 1.0, False))
            await recall(RecallQuery(DATASET, "s", "q", top_k=3))
            await store.report(DATASET, OutcomeReport(recalled.serving_id, 0.0, True))
            measured = [
                trial.statistics.served + trial.statistics.withheld for trial in await store.list_bullet_trials(DATASET)
            ]
            assert measured == [1.0, 0.0, 0.0]

    asyncio.run(run())


def test_each_error_has_its_reason(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            with pytest.raises(TrialsNotFound, match="dataset 'devtools' has no trials"):
                await store.stop(start_key(), DATASET)
            with pytest.raises(ServingNotFound, match="has no serving 'x'"):
                await store.report(DATASET, OutcomeReport("x", 1.0, False))
            key = start_key()
            await store.start(key, DATASET, TrialPolicy())
            assert await store.start(key, DATASET, TrialPolicy())  # the stored response
            other = IdempotencyKey(key.request_id, key.method, b"another request")
            with pytest.raises(RequestIdReused):
                await store.start(other, DATASET, TrialPolicy())
            other_dataset = await Recall(FixedSearch(), store)(RecallQuery(DATASET, "s", "q"))
            await store.start(start_key("other"), "other", TrialPolicy())
            with pytest.raises(ServingNotFound):
                await store.report("other", OutcomeReport(other_dataset.serving_id, 1.0, False))

    asyncio.run(run())


def test_without_the_database_the_ranking_is_served_as_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy())
        recalled = await Recall(FixedSearch(), store)(RecallQuery(DATASET, "s", "q"))
        assert recalled.results == ["message 0", "message 1", "message 2"]
        assert (recalled.serving_id, recalled.note) == ("", NOT_STORED)

    asyncio.run(run())


def test_the_history_keeps_every_session_at_first_and_fewer_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.1))
            ids = await run_sessions(store, range(135), lambda served: float(len(served) % 2))
            points = await store.list_points(DATASET, "")
            assert [point.sessions for point in points] == [*range(1, 100), 100, 110, 120, 130]
            trials = await store.find_trials(DATASET)
            assert trials is not None
            bullet = await store.list_points(DATASET, "b-1")
            trial = next(trial for trial in await store.list_bullet_trials(DATASET) if trial.bullet_id == "b-1")
            measured = trial.statistics.served + trial.statistics.withheld
            assert bullet[-1].sessions == (measured if measured < 100 else measured - measured % 10)
            assert await store.list_points(DATASET, "b-99") == []
            served = next(ids[number] for number in range(135) if trials.gets_playbook(f"s{number}"))
            await store.report(DATASET, OutcomeReport(served, 0.5, True))
            corrected = await store.list_points(DATASET, "")
            assert [point.sessions for point in corrected] == [point.sessions for point in points]
            assert corrected[-1] != points[-1]
            await store.start(start_key(), DATASET, TrialPolicy())
            assert await store.list_points(DATASET, "") == []

    asyncio.run(run())


def test_a_bullet_that_goes_back_on_trial_begins_its_history_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.0))
            await run_sessions(store, range(150), lambda served: float("b-0" in served))
            first = await store.list_points(DATASET, "b-0")
            await run_sessions(store, range(150, 450), lambda served: float("b-0" not in served))
            decisions = [
                made for _, made in await store.list_later_decisions(DATASET, 0, 100) if made.bullet_id == "b-0"
            ]
            assert [made.after for made in decisions][:2] == [BulletState.PROVEN, BulletState.TRIAL]
            again = await store.list_points(DATASET, "b-0")
            assert again[0].sessions == 1
            assert again[0] != first[0]

    asyncio.run(run())


def test_later_decisions_are_in_their_order(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.0))
            await run_sessions(store, range(200), lambda served: float("b-0" in served))
            await run_sessions(store, range(200, 500), lambda served: float("b-1" not in served))
            newest_first = await store.list_decisions(DATASET, None, 100)
            assert len(newest_first) >= 2
            assert await store.list_later_decisions(DATASET, 0, 100) == newest_first[::-1]
            assert await store.list_later_decisions(DATASET, 1, 1) == [newest_first[-2]]

    asyncio.run(run())


def test_failed_checks_are_counted_while_trials_run(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.5))
            recall = Recall(FixedSearch(), store)
            for number in range(250):
                recalled = await recall(RecallQuery(DATASET, f"s{number}", "q"))
                if recalled.results:  # sessions without a playbook never report
                    await store.report(DATASET, OutcomeReport(recalled.serving_id, 1.0, False))
            assert await store.count_failed_checks() == 1
            await store.stop(start_key(), DATASET)
            assert await store.count_failed_checks() == 0

    asyncio.run(run())
