"""Tell people about the open questions of executions, by a webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from chassis.errors import shorten
from chassis.logging import get_logger
from services.planner.domain.events import InterventionRequested, RecordedEvent
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import replay
from services.planner.domain.plans import utc_now
from services.planner.usecases.ports import ExecutionStore
from services.planner.usecases.tokens import open_question

_log = get_logger(__name__)

CLAIM_SECONDS = 300.0
"""A question that could not be sent is sent again after this time, by any replica, as long as it is open."""
_POLL_SECONDS = 1.0
_BATCH = 20


class Sender(Protocol):
    """Sends messages to people."""

    async def send(self, message_id: str, message: Mapping[str, Any]) -> None:
        """Send a message. May raise anything."""


class QuestionNotifier:
    """Sends each open question at least once."""

    def __init__(self, store: ExecutionStore, sender: Sender, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._sender = sender
        self._clock = clock

    async def keep_up(self) -> None:
        """Send questions as they come. Run until cancelled."""
        while True:
            try:
                await self.send_due()
            except Exception:  # the database may respond in the next round
                _log.exception("sending questions to people failed; trying again later")
            await asyncio.sleep(_POLL_SECONDS)

    async def send_due(self) -> None:
        """Send the questions that no replica has sent, or is sending."""
        now = self._clock()
        until = now + timedelta(seconds=CLAIM_SECONDS)
        claimed = await self._store.claim_notifications(now, until, _BATCH)
        await asyncio.gather(*(self._send(execution_id, until) for execution_id in claimed))

    async def _send(self, execution_id: str, claimed_until: datetime) -> None:
        try:
            log = await self._store.read(execution_id)
            state = replay(log)
            if state.is_paused:
                question = open_question(log)
                await self._sender.send(f"{execution_id}:{question.sequence}", _build_message(state, question))
        except Exception as error:  # a receiver may fail in any way
            text = shorten(str(error) or type(error).__name__, 300)
            _log.warning("question could not be sent; trying again later", execution_id=execution_id, error=text)
            return
        await self._store.settle_notification(execution_id, claimed_until)


def _build_message(state: ExecutionState, question: RecordedEvent) -> dict[str, Any]:
    """Return the message of a question. The answer token is not part of it: an answer needs access to the planner."""
    event = question.event
    if not isinstance(event, InterventionRequested):
        raise ValueError(f"expected a question, got {event.kind}")
    request = event.request
    data: dict[str, Any] = {
        "execution_id": state.execution_id,
        "query": state.plan.original_query,
        "level": request.level.value,
        "step_id": request.step_id,
        "message": request.message,
        "question": request.question,
        "reason": request.reason,
        "options": list(request.options),
        "confidence": request.confidence_score,
        "expires_at": event.expires_at.isoformat(),
    }
    return {"type": "execution.question", "timestamp": question.created_at.isoformat(), "data": data}
