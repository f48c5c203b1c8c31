"""Feedback about past confidences: kept, and turned into the thresholds of the next decision (P-76, P-89, P-129)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from chassis.errors import FailedPrecondition, HanseiError, InvalidArgument, Violation
from chassis.logging import get_logger
from libs.storage.idempotency import IdempotencyKey
from services.planner.domain.calibration import Calibration
from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.plans import utc_now
from services.planner.domain.thresholds import Thresholds
from services.planner.usecases.executions import Executions
from services.planner.usecases.judge import GateVerdict
from services.planner.usecases.ports import ExecutionStore, Feedback, StepAudit

_log = get_logger(__name__)

_LOOK_SECONDS = 5.0
# Audits that may follow one without a label before it counts as wrong.
_PATIENCE = 500


class LearningGate(Protocol):
    """A gate that learns from feedback."""

    @property
    def mode(self) -> str:
        """How the thresholds are found."""

    @property
    def configured(self) -> Thresholds:
        """The thresholds without any feedback."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the next decision."""

    @property
    def calibration(self) -> Calibration:
        """How the score is calibrated."""

    def decide(self, score: ConfidenceScore) -> GateVerdict:
        """The verdict on a confidence."""

    def learn(self, record: Feedback) -> bool:
        """Takes a record; whether the thresholds moved."""

    def learn_audit(self, audit: StepAudit, wrong: bool) -> bool:
        """Takes the label of an audit, in the order of the decisions; whether the thresholds moved."""


class FeedbackBook:
    """All feedback of this database. Every replica learns from all of it, in one order."""

    def __init__(
        self, store: ExecutionStore, gate: LearningGate, executions: Executions, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._store = store
        self.gate = gate
        self._executions = executions
        self._clock = clock
        self._last = self._last_audit = 0
        self.records = 0

    async def catch_up(self) -> bool:
        """Learns what is new in the database; whether the thresholds moved."""
        moved = False
        for number, record in await self._store.all_feedback(self._last):
            if number <= self._last:
                continue
            self._last = number
            self.records += 1
            moved = self.gate.learn(record) or moved
        return await self._catch_up_audits() or moved

    async def _catch_up_audits(self) -> bool:
        """Learns labels in the order of the decisions; one that never comes counts as wrong in the end."""
        moved = False
        waiting = list(await self._store.audits(self._last_audit))
        for place, audit in enumerate(waiting):
            if audit.number <= self._last_audit:
                continue
            if audit.wrong is None and len(waiting) - place <= _PATIENCE:
                break
            self._last_audit = audit.number
            moved = self.gate.learn_audit(audit, audit.wrong is not False) or moved
        return moved

    async def keep_up(self) -> None:
        """Learns what other replicas were told. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self.catch_up()
            except HanseiError as error:
                _log.warning("reading feedback failed", error=error.message)

    async def submit(
        self,
        confidence: float | None,
        correct: bool,
        execution_id: str,
        step_id: int,
        key: IdempotencyKey | None,
    ) -> bool:
        """Keeps a record and learns from it at once; whether the thresholds moved.

        Without a confidence it is that of the step named. Errors: InvalidArgument, RunNotFound, RequestIdReused.
        """
        probability = 0.0
        if execution_id and step_id:
            judged = (await self._executions.state(execution_id)).judgements.get(step_id)
            if judged is None:
                raise FailedPrecondition(
                    f"Step {step_id} of run {execution_id} has no confidence", reason="STEP_NOT_JUDGED"
                )
            confidence = judged.confidence.score
            probability = judged.audit_probability if judged.audited else 0.0
        if confidence is None:
            rule = "confidence, or execution_id and step_id, must be set"
            raise InvalidArgument(rule, reason="CONFIDENCE_MISSING", violations=[Violation("confidence", rule)])
        record = Feedback(confidence, correct, probability, execution_id, step_id)
        await self._store.add_feedback(record, self._clock(), key)
        return await self.catch_up()
