"""Returns the bullets for a query of a session, some of them withheld while their effects are measured."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from chassis.errors import Unavailable
from chassis.logging import get_logger
from services.evidence.usecases.ports import BulletRanking, EvidenceStore, RecallQuery

NOT_STORED = "the evidence database is unavailable; nothing is withheld or measured"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecalledBullets:
    """The bullets to serve, and the id of the serving."""

    results: list[Any] = field(default_factory=list)
    revision: int = 0
    serving_id: str = ""
    is_randomized: bool = False
    note: str = ""


class Recall:
    """Ranks by search, assigns, stores, answers."""

    def __init__(self, search: BulletRanking, store: EvidenceStore) -> None:
        self._search = search
        self._store = store

    async def __call__(self, query: RecallQuery) -> RecalledBullets:
        """Return the bullets to serve. Raises the errors of search.

        The serving is on disk before its answer leaves. Without the database the ranking is served as it is.
        """
        ranked, is_on_trial = await asyncio.gather(self._search.rank(query), self._is_on_trial(query.dataset))
        everything = [bullet.result for bullet in ranked.bullets]
        if not is_on_trial:
            return RecalledBullets(everything, ranked.revision, note="" if is_on_trial is not None else NOT_STORED)
        try:
            serving_id, exposures = await self._store.serve(query.dataset, query.session_id, ranked.bullets)
        except Unavailable as error:
            _log_not_stored(query.dataset, error)
            return RecalledBullets(everything, ranked.revision, note=NOT_STORED)
        if not serving_id:
            return RecalledBullets(everything, ranked.revision)
        if exposures is None:
            return RecalledBullets([], ranked.revision, serving_id, is_randomized=True)
        pairs = zip(ranked.bullets, exposures, strict=True)
        served = [bullet.result for bullet, exposure in pairs if exposure.is_served]
        return RecalledBullets(served, ranked.revision, serving_id, is_randomized=True)

    async def _is_on_trial(self, dataset: str) -> bool | None:
        """Return whether trials of a dataset are running; None without the database."""
        try:
            trials = await self._store.find_trials(dataset)
        except Unavailable as error:
            _log_not_stored(dataset, error)
            return None
        return trials is not None and trials.is_running


def _log_not_stored(dataset: str, error: Unavailable) -> None:
    _log.warning("serving not stored; nothing is withheld", dataset=dataset, error=str(error))
