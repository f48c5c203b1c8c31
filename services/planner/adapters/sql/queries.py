"""The statements of the planner's store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, or_, select, update

from libs.storage.engines import get_insert
from services.planner.adapters.sql import schema
from services.planner.adapters.sql.event_rows import FIRST_HASH, decode_events, encode_events
from services.planner.domain.answers import judge_answer
from services.planner.domain.events import (
    Event,
    ExecutionFinished,
    InterventionAnswered,
    InterventionRequested,
    RecordedEvent,
    StepFinished,
)
from services.planner.domain.webhooks import ExecutionWebhook, changes_state
from services.planner.usecases.ports import (
    AuditEntry,
    AuditKind,
    ExecutionFilter,
    ExecutionStatus,
    ExecutionSummary,
    Feedback,
)

_rows, _log, _webhooks = schema.executions, schema.events, schema.webhooks
# Built once: every step of every execution is written with these.
_LOCKED_ROW = select(_rows).where(_rows.c.execution_id == bindparam("id")).with_for_update()
_NEW_EVENTS = insert(_log)
_ADVANCED_ROW = (
    update(_rows)
    .where(_rows.c.execution_id == bindparam("id"))
    .values({name: bindparam(name) for name in ("sequence", "head_hash", "status", "updated_at", "wake_at")})
)
_ADVANCED_AND_RELEASED_ROW = _ADVANCED_ROW.values(schema.leases.free_values)
_NOTIFIABLE_ROW = update(_rows).where(_rows.c.execution_id == bindparam("id")).values(notify_at=bindparam("notify_at"))
_NOTIFIABLE_WEBHOOKS = (
    update(_webhooks)
    .where(_webhooks.c.execution_id == bindparam("id"))
    .values(notify_at=bindparam("now"), changed_at=bindparam("now"))
)
_ANSWER_KEY = schema.secrets.c.name == "answers"


def lock_execution(connection: Connection, execution_id: str) -> Any:
    """Return the row of an execution, locked until the transaction ends; None if there is none."""
    return connection.execute(_LOCKED_ROW, {"id": execution_id}).one_or_none()


def has_execution(connection: Connection, execution_id: str) -> bool:
    """Return True if there is an execution with this id."""
    found = select(_rows.c.execution_id).where(_rows.c.execution_id == execution_id)
    return connection.execute(found).first() is not None


def read_events(connection: Connection, execution_id: str, after: int) -> list[RecordedEvent]:
    """Return the log after a sequence number, its chain of hashes checked. Raises CorruptLog."""
    in_log = _log.c.execution_id == execution_id
    before = select(_log.c.hash).where(in_log, _log.c.sequence == after)
    previous = FIRST_HASH if after == 0 else connection.execute(before).scalar_one_or_none() or FIRST_HASH
    statement = select(_log).where(in_log, _log.c.sequence > after).order_by(_log.c.sequence)
    return decode_events(execution_id, connection.execute(statement), previous, after)


def append_events(
    connection: Connection,
    execution_id: str,
    after: int,
    head_hash: bytes,
    events: Sequence[tuple[Event, datetime]],
    status: ExecutionStatus,
    wake_at: datetime | None,
) -> None:
    """Append events to a log and store the new state; release the lease unless the status is RUNNING."""
    rows = encode_events(execution_id, events, after, head_hash)
    connection.execute(_NEW_EVENTS, rows)
    _add_audits(connection, execution_id, events)
    values = {"id": execution_id, "sequence": after + len(rows), "head_hash": rows[-1]["hash"]}
    values |= {"status": status.value, "updated_at": events[-1][1], "wake_at": wake_at}
    connection.execute(_ADVANCED_ROW if status is ExecutionStatus.RUNNING else _ADVANCED_AND_RELEASED_ROW, values)
    if status is ExecutionStatus.PAUSED and any(isinstance(event, InterventionRequested) for event, _ in events):
        connection.execute(_NOTIFIABLE_ROW, {"id": execution_id, "notify_at": events[-1][1]})
    if any(changes_state(event) for event, _ in events):
        connection.execute(_NOTIFIABLE_WEBHOOKS, {"id": execution_id, "now": events[-1][1]})


def list_executions(connection: Connection, execution_filter: ExecutionFilter) -> Sequence[ExecutionSummary]:
    """Return executions, newest first."""
    statement = (
        select(_rows).order_by(_rows.c.started_at.desc(), _rows.c.execution_id.desc()).limit(execution_filter.limit)
    )
    if execution_filter.status is not None:
        statement = statement.where(_rows.c.status == execution_filter.status.value)
    if execution_filter.prefix:
        # Not LIKE, which ignores case in SQLite.
        # There is intentionally no index for it: in the order of time a page is full after a few rows. A short list
        # scans the index of time once: for 100,000 executions 25 ms in PostgreSQL, 95 ms in SQLite. An index
        # would need an expression in each SQL dialect, or a column that replicas of a former version leave empty.
        statement = statement.where(
            func.substr(_rows.c.execution_id, 1, len(execution_filter.prefix)) == execution_filter.prefix
        )
    if execution_filter.query_contains:
        statement = statement.where(_rows.c.query.contains(execution_filter.query_contains, autoescape=True))
    if execution_filter.started_after is not None:
        statement = statement.where(_rows.c.started_at >= execution_filter.started_after)
    if execution_filter.before is not None:
        time, execution_id = execution_filter.before
        earlier = and_(_rows.c.started_at == time, _rows.c.execution_id < execution_id)
        statement = statement.where(or_(_rows.c.started_at < time, earlier))
    return [
        ExecutionSummary(
            row.execution_id, row.query, ExecutionStatus(row.status), row.started_at, row.updated_at, row.sequence
        )
        for row in connection.execute(statement)
    ]


def list_expired(connection: Connection, now: datetime, limit: int) -> Sequence[str]:
    """Return paused executions whose question has expired."""
    statement = select(_rows.c.execution_id).where(_rows.c.wake_at <= now).order_by(_rows.c.wake_at)
    return connection.execute(statement.limit(limit)).scalars().all()


def claim_notifications(connection: Connection, now: datetime, until: datetime, limit: int) -> Sequence[str]:
    """Return paused executions whose question is to be sent, and postpone the next attempt until then."""
    is_due = and_(_rows.c.notify_at <= now, _rows.c.status == ExecutionStatus.PAUSED.value)
    statement = select(_rows.c.execution_id).where(is_due).order_by(_rows.c.notify_at).limit(limit)
    due = connection.execute(statement.with_for_update(skip_locked=True)).scalars().all()
    if due:
        connection.execute(update(_rows).where(_rows.c.execution_id.in_(due)).values(notify_at=until))
    return due


def settle_notification(connection: Connection, execution_id: str, claimed_until: datetime) -> None:
    """Record that a question was sent, unless a newer one has come since it was claimed."""
    claimed = and_(_rows.c.execution_id == execution_id, _rows.c.notify_at == claimed_until)
    connection.execute(update(_rows).where(claimed).values(notify_at=None))


def put_webhook(connection: Connection, webhook: ExecutionWebhook, now: datetime) -> None:
    """Insert a webhook whose messages are due, or replace the one with the same id."""
    keys = {"execution_id": webhook.execution_id, "webhook_id": webhook.webhook_id}
    values = {
        "url": webhook.url,
        "token": webhook.token,
        "authorization": webhook.authorization,
        "sent_sequence": webhook.sent_sequence,
        "changed_at": now,
        "notify_at": now,
    }
    statement = get_insert(connection.dialect.name)(_webhooks).values(**keys, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=list(keys), set_=values))


def list_webhooks(connection: Connection, execution_id: str) -> Sequence[ExecutionWebhook]:
    """Return the webhooks of an execution by id."""
    of_execution = select(_webhooks).where(_webhooks.c.execution_id == execution_id)
    return [_read_webhook(row) for row in connection.execute(of_execution.order_by(_webhooks.c.webhook_id))]


def delete_webhook(connection: Connection, execution_id: str, webhook_id: str) -> bool:
    """Delete a webhook; return whether there was one."""
    statement = delete(_webhooks).where(_webhooks.c.execution_id == execution_id, _webhooks.c.webhook_id == webhook_id)
    return connection.execute(statement).rowcount > 0


def claim_webhooks(connection: Connection, now: datetime, until: datetime, limit: int) -> Sequence[ExecutionWebhook]:
    """Return webhooks whose messages are due, and postpone the next attempt until then."""
    statement = select(_webhooks).where(_webhooks.c.notify_at <= now).order_by(_webhooks.c.notify_at).limit(limit)
    due = [_read_webhook(row) for row in connection.execute(statement.with_for_update(skip_locked=True))]
    for webhook in due:
        connection.execute(update(_webhooks).where(_is_unchanged(webhook)).values(notify_at=until))
    return due


def settle_webhook(
    connection: Connection, webhook: ExecutionWebhook, sent_sequence: int, claimed_until: datetime | None
) -> None:
    """Record the last event that was sent; `claimed_until`: nothing else is due, unless there is a newer change.

    A webhook that was replaced or deleted since it was claimed stays as it is.
    """
    unchanged = _is_unchanged(webhook)
    if claimed_until is not None:
        done = and_(unchanged, _webhooks.c.notify_at == claimed_until)
        connection.execute(update(_webhooks).where(done).values(notify_at=None))
    connection.execute(update(_webhooks).where(unchanged).values(sent_sequence=sent_sequence))


def delete_settled_webhook(connection: Connection, webhook: ExecutionWebhook) -> None:
    """Delete a webhook whose execution has ended, unless it was replaced since it was claimed."""
    connection.execute(delete(_webhooks).where(_is_unchanged(webhook)))


def _is_unchanged(webhook: ExecutionWebhook) -> ColumnElement[bool]:
    return and_(
        _webhooks.c.execution_id == webhook.execution_id,
        _webhooks.c.webhook_id == webhook.webhook_id,
        _webhooks.c.url == webhook.url,
        _webhooks.c.sent_sequence == webhook.sent_sequence,
    )


def _read_webhook(row: Any) -> ExecutionWebhook:
    return ExecutionWebhook(
        row.execution_id, row.webhook_id, row.url, row.token, row.authorization, row.sent_sequence, row.changed_at
    )


def add_feedback(connection: Connection, record: Feedback, now: datetime) -> None:
    """Add a record, which is also a label of its step."""
    _lock_numbering(connection)
    connection.execute(insert(schema.feedback).values(**asdict(record), created_at=now))
    if record.execution_id:
        entry = AuditEntry(0, AuditKind.LABELLED, record.execution_id, step_id=record.step_id, wrong=not record.correct)
        _insert_audits(connection, record.execution_id, [entry])


def select_feedback_after(connection: Connection, number: int) -> Sequence[tuple[int, Feedback]]:
    """Return feedback records after a number, oldest first."""
    table = schema.feedback
    rows = connection.execute(select(table).where(table.c.number > number).order_by(table.c.number))
    return [
        (row.number, Feedback(row.confidence, row.correct, row.audit_probability, row.execution_id, row.step_id))
        for row in rows
    ]


def select_audits_after(connection: Connection, number: int) -> Sequence[AuditEntry]:
    """Return the entries of the audits after a number, in their order."""
    table = schema.audits
    rows = connection.execute(select(table).where(table.c.number > number).order_by(table.c.number)).mappings()
    return [AuditEntry(**row | {"kind": AuditKind(row["kind"])}) for row in map(dict, rows)]


def _add_audits(connection: Connection, execution_id: str, events: Sequence[tuple[Event, datetime]]) -> None:
    """Insert the entries of the audits that follow from events of an execution, in the order of the decisions."""
    entries = [_build_audit(execution_id, event) for event, _ in events]
    found = [entry for entry in entries if entry is not None]
    if found:
        _lock_numbering(connection)
        _insert_audits(connection, execution_id, found)


def _build_audit(execution_id: str, event: Event) -> AuditEntry | None:
    if isinstance(event, StepFinished):
        if event.audit_floor > 0 and (event.level.requires_answer or event.audited):
            return AuditEntry(
                0,
                AuditKind.SELECTED,
                execution_id,
                step_id=event.step_id,
                tool=event.tool,
                score=event.confidence.score,
                probability=event.audit_probability,
                rate=event.audit_floor,
            )
    elif isinstance(event, InterventionAnswered):
        wrong = judge_answer(event)
        if event.step_id is not None and wrong is not None:
            return AuditEntry(0, AuditKind.LABELLED, execution_id, step_id=event.step_id, wrong=wrong)
    elif isinstance(event, ExecutionFinished):
        return AuditEntry(0, AuditKind.ENDED, execution_id)
    return None


def _insert_audits(connection: Connection, execution_id: str, entries: Sequence[AuditEntry]) -> None:
    """Insert entries. Labels and ends of executions without a selected step are left out."""
    table = schema.audits
    if all(entry.kind is not AuditKind.SELECTED for entry in entries):
        selected = select(table.c.number).where(table.c.execution_id == execution_id).limit(1)
        if connection.execute(selected).first() is None:
            return
    rows = [asdict(entry) | {"kind": entry.kind.value} for entry in entries]
    for row in rows:
        del row["number"]
    connection.execute(insert(table), rows)


def _lock_numbering(connection: Connection) -> None:
    """Lock the numbering of rows until this transaction ends, so that readers after a number miss no lower one."""
    connection.execute(select(schema.secrets.c.name).where(_ANSWER_KEY).with_for_update())
