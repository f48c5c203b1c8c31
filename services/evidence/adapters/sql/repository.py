"""Trials, servings and outcomes in SQL."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from chassis.errors import Aborted
from libs.storage.database import Database
from libs.storage.idempotency import IdempotencyKey
from libs.storage.timestamps import utc_now
from services.evidence.adapters.sql import queries
from services.evidence.adapters.sql.corrections import CorrectionQueue
from services.evidence.adapters.sql.schema import MIGRATIONS, requests
from services.evidence.domain.assignment import KEY_BYTES
from services.evidence.domain.discoveries import Block
from services.evidence.domain.errors import DecisionNotCurrent, DecisionNotFound, ServingNotFound, TrialsNotFound
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.trials import (
    WHOLE_PLAYBOOK,
    BulletDecision,
    BulletState,
    BulletTrial,
    DatasetTrials,
    EffectPoint,
    EnrolledBullet,
    Exposure,
    unpack_exposures,
)
from services.evidence.usecases.ports import OutcomeReport, RankedBullet, ReportResult

MOST_TRIES = 3
"""Recounts of one correction, when the dataset changes during each of them."""
RETRY_AFTER_SECONDS = 1.0


class EvidenceRepository:
    """Stores trials, servings and outcomes; all writes on one dataset happen one after another."""

    def __init__(self, location: str, clock: Callable[[], datetime] = utc_now) -> None:
        self.database = Database(location, MIGRATIONS, service="evidence", store="evidence store")
        self._clock = clock
        self._corrections = CorrectionQueue(self.database, clock)

    async def start(self, key: IdempotencyKey, dataset: str, policy: TrialPolicy) -> bool:
        """Start or change trials; return whether measurements restarted. Raises RequestIdReused."""
        now = self._clock()

        def start(connection: Connection) -> bool:
            trials = queries.select_trials(connection, dataset, lock=True)
            if trials is not None and trials.policy.has_equal_holdouts(policy):
                trials.policy, trials.is_running = policy, True
                queries.upsert_trials(connection, trials)
                return False
            queries.delete_measurements(connection, dataset)
            generation = trials.generation + 1 if trials else 1
            key_bytes = trials.key if trials else secrets.token_bytes(KEY_BYTES)
            begun = DatasetTrials(dataset, key_bytes, policy, True, generation, now)
            begun.decisions = trials.decisions if trials else 0
            queries.upsert_trials(connection, begun)
            return True

        return bool(await requests.write_once(self.database, key, now, start, dataset))

    async def stop(self, key: IdempotencyKey, dataset: str) -> None:
        """Stop trials. Raises `TrialsNotFound`, RequestIdReused."""

        def stop(connection: Connection) -> None:
            trials = queries.select_trials(connection, dataset, lock=True)
            if trials is None:
                raise TrialsNotFound(dataset)
            trials.is_running = False
            queries.upsert_trials(connection, trials)

        await requests.write_once(self.database, key, self._clock(), stop, dataset)

    async def find_trials(self, dataset: str) -> DatasetTrials | None:
        """Return the trials of a dataset; None if it never had any."""
        return await self.database.read(queries.select_trials, dataset)

    async def serve(
        self, dataset: str, session_id: str, bullets: list[RankedBullet]
    ) -> tuple[str, list[Exposure] | None]:
        """Store the serving of a session; return its serving id and the exposure of each of the bullets.

        None instead of exposures: the session gets no playbook. An empty id: no trials are running.
        """
        now = self._clock()
        return await self.database.write(
            lambda connection: _serve(connection, dataset, session_id, bullets, now), key=dataset
        )

    async def report(self, dataset: str, report: OutcomeReport) -> ReportResult:
        """Store an outcome and count it. Raises `ServingNotFound`, Aborted."""
        for _ in range(MOST_TRIES):
            now = self._clock()
            result = await self.database.write(partial(_report, dataset=dataset, report=report, now=now), key=dataset)
            result = result or await self._corrections.count(dataset, report)
            if result is not None:
                return result
        problem = f"bullets of dataset '{dataset}' came on trial while a correction was counted: send it again"
        raise Aborted(problem, retry_after=RETRY_AFTER_SECONDS)

    async def list_bullet_trials(self, dataset: str) -> list[BulletTrial]:
        """Return the bullets that are, or were, on trial."""
        return await self.database.read(queries.select_bullet_trials, dataset)

    async def list_decisions(self, dataset: str, before: int | None, limit: int) -> list[tuple[int, BulletDecision]]:
        """Return at most `limit` decisions with their numbers, the newest first, those before a number."""
        return await self.database.read(queries.select_decisions, dataset, before, limit)

    async def list_later_decisions(self, dataset: str, after: int, limit: int) -> list[tuple[int, BulletDecision]]:
        """Return at most `limit` decisions after a number with their numbers, the oldest first."""
        return await self.database.read(queries.select_later_decisions, dataset, after, limit)

    async def find_decision(self, dataset: str, number: int) -> BulletDecision:
        """Return a decision. Raises `DecisionNotFound`."""
        found = await self.database.read(queries.select_decision, dataset, number)
        if found is None:
            raise DecisionNotFound(dataset, number)
        return found

    async def undo_decision(self, dataset: str, number: int) -> tuple[int, BulletDecision]:
        """Put the bullet of a decision back on trial; return the decision that says so, with its number.

        A repeated call returns that of the first. Raises `DecisionNotFound`, `DecisionNotCurrent`.
        """
        now = self._clock()

        def mark_as_undone(connection: Connection) -> tuple[int, BulletDecision]:
            trials = queries.select_trials(connection, dataset, lock=True)
            undone = queries.select_decision(connection, dataset, number)
            if trials is None or undone is None:
                raise DecisionNotFound(dataset, number)
            later = [
                (later_number, made)
                for later_number, made in queries.select_later_decisions(connection, dataset, number, trials.decisions)
                if made.bullet_id == undone.bullet_id and made.text_version == undone.text_version
            ]
            if undone.is_undone and later:
                return later[0]
            candidates = queries.select_trials_by_bullet_id(connection, dataset, [undone.bullet_id])
            trial = next((trial for trial in candidates if trial.text_version == undone.text_version), None)
            if trial is None or later or trial.state is not undone.after or trial.state is BulletState.TRIAL:
                raise DecisionNotCurrent(dataset, number, undone.bullet_id)
            made = trials.undo(trial, now)
            queries.update_decision(connection, dataset, number, undone=True)
            queries.insert_decision(connection, dataset, trials.decisions, made)
            queries.update_bullet_trials(connection, [trial])
            queries.add_points(connection, dataset, trials.list_points([trial], now))
            queries.upsert_trials(connection, trials)
            return trials.decisions, made

        return await self.database.write(mark_as_undone, key=dataset)

    async def list_unpublished_removals(self, limit: int, skipped: int = 0) -> list[tuple[str, int, BulletDecision]]:
        """Return dataset, number and decision of harmful bullets that the playbook still has, the oldest first.

        The first `skipped` ones are left out.
        """
        return await self.database.read(queries.select_unpublished_removals, limit, skipped)

    async def set_published(self, dataset: str, number: int, revision: int) -> None:
        """Store in which revision a bullet was removed; 0 for a bullet that was not there any more."""
        now = self._clock()
        await self.database.write(
            lambda connection: queries.update_decision(
                connection, dataset, number, revision=revision, published_at=now
            ),
            key=dataset,
        )

    async def list_points(self, dataset: str, bullet_id: str) -> list[EffectPoint]:
        """Return the history of the newest trial of a bullet, or with an empty id of the whole playbook."""

        def read(connection: Connection) -> list[EffectPoint]:
            if not bullet_id:
                return queries.select_points(connection, dataset, WHOLE_PLAYBOOK)
            trials = queries.select_trials_by_bullet_id(connection, dataset, [bullet_id])
            newest = max((trial.id for trial in trials), default=None)
            return [] if newest is None else queries.select_points(connection, dataset, newest)

        return await self.database.read(read)

    async def count_failed_checks(self) -> int:
        """Return in how many datasets a check of the random assignment fails while trials run."""
        running = await self.database.read(queries.select_running_trials)
        return sum(any(failed for _, _, failed in trials.list_checks()) for trials in running)

    async def erase(self, dataset: str, until: datetime) -> bool:
        """Delete the trials of a dataset that began until a time; return whether there were any."""

        def delete_trials(connection: Connection) -> bool:
            trials = queries.select_trials(connection, dataset, lock=True)
            if trials is None or trials.began_at > until:
                return False
            queries.delete_trials(connection, dataset)
            return True

        return await self.database.write(delete_trials, key=dataset)


def _serve(
    connection: Connection, dataset: str, session_id: str, bullets: list[RankedBullet], now: datetime
) -> tuple[str, list[Exposure] | None]:
    trials = queries.select_trials(connection, dataset, lock=True)
    if trials is None or not trials.is_running:
        return "", []
    serving_id = trials.make_serving_id(session_id)
    has_playbook = trials.gets_playbook(session_id)
    row = queries.select_serving(connection, dataset, serving_id)
    earlier = {} if row is None else {exposure.trial_id: exposure for exposure in unpack_exposures(row.exposures)}
    served: list[Exposure] = []
    added: list[Exposure] = []
    enrolled = trials.enrolled
    if has_playbook and bullets:
        enrolled_by_text = {
            (bullet.bullet_id, bullet.text_version): bullet
            for bullet in queries.select_enrolled_bullets(connection, dataset, [b.bullet_id for b in bullets])
        }
        for ranked in bullets:
            text = (ranked.bullet_id, ranked.text_version)
            bullet = enrolled_by_text.get(text) or _enrol(connection, trials, ranked, now)
            enrolled_by_text[text] = bullet
            if bullet.trial_id not in earlier:
                added.append(trials.expose(session_id, bullet))
                earlier[bullet.trial_id] = added[-1]
            served.append(earlier[bullet.trial_id])
    # Bullets that are served after the report of the outcome cannot have caused it.
    if row is None:
        queries.insert_serving(connection, trials, serving_id, has_playbook, earlier.values(), now)
        trials.servings.add(has_playbook)
    elif added and row.outcome is None:
        queries.set_exposures(connection, dataset, serving_id, earlier.values())
    if row is None or trials.enrolled != enrolled:
        queries.set_serving_counts(connection, trials)
    return serving_id, served if has_playbook else None


def _enrol(connection: Connection, trials: DatasetTrials, ranked: RankedBullet, now: datetime) -> EnrolledBullet:
    trial = BulletTrial(0, ranked.bullet_id, ranked.text_version, trials.enrol(), BulletState.TRIAL, now)
    trial_id = queries.insert_bullet_trial(connection, trials.dataset, trial)
    return EnrolledBullet(trial_id, ranked.bullet_id, ranked.text_version, trial.state)


def _report(connection: Connection, dataset: str, report: OutcomeReport, now: datetime) -> ReportResult | None:
    """Store an outcome and count it; None for a correction of one that is counted."""
    trials = queries.select_trials(connection, dataset, lock=True)
    row = queries.select_serving(connection, dataset, report.serving_id) if trials else None
    if trials is None or row is None:
        raise ServingNotFound(dataset, report.serving_id)
    is_current = row.generation == trials.generation
    if row.outcome is None:
        reported = {"outcome": report.outcome, "report_number": trials.reports.total + 1, "reported_at": now}
        queries.update_serving(connection, dataset, report.serving_id, **reported)
        if not is_current:
            return ReportResult(True, report.outcome, [])
        exposures = unpack_exposures(row.exposures)
        changed, decisions = trials.count_session(
            row.has_playbook, exposures, report.outcome, *_load_from(connection, dataset), now
        )
        queries.update_bullet_trials(connection, changed)
        queries.add_points(connection, dataset, trials.list_points(changed, now))
        return ReportResult(True, report.outcome, queries.add_decisions(connection, trials, decisions))
    if not report.is_correction or report.outcome == row.outcome:
        return ReportResult(report.outcome == row.outcome, row.outcome, [])
    if is_current:
        return None
    queries.update_serving(connection, dataset, report.serving_id, outcome=report.outcome)
    return ReportResult(True, report.outcome, [])


def _load_from(
    connection: Connection, dataset: str
) -> tuple[Callable[[Iterable[int]], dict[int, BulletTrial]], Callable[[Block], list[BulletTrial]]]:
    """Return functions that load trials by their ids and by block, each trial once."""
    loaded: dict[int, BulletTrial] = {}

    def load(ids: Iterable[int]) -> dict[int, BulletTrial]:
        missing = [trial_id for trial_id in ids if trial_id not in loaded]
        if missing:
            loaded.update({trial.id: trial for trial in queries.select_bullet_trials_by_id(connection, missing)})
        return loaded

    def load_block(block: Block) -> list[BulletTrial]:
        return [loaded.setdefault(trial.id, trial) for trial in queries.select_block(connection, dataset, block)]

    return load, load_block
