"""The planner's store: SQLite by default, PostgreSQL beyond one machine (ADR 030)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, insert, select

from libs.storage.database import Database
from libs.storage.engines import get_insert
from libs.storage.idempotency import IdempotencyKey
from libs.storage.leases import Lease, LeaseState
from libs.storage.timestamps import to_microseconds
from services.planner.adapters import metrics
from services.planner.adapters.sql import queries, schema
from services.planner.adapters.sql.event_rows import FIRST_HASH
from services.planner.domain.errors import (
    ExecutionNotFound,
    LeaseLost,
    PlanAlreadyExecuted,
    TooManyWebhooks,
)
from services.planner.domain.events import Event, ExecutionStarted, RecordedEvent
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import apply, replay
from services.planner.domain.webhooks import MAX_WEBHOOKS, ExecutionWebhook
from services.planner.usecases.ports import (
    AuditEntry,
    ExecutionFilter,
    ExecutionStatus,
    ExecutionSummary,
    Feedback,
    MakeChange,
    derive_status,
)
from services.planner.usecases.recorder import LogConflict

_is_running = schema.executions.c.status == ExecutionStatus.RUNNING.value
_SECRET_BYTES = 32


class SqlExecutionStore:
    """Implements `ExecutionStore`."""

    def __init__(self, location: str) -> None:
        """`location`: a file name for SQLite, or a database URL."""
        self.database = Database(location, schema.MIGRATIONS, service="planner", store="planner store")

    async def create(
        self, started: ExecutionStarted, now: datetime, owner: str, key: IdempotencyKey | None
    ) -> Lease | None:
        """Begin an execution and take its lease; None for a replay."""
        execution_id = started.plan.plan_id or ""

        def insert_execution(connection: Connection) -> Lease | None:
            if schema.requests.find_response(connection, key) is not None:
                return None
            if queries.lock_execution(connection, execution_id) is not None:
                raise PlanAlreadyExecuted(execution_id)
            row = {
                "execution_id": execution_id,
                "query": started.plan.original_query[: schema.QUERY_CHARS],
                "status": ExecutionStatus.RUNNING.value,
                "sequence": 0,
                "head_hash": FIRST_HASH,
                "started_at": now,
                "updated_at": now,
                "owner": owner,
                "fence": 1,
                "heartbeat": to_microseconds(now),
            }
            connection.execute(insert(schema.executions).values(row))
            _apply(connection, execution_id, 0, FIRST_HASH, [(started, now)], ExecutionState(started.plan))
            schema.requests.store_response(connection, key, execution_id.encode(), now)
            return Lease(execution_id, owner, 1)

        return await self.database.write(insert_execution, execution_id)

    async def acquire(self, observed: LeaseState, owner: str, now: datetime) -> Lease | None:
        """Take the lease of a running execution if it has not changed since it was observed; None if it has."""
        return await self.database.write(
            lambda connection: schema.leases.acquire(connection, observed, owner, now, _is_running), observed.name
        )

    async def renew(self, leases: Sequence[Lease], now: datetime) -> dict[str, int]:
        """Renew leases; return the sequence number of each execution whose lease is still held."""
        ordered = sorted(leases, key=lambda lease: lease.name)
        rows = await self.database.write(lambda connection: schema.leases.renew(connection, ordered, now, "sequence"))
        return {name: row.sequence for name, row in rows.items()}

    async def release(self, lease: Lease) -> None:
        """Release a lease, if it is still held."""
        await self.database.write(lambda connection: schema.leases.release(connection, lease), lease.name)

    async def append(
        self, lease: Lease, events: Sequence[tuple[Event, datetime]], after: int, state: ExecutionState
    ) -> None:
        """Append under a lease; `state` is the state with the events. Raises LogConflict, LeaseLost."""
        status, wake_at = derive_status(state), state.expires_at

        def append_events(connection: Connection) -> None:
            row = queries.lock_execution(connection, lease.name)
            if row is None or (row.owner, row.fence) != (lease.owner, lease.fence):
                raise LeaseLost(lease.name)
            if row.sequence != after:
                raise LogConflict
            queries.append_events(connection, lease.name, after, row.head_hash, events, status, wake_at)

        await self.database.write(append_events, lease.name)
        metrics.count_events(event for event, _ in events)

    async def decide(
        self, execution_id: str, decision: MakeChange, now: datetime, owner: str, key: IdempotencyKey | None = None
    ) -> tuple[int, Lease | None]:
        """Append the events that `decision` makes of the state, in one transaction with reading the state."""

        def append_decision(connection: Connection) -> tuple[int, Lease | None]:
            row = queries.lock_execution(connection, execution_id)
            if row is None:
                raise ExecutionNotFound(execution_id)
            stored = schema.requests.find_response(connection, key)
            if stored is not None:
                return int(stored), None
            recorded = queries.read_events(connection, execution_id, 0)
            state = replay(recorded)
            change = decision(state, recorded)
            # Time never decreases in a log, even when the clock does.
            time = max(now, recorded[-1].created_at)
            events = [(event, time) for event in change.events]
            last = _apply(connection, execution_id, row.sequence, row.head_hash, events, state)
            schema.requests.store_response(connection, key, b"%d" % last, now)
            if not change.take_lease or state.result is not None or state.is_paused:
                return last, None
            free = LeaseState(execution_id, None, row.fence, None)
            return last, schema.leases.acquire(connection, free, owner, now, _is_running)

        return await self.database.write(append_decision, execution_id)

    async def read(self, execution_id: str, after: int = 0) -> Sequence[RecordedEvent]:
        """Return the log after a sequence number, with verified hashes. Raises ExecutionNotFound, CorruptLog."""

        def select_events(connection: Connection) -> Sequence[RecordedEvent]:
            recorded = queries.read_events(connection, execution_id, after)
            if not recorded and not queries.has_execution(connection, execution_id):
                raise ExecutionNotFound(execution_id)
            return recorded

        return await self.database.read(select_events)

    async def list_executions(self, execution_filter: ExecutionFilter) -> Sequence[ExecutionSummary]:
        """Return executions, newest first."""
        return await self.database.read(queries.list_executions, execution_filter)

    async def list_expired(self, now: datetime, limit: int) -> Sequence[str]:
        """Return paused executions whose question has expired."""
        return await self.database.read(queries.list_expired, now, limit)

    async def claim_notifications(self, now: datetime, until: datetime, limit: int) -> Sequence[str]:
        """Return paused executions whose question nobody was told about; until then no other caller gets them."""
        return await self.database.write(
            lambda connection: queries.claim_notifications(connection, now, until, limit),
        )

    async def settle_notification(self, execution_id: str, claimed_until: datetime) -> None:
        """Record that the question was sent, unless a newer one has come since it was claimed."""
        await self.database.write(
            lambda connection: queries.settle_notification(connection, execution_id, claimed_until), execution_id
        )

    async def put_webhook(self, webhook: ExecutionWebhook, now: datetime) -> None:
        """Insert or replace a webhook of an execution."""

        def put(connection: Connection) -> None:
            if queries.lock_execution(connection, webhook.execution_id) is None:
                raise ExecutionNotFound(webhook.execution_id)
            others = [
                other
                for other in queries.list_webhooks(connection, webhook.execution_id)
                if other.webhook_id != webhook.webhook_id
            ]
            if len(others) >= MAX_WEBHOOKS:
                raise TooManyWebhooks(webhook.execution_id, MAX_WEBHOOKS)
            queries.put_webhook(connection, webhook, now)

        await self.database.write(put, webhook.execution_id)

    async def list_webhooks(self, execution_id: str) -> Sequence[ExecutionWebhook]:
        """Return the webhooks of an execution by id."""

        def select_webhooks(connection: Connection) -> Sequence[ExecutionWebhook]:
            if not queries.has_execution(connection, execution_id):
                raise ExecutionNotFound(execution_id)
            return queries.list_webhooks(connection, execution_id)

        return await self.database.read(select_webhooks)

    async def delete_webhook(self, execution_id: str, webhook_id: str) -> bool:
        """Delete a webhook; return whether there was one."""

        def delete(connection: Connection) -> bool:
            if not queries.has_execution(connection, execution_id):
                raise ExecutionNotFound(execution_id)
            return queries.delete_webhook(connection, execution_id, webhook_id)

        return await self.database.write(delete, execution_id)

    async def claim_webhooks(self, now: datetime, until: datetime, limit: int) -> Sequence[ExecutionWebhook]:
        """Return webhooks whose messages are due; until then no other caller gets them."""
        return await self.database.write(lambda connection: queries.claim_webhooks(connection, now, until, limit))

    async def settle_webhook(
        self, webhook: ExecutionWebhook, sent_sequence: int, claimed_until: datetime | None, *, has_ended: bool
    ) -> None:
        """Record the last event that was sent, and that nothing else is due; delete the webhook after the last one."""

        def settle(connection: Connection) -> None:
            if has_ended and claimed_until is not None:
                queries.delete_settled_webhook(connection, webhook)
            else:
                queries.settle_webhook(connection, webhook, sent_sequence, claimed_until)

        await self.database.write(settle, webhook.execution_id)

    async def list_running(self, limit: int) -> Sequence[LeaseState]:
        """Return the leases of running executions, the free ones first, then those not renewed for longest."""
        return await self.database.read(schema.leases.list_states, _is_running, limit=limit)

    async def add_feedback(self, record: Feedback, now: datetime, key: IdempotencyKey | None) -> None:
        """Add a record, and label the audit of its step; a replay changes nothing."""
        await schema.requests.write_once(
            self.database, key, now, lambda connection: queries.add_feedback(connection, record, now)
        )

    async def list_feedback(self, after: int = 0) -> Sequence[tuple[int, Feedback]]:
        """Return feedback records after a number, oldest first."""
        return await self.database.read(queries.select_feedback_after, after)

    async def list_audits(self, after: int = 0) -> Sequence[AuditEntry]:
        """Return the entries of the audits after a number, in their order."""
        return await self.database.read(queries.select_audits_after, after)

    async def load_answer_key(self) -> bytes:
        """Return the secret of the answer tokens: created once, the same for all replicas."""
        table, new = schema.secrets, {"name": "answers", "value": secrets.token_bytes(_SECRET_BYTES)}

        def select_or_insert_key(connection: Connection) -> bytes:
            connection.execute(get_insert(connection.dialect.name)(table).values(new).on_conflict_do_nothing())
            key: bytes = connection.execute(select(table.c.value).where(table.c.name == new["name"])).scalar_one()
            return key

        return await self.database.write(select_or_insert_key)


def _apply(
    connection: Connection,
    execution_id: str,
    after: int,
    head: bytes,
    events: Sequence[tuple[Event, datetime]],
    state: ExecutionState,
) -> int:
    """Apply events to `state` and append them; return the last sequence number."""
    for event, time in events:
        apply(state, event, time)
    if events:
        queries.append_events(connection, execution_id, after, head, events, derive_status(state), state.expires_at)
    return after + len(events)
