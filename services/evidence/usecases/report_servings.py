"""Report the outcome of a trajectory for the servings that it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chassis.logging import get_logger
from services.evidence.domain.errors import ServingNotFound
from services.evidence.domain.trials import BulletDecision
from services.evidence.usecases.ports import EvidenceStore, OutcomeReport

_log = get_logger(__name__)


class ReportServings:
    """Reports outcomes as `ReportOutcome` does: the first one of a serving counts; repeated calls change nothing."""

    def __init__(self, store: EvidenceStore, *, count_report: Callable[[bool, Sequence[BulletDecision]], None]) -> None:
        self._store = store
        self._count_report = count_report

    async def __call__(self, dataset: str, serving_ids: Sequence[str], outcome: float) -> None:
        """Report an outcome, 0 to 1. A serving that does not exist is logged: its trials were deleted or restarted."""
        for serving_id in dict.fromkeys(serving_ids):
            try:
                result = await self._store.report(dataset, OutcomeReport(serving_id, outcome, is_correction=False))
            except ServingNotFound:
                _log.info("trajectory names an unknown serving; ignoring it", dataset=dataset, serving_id=serving_id)
                continue
            self._count_report(result.counted, [decision for _, decision in result.decisions])
