"""Tell people about the open questions of executions, and callers about the changes of state, by webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from chassis.errors import shorten
from chassis.logging import get_logger
from chassis.repetition import repeat
from services.planner.domain.events import ExecutionFinished, RecordedEvent
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import replay
from services.planner.domain.plans import utc_now
from services.planner.domain.webhooks import ExecutionWebhook, build_state_message, changes_state
from services.planner.usecases.ports import ExecutionStore
from services.planner.usecases.tokens import find_open_question, get_question

_log = get_logger(__name__)

CLAIM_SECONDS = 300.0
"""A question that could not be sent is sent again after this time, by any replica, as long as it is open."""
STATE_CLAIM_SECONDS = 60.0
"""A change of state that could not be sent is sent again after this time, by any replica."""
STATE_DAYS = 1
"""Days after the last change of state after which messages that fail are not sent again."""
_POLL_SECONDS = 1.0
_BATCH = 20


class Sender(Protocol):
    """Sends messages to people."""

    async def send(self, message_id: str, message: Mapping[str, Any]) -> None:
        """Send a message. May raise anything."""


class WebhookSender(Protocol):
    """Sends messages to the webhooks of callers."""

    async def send(self, webhook: ExecutionWebhook, message_id: str, message: Mapping[str, Any]) -> None:
        """Send a message. May raise anything."""


class QuestionNotifier:
    """Sends each open question at least once."""

    def __init__(self, store: ExecutionStore, sender: Sender, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._sender = sender
        self._clock = clock

    async def keep_up(self) -> None:
        """Send questions as they come. Run until cancelled."""
        await repeat(_POLL_SECONDS, self.send_due)

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
                question = find_open_question(log)
                await self._sender.send(f"{execution_id}:{question.sequence}", _build_message(state, question))
        except Exception as error:  # a receiver may fail in any way
            _log.warning(
                "question could not be sent; trying again later", execution_id=execution_id, error=_describe(error)
            )
            return
        await self._store.settle_notification(execution_id, claimed_until)


class StateNotifier:
    """Sends each change of the state of an execution to its webhooks, in order, at least once."""

    def __init__(self, store: ExecutionStore, sender: WebhookSender, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._sender = sender
        self._clock = clock

    async def keep_up(self) -> None:
        """Send changes as they come. Run until cancelled."""
        await repeat(_POLL_SECONDS, self.send_due)

    async def send_due(self) -> None:
        """Send the changes that no replica has sent, or is sending."""
        now = self._clock()
        until = now + timedelta(seconds=STATE_CLAIM_SECONDS)
        claimed = await self._store.claim_webhooks(now, until, _BATCH)
        await asyncio.gather(*(self._send(webhook, now, until) for webhook in claimed))

    async def _send(self, webhook: ExecutionWebhook, now: datetime, claimed_until: datetime) -> None:
        execution_id = webhook.execution_id
        log: Sequence[RecordedEvent] = ()
        sent, is_done = webhook.sent_sequence, True
        try:
            log = await self._store.read(execution_id)
            for recorded in log:
                if recorded.sequence > sent and changes_state(recorded.event):
                    message = build_state_message(execution_id, recorded)
                    await self._sender.send(webhook, f"{execution_id}:{recorded.sequence}", message)
                    sent = recorded.sequence
        except Exception as error:  # a receiver may fail in any way
            is_done = webhook.changed_at is not None and now - webhook.changed_at > timedelta(days=STATE_DAYS)
            _log.warning(
                "change of an execution could not be sent",
                execution_id=execution_id,
                webhook_id=webhook.webhook_id,
                will_retry=not is_done,
                error=_describe(error),
            )
        has_ended = any(isinstance(recorded.event, ExecutionFinished) for recorded in log)
        last = log[-1].sequence if is_done and log else sent
        await self._store.settle_webhook(webhook, last, claimed_until if is_done else None, has_ended=has_ended)


def _describe(error: Exception) -> str:
    return shorten(str(error) or type(error).__name__, 300)


def _build_message(state: ExecutionState, question: RecordedEvent) -> dict[str, Any]:
    """Return the message of a question. The answer token is not part of it: an answer needs access to the planner."""
    event = get_question(question)
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
