"""Answer tokens: the proof that an answer belongs to one question of one execution."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from chassis.errors import shorten
from services.planner.domain.errors import AnswerRefused
from services.planner.domain.events import InterventionRequested, RecordedEvent


def get_question(recorded: RecordedEvent) -> InterventionRequested:
    """Return the question of a recorded event. Raises ValueError for another event."""
    if not isinstance(recorded.event, InterventionRequested):
        raise ValueError(f"expected a question, got {recorded.event.kind}")
    return recorded.event


def create_answer_token(key: bytes, execution_id: str, question: RecordedEvent) -> str:
    """Return the token of a question: bound to execution, plan version, step, position in the log and expiry."""
    event = get_question(question)
    step_id = event.request.step_id
    parts = (execution_id, event.plan_version, "-" if step_id is None else step_id, question.sequence)
    message = "|".join(str(part) for part in (*parts, event.expires_at.isoformat()))
    return hmac.new(key, message.encode(), hashlib.sha256).hexdigest()


def find_open_question(log: Sequence[RecordedEvent]) -> RecordedEvent:
    """Return the latest question in the log of a paused execution."""
    return next(recorded for recorded in reversed(log) if isinstance(recorded.event, InterventionRequested))


def check_answer(
    key: bytes, execution_id: str, question: RecordedEvent, token: str, plan_version: int, step_id: int | None
) -> None:
    """Raise AnswerRefused unless plan version, step and token of the answer are those of the open question."""
    event = get_question(question)
    if plan_version != event.plan_version:
        raise AnswerRefused(f"plan_version {plan_version} is not that of the open question ({event.plan_version})")
    if step_id != event.request.step_id:
        raise AnswerRefused(f"step_id {step_id} is not that of the open question ({event.request.step_id})")
    expected = create_answer_token(key, execution_id, question)
    if not hmac.compare_digest(expected.encode(), token.encode("utf-8", "replace")):
        raise AnswerRefused(f'answer_token "{shorten(token, 12)}" is not that of the open question')
