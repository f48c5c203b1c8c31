"""Corrections of outcomes. They are computed outside of the writer, so that other reports and servings go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from libs.storage.database import Database
from services.evidence.adapters.sql import queries
from services.evidence.domain.recount import Recount
from services.evidence.usecases.ports import OutcomeReport, ReportResult

REPORTS_AT_ONCE = 500
"""Reports that are read at once; between, the thread that reads serves others."""
MOST_LATE_REPORTS = 50
"""Reports that came during a recount and are counted in the transaction that stores it."""

_Waiting = list[tuple[OutcomeReport, "asyncio.Future[ReportResult | None]"]]


class CorrectionQueue:
    """Counts corrections: those of one dataset that wait together in one recount, one recount at a time."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._turn = asyncio.Semaphore(1)
        self._waiting: dict[str, _Waiting] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def count(self, dataset: str, report: OutcomeReport) -> ReportResult | None:
        """Replace the outcome of a counted serving, and count all again.

        None: the dataset changed meanwhile so that the correction must be looked at again. It goes on when the caller
        has stopped waiting.
        """
        done: asyncio.Future[ReportResult | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(dataset, []).append((report, done))
        if dataset not in self._tasks:
            self._tasks[dataset] = asyncio.create_task(self._count_waiting(dataset))
        return await done

    async def _count_waiting(self, dataset: str) -> None:
        try:
            while dataset in self._waiting:
                async with self._turn:
                    await self._count_together(dataset, self._waiting.pop(dataset))
        finally:
            del self._tasks[dataset]

    async def _count_together(self, dataset: str, waiting: _Waiting) -> None:
        reports = [report for report, _ in waiting]
        try:
            result, error = await self._recount(dataset, reports), None
        except Exception as raised:
            result, error = None, raised
        for number, (report, done) in enumerate(waiting, 1):
            if done.done():
                continue
            if error is not None:
                done.set_exception(error)
            elif result is None:
                done.set_result(None)
            else:  # the decisions follow from all of them; the last one returns them
                decisions = result.decisions if number == len(waiting) else []
                done.set_result(ReportResult(True, report.outcome, decisions))

    async def _recount(self, dataset: str, reports: Sequence[OutcomeReport]) -> ReportResult | None:
        corrected = {report.serving_id: report.outcome for report in reports}

        def begin(connection: Connection) -> Recount | None:
            trials = queries.select_trials(connection, dataset)
            if trials is None:
                return None
            return Recount(trials, queries.select_bullet_trials(connection, dataset), corrected)

        recount = await self._database.read(begin)
        is_stored, result = recount is None, None
        while recount is not None and not is_stored:
            await self._count_stored(recount)
            store = partial(_store, recount=recount, corrected=corrected, now=self._clock())
            is_stored, result = await self._database.write(store, key=dataset)
        return result

    async def _count_stored(self, recount: Recount) -> None:
        trials = recount.trials
        while True:
            reports = await self._database.read(queries.select_reports, trials, recount.counted, REPORTS_AT_ONCE)
            await asyncio.to_thread(recount.count, reports)
            if len(reports) < REPORTS_AT_ONCE:
                return


def _store(
    connection: Connection, recount: Recount, corrected: dict[str, float], now: datetime
) -> tuple[bool, ReportResult | None]:
    """Store a recount; return whether it has ended, and its result, None if the dataset changed meanwhile."""
    dataset = recount.trials.dataset
    trials = queries.select_trials(connection, dataset, lock=True)
    before = queries.select_bullet_trials(connection, dataset) if trials else []
    if trials is None or not recount.matches(trials, before):
        return True, None
    late = queries.select_reports(connection, trials, recount.counted, MOST_LATE_REPORTS + 1)
    if len(late) > MOST_LATE_REPORTS:
        return False, None
    recount.count(late)
    decisions = recount.list_changes(before, now)
    for serving_id, outcome in corrected.items():
        queries.update_serving(connection, dataset, serving_id, outcome=outcome)
    queries.replace_points(connection, dataset, recount.list_points())
    pairs = zip(recount.bullets, before, strict=True)
    queries.update_bullet_trials(connection, [trial for trial, earlier in pairs if trial != earlier])
    trials.lift, trials.reports, trials.enrolled = recount.trials.lift, recount.trials.reports, recount.trials.enrolled
    trials.decisions += len(decisions)
    trials.corrections += 1
    numbered = queries.add_decisions(connection, trials, decisions)
    return True, ReportResult(True, next(reversed(corrected.values())), numbered)
