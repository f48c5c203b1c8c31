"""The measurements of guards in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from chassis.targets.guard import CallGuard, GuardMode
from libs.storage.database import Database
from libs.storage.partitions import TimePartitions
from libs.storage.timestamps import utc_now
from services.evidence.adapters.sql import guard_trial_queries as queries
from services.evidence.adapters.sql.guard_repository import find_assignment_key
from services.evidence.adapters.sql.guard_schema import DROPPED_BY_TIME
from services.evidence.domain.errors import DecisionNotCurrent, DecisionNotFound
from services.evidence.domain.guard_trials import (
    GuardTrial,
    ModeDecision,
    apply_decision,
    decide_mode,
    undo_decision,
)
from services.evidence.domain.stored_backtest import Demotion
from services.evidence.usecases.guard_trial_ports import GuardEvaluation, NumberedDecision, SessionReport


class GuardTrialRepository:
    """Implements `GuardTrialStore` in the database of the evidence service."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._partitions = TimePartitions(database, *DROPPED_BY_TIME)

    async def report_session(self, dataset: str, session_id: str, passed: bool) -> SessionReport:
        """Count the outcome of a session for the guards that fired in it, once."""
        now = self._clock()
        await self._partitions.prepare(now)

        def count_session(connection: Connection) -> SessionReport:
            counters = _lock(connection, dataset)
            firings = queries.select_firings(connection, dataset, session_id)
            if not queries.insert_session(connection, dataset, session_id, passed, now):
                return SessionReport(False, len(firings))
            queries.update_dataset(connection, dataset, sessions=counters.sessions + 1, passed=counters.passed + passed)
            trials = queries.select_trials(connection, dataset) if firings else {}
            first = min((firing.step for firing in firings), default=0)
            calls = queries.select_calls(connection, dataset, session_id, first) if firings else []
            for firing in firings:
                trial = trials.get(firing.bullet_id)
                if trial is not None and trial.mode == firing.mode and firing.created_at >= trial.since:
                    outcome = queries.find_outcome(firing, calls, passed)
                    queries.put_trial(connection, dataset, trial.add(outcome))
            return SessionReport(True, len(firings))

        return await self._database.write(count_session, key=dataset)

    async def list_changed(self) -> list[str]:
        """Return the datasets with sessions that ended since the last evaluation of their guards."""
        return await self._database.read(queries.select_changed)

    async def evaluate(
        self, dataset: str, guards: Sequence[CallGuard], backtested: Mapping[str, GuardMode]
    ) -> GuardEvaluation:
        """Decide about the modes of guards; each has the mode in effect.

        `backtested` are the highest modes that stored backtests allow, by target.
        """
        now = self._clock()

        def decide_modes(connection: Connection) -> GuardEvaluation:
            counters = _lock(connection, dataset)
            trials = queries.select_trials(connection, dataset)
            waiting = queries.select_unpublished_bullets(connection, dataset)
            number, position = counters.decisions, counters.trials
            decisions: list[NumberedDecision] = []
            candidates: list[GuardTrial] = []
            for guard in guards:
                trial = trials.get(guard.bullet_id)
                if guard.bullet_id in waiting:
                    continue
                if trial is None or trial.target != guard.target.source:
                    trial = GuardTrial(guard.bullet_id, guard.target.source, guard.mode, position, now, counters.passed)
                    position += 1
                    queries.put_trial(connection, dataset, trial)
                elif trial.mode != guard.mode:
                    trial = trial.begin(guard.mode, now, counters.passed)
                    queries.put_trial(connection, dataset, trial)
                decided = decide_mode(trial, counters.passed)
                if decided is None:
                    continue
                after, reason = decided
                if trial.mode is GuardMode.SHADOW and backtested.get(trial.target, GuardMode.SHADOW) < after:
                    candidates.append(trial)
                    continue
                number += 1
                decision = ModeDecision(trial.bullet_id, trial.target, trial.mode, after, reason, now)
                queries.insert_decision(connection, dataset, number, decision)
                queries.put_trial(connection, dataset, apply_decision(trial, after, now, counters.passed))
                decisions.append(NumberedDecision(number, decision))
            queries.update_dataset(connection, dataset, evaluated=counters.sessions, trials=position, decisions=number)
            return GuardEvaluation(tuple(decisions), tuple(candidates), counters.passed)

        return await self._database.write(decide_modes, key=dataset)

    async def demote(self, dataset: str, demotions: Sequence[Demotion]) -> None:
        """Decide that guards fall to other modes; a guard with a decision that is not published yet is left out."""
        now = self._clock()

        def insert_demotions(connection: Connection) -> None:
            counters = _lock(connection, dataset)
            trials = queries.select_trials(connection, dataset)
            waiting = queries.select_unpublished_bullets(connection, dataset)
            number, position = counters.decisions, counters.trials
            for made in demotions:
                if made.bullet_id in waiting:
                    continue
                trial = trials.get(made.bullet_id)
                if trial is None or trial.target != made.target:
                    trial = GuardTrial(made.bullet_id, made.target, made.before, position, now, counters.passed)
                    position += 1
                number += 1
                decision = ModeDecision(made.bullet_id, made.target, made.before, made.after, made.reason, now)
                queries.insert_decision(connection, dataset, number, decision)
                demoted = apply_decision(trial, made.after, now, counters.passed)
                cap = made.after if made.is_final else trial.cap
                queries.put_trial(connection, dataset, replace(demoted, cap=cap, is_proven=False))
            queries.update_dataset(connection, dataset, trials=position, decisions=number)

        await self._database.write(insert_demotions, key=dataset)

    async def find_trials(self, dataset: str) -> dict[str, GuardTrial]:
        """Return the measurements of the guards of a dataset, by bullet."""
        return await self._database.read(queries.select_trials, dataset)

    async def count_passed(self, dataset: str) -> int:
        """Return the number of passing sessions of a dataset."""

        def read(connection: Connection) -> int:
            counters = queries.select_dataset(connection, dataset)
            return 0 if counters is None else int(counters.passed)

        return await self._database.read(read)

    async def list_decisions(self, dataset: str, before: int | None, limit: int) -> list[NumberedDecision]:
        """Return at most `limit` decisions, the newest first, from before a number."""
        return await self._database.read(queries.select_decisions, dataset, before, limit)

    async def list_unpublished(
        self, limit: int, dataset: str = "", *, skipped: int = 0
    ) -> list[tuple[str, NumberedDecision]]:
        """Return the decisions that are not in their playbooks yet, the oldest first; all datasets, or one.

        The first `skipped` ones are left out.
        """
        return await self._database.read(queries.select_unpublished, limit, dataset, skipped)

    async def set_published(self, dataset: str, number: int, revision: int) -> None:
        """Store in which revision a mode was changed; 0 if the guard had been pinned, edited or removed."""
        now = self._clock()
        await self._database.write(
            lambda connection: queries.update_decision(
                connection, dataset, number, revision=revision, published_at=now
            ),
            key=dataset,
        )

    async def undo_decision(self, dataset: str, number: int, author: str) -> NumberedDecision:
        """Add the decision that takes back another one; a repeat returns the same.

        Raises DecisionNotFound, DecisionNotCurrent.
        """
        now = self._clock()

        def mark_as_undone(connection: Connection) -> NumberedDecision:
            counters = _lock(connection, dataset)
            found = queries.select_decision(connection, dataset, number)
            if found is None:
                raise DecisionNotFound(dataset, number, "hansei guards decisions")
            decision = found.decision
            newest = queries.select_newest_number(connection, dataset, decision.bullet_id)
            if decision.is_undone and (later := queries.select_decision(connection, dataset, newest)):
                return later
            trial = queries.select_trials(connection, dataset).get(decision.bullet_id)
            if trial is None or newest != number or trial.target != decision.target:
                raise DecisionNotCurrent(dataset, number, decision.bullet_id)
            reason = f"decision {number} about the guard was undone"
            made = ModeDecision(
                decision.bullet_id, decision.target, decision.after, decision.before, reason, now, author
            )
            queries.update_decision(connection, dataset, number, undone=True)
            queries.insert_decision(connection, dataset, counters.decisions + 1, made)
            queries.put_trial(connection, dataset, undo_decision(trial, decision, now, counters.passed))
            queries.update_dataset(connection, dataset, decisions=counters.decisions + 1)
            return NumberedDecision(counters.decisions + 1, made)

        return await self._database.write(mark_as_undone, key=dataset)


def _lock(connection: Connection, dataset: str) -> Row[Any]:
    """Return the counters of a dataset, which this transaction alone may change."""
    find_assignment_key(connection, dataset)  # inserts the row if there is none
    counters = queries.lock_dataset(connection, dataset)
    assert counters is not None
    return counters
