"""The statements on keys, counts, owners and audit records, and the rows as values of the domain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from gateway.access.adapters.sql.schema import api_key, audit_record, call_count, owner
from gateway.access.domain.api_key import ApiKey
from gateway.access.domain.audit import AuditRecord
from gateway.access.domain.principal import Allowance
from libs.storage.engines import get_insert

# It runs for every audited call, so it is built once.
_INSERT_AUDIT_RECORD = insert(audit_record)

COUNTED_DAYS = 40
"""Days whose counts of calls are kept."""


def insert_key(connection: Connection, key: ApiKey) -> None:
    """Insert a key."""
    row = {**asdict(key), **asdict(key.allowance), "scopes": " ".join(key.scopes)}
    del row["allowance"]
    connection.execute(insert(api_key), row)


def select_key(connection: Connection, key_id: str) -> ApiKey | None:
    """Return the key of an id."""
    row = connection.execute(select(api_key).where(api_key.c.id == key_id)).one_or_none()
    return None if row is None else _to_key(row)


def select_keys(connection: Connection, tenant: str, after: str, limit: int) -> list[ApiKey]:
    """Return keys whose ids sort after `after`: of one tenant, or of all for the empty one."""
    query = select(api_key).where(api_key.c.id > after).order_by(api_key.c.id).limit(limit)
    query = query.where(api_key.c.tenant == tenant) if tenant else query
    return [_to_key(row) for row in connection.execute(query)]


def update_revoked(connection: Connection, key_id: str, at: datetime) -> None:
    """Set when a key was revoked, unless it is."""
    unrevoked = (api_key.c.id == key_id, api_key.c.revoked_at.is_(None))
    connection.execute(update(api_key).where(*unrevoked).values(revoked_at=at))


def update_last_uses(connection: Connection, last_uses: Mapping[str, datetime]) -> None:
    """Set when keys were last used; a later stored time stays."""
    is_later = or_(api_key.c.last_used_at.is_(None), api_key.c.last_used_at < bindparam("used_at"))
    statement = update(api_key).where(api_key.c.id == bindparam("key_id"), is_later)
    statement = statement.values(last_used_at=bindparam("used_at"))
    connection.execute(statement, [{"key_id": key_id, "used_at": at} for key_id, at in last_uses.items()])


def upsert_calls(connection: Connection, day: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Add calls of a day, delete old counts, and return the totals of the day."""
    for principal, calls in counts.items():
        row = get_insert(connection.dialect.name)(call_count).values(day=day, principal=principal, calls=calls)
        total = {"calls": call_count.c.calls + calls}
        connection.execute(row.on_conflict_do_update(index_elements=["day", "principal"], set_=total))
    oldest = (date.fromisoformat(day) - timedelta(days=COUNTED_DAYS)).isoformat()
    connection.execute(delete(call_count).where(call_count.c.day < oldest))
    rows = connection.execute(select(call_count.c.principal, call_count.c.calls).where(call_count.c.day == day))
    return {row.principal: row.calls for row in rows}


def select_owner(connection: Connection, kind: str, resource_id: str) -> str | None:
    """Return the tenant of a resource."""
    query = select(owner.c.tenant).where(owner.c.kind == kind, owner.c.resource_id == resource_id)
    return connection.execute(query).scalar_one_or_none()


def insert_owner(connection: Connection, kind: str, resource_id: str, tenant: str) -> None:
    """Insert the tenant of a resource that has no owner."""
    row = get_insert(connection.dialect.name)(owner).values(kind=kind, resource_id=resource_id, tenant=tenant)
    connection.execute(row.on_conflict_do_nothing())


def insert_audit_record(connection: Connection, record: AuditRecord) -> None:
    """Append an audit record."""
    row = {**asdict(record), "names": json.dumps(record.names, ensure_ascii=False)}
    connection.execute(_INSERT_AUDIT_RECORD, row)


def select_audit_records(
    connection: Connection, tenant: str, before: int | None, limit: int
) -> list[tuple[int, AuditRecord]]:
    """Return audit records with their numbers, newest first: of one tenant, or of all for the empty one."""
    query = select(audit_record).order_by(audit_record.c.number.desc()).limit(limit)
    query = query if before is None else query.where(audit_record.c.number < before)
    query = query.where(audit_record.c.tenant == tenant) if tenant else query
    return [_to_audit_record(row._asdict()) for row in connection.execute(query)]


def _to_key(row: Any) -> ApiKey:
    return ApiKey(
        id=row.id,
        label=row.label,
        tenant=row.tenant,
        scopes=tuple(row.scopes.split()),
        secret_hash=bytes(row.secret_hash),
        allowance=Allowance(row.calls_per_second, row.calls_per_day),
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )


def _to_audit_record(row: dict[str, Any]) -> tuple[int, AuditRecord]:
    number: int = row.pop("number")
    return number, AuditRecord(**{**row, "names": tuple(json.loads(row["names"]))})
