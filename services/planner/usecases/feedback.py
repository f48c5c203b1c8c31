"""Store feedback about past confidences and let the gate learn from it (P-76, P-89, P-129)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from chassis.errors import FailedPrecondition, InvalidArgument, Violation
from chassis.repetition import repeat
from libs.storage.idempotency import IdempotencyKey
from services.planner.domain.plans import utc_now
from services.planner.usecases.executions import Executions
from services.planner.usecases.gates import LearningGate
from services.planner.usecases.ports import ExecutionStore, Feedback

_POLL_SECONDS = 5.0
RESET = Feedback(confidence=0.0, correct=False, audit_probability=0.0, execution_id="", step_id=-1)
"""The record that makes every replica forget those before it; to an older version it is feedback without effect."""


class FeedbackBook:
    """The feedback in this database. Every replica learns from all of it, in the same order."""

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
        """Learn from the new feedback in the database; return True if the thresholds moved."""
        moved = False
        for number, record in await self._store.list_feedback(self._last):
            if number <= self._last:
                continue
            self._last = number
            if record == RESET:
                self.gate.reset()
                self.records = 0
                continue
            self.records += 1
            moved = self.gate.learn(record) or moved
        return await self._catch_up_audits() or moved

    async def _catch_up_audits(self) -> bool:
        """Learn from the new entries of the audits."""
        moved = False
        for entry in await self._store.list_audits(self._last_audit):
            if entry.number > self._last_audit:
                self._last_audit = entry.number
                moved = self.gate.learn_audit(entry) or moved
        return moved

    async def keep_up(self) -> None:
        """Learn from the feedback that other replicas store. Run until cancelled."""
        await repeat(_POLL_SECONDS, self.catch_up, first_pause=_POLL_SECONDS)

    async def submit(
        self,
        confidence: float | None,
        correct: bool,
        execution_id: str,
        step_id: int,
        key: IdempotencyKey | None,
    ) -> bool:
        """Store a feedback record and learn from it; return True if the thresholds moved.

        The default confidence is that of the named step. Raises InvalidArgument, ExecutionNotFound, RequestIdReused.
        """
        probability = 0.0
        if execution_id and step_id:
            judgement = (await self._executions.state(execution_id)).judgements.get(step_id)
            if judgement is None:
                raise FailedPrecondition(
                    f"Step {step_id} of execution {execution_id} has no confidence", reason="STEP_NOT_JUDGED"
                )
            confidence = judgement.confidence.score
            probability = judgement.audit_probability if judgement.audited else 0.0
        if confidence is None:
            rule = "confidence, or execution_id and step_id, must be set"
            raise InvalidArgument(rule, reason="CONFIDENCE_MISSING", violations=[Violation("confidence", rule)])
        record = Feedback(confidence, correct, probability, execution_id, step_id)
        await self._store.add_feedback(record, self._clock(), key)
        return await self.catch_up()

    async def reset(self, key: IdempotencyKey | None) -> None:
        """Forget all feedback in every replica (P-91). Raises RequestIdReused."""
        await self._store.add_feedback(RESET, self._clock(), key)
        await self.catch_up()
