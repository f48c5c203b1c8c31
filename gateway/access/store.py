"""Keys, use, owners and deeds in the gateway's database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.engine import URL

from chassis.errors import Unavailable
from gateway.access import schema
from gateway.access.guard import Deed
from gateway.access.identity import Allowance
from gateway.access.keys import ApiKey
from libs.sql.engines import insert_of, shown
from libs.sql.migrations import Migrations
from libs.sql.transactions import Transactions

STATEMENT_SECONDS = 10.0
_MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), schema.VERSION_TABLE, 0x61636373)
_KEPT_DAYS = 40
"""Days whose counts of calls are kept."""


class AccessUnavailable(Unavailable):
    """The database of keys and deeds does not answer: nobody is let in by guessing."""

    reason = "ACCESS_UNAVAILABLE"


class AccessStore:
    """Runs short transactions one after the other on a thread of its own, because drivers block."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._transactions = Transactions(
            url,
            "hansei-gateway",
            _MIGRATIONS,
            self._translated,
            statement_seconds=STATEMENT_SECONDS,
        )

    async def open(self) -> None:
        """Open the database and bring it to the present schema. Raises AccessUnavailable."""
        await self._transactions.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._transactions.close()

    async def add(self, key: ApiKey) -> None:
        """Keep a new key."""
        await self._transactions.run(lambda connection: connection.execute(insert(schema.api_key), _row(key)))

    async def key(self, key_id: str) -> ApiKey | None:
        """A key by its id."""
        table = schema.api_key
        rows = await self._read(select(table).where(table.c.id == key_id))
        return _key(rows[0]) if rows else None

    async def keys(self, tenant: str, after: str, limit: int) -> list[ApiKey]:
        """Keys whose ids sort after `after`; of one tenant, or all for the empty one."""
        table = schema.api_key
        query = select(table).where(table.c.id > after).order_by(table.c.id).limit(limit)
        return [_key(row) for row in await self._read(query.where(table.c.tenant == tenant) if tenant else query)]

    async def revoke(self, key_id: str, at: datetime) -> None:
        """Revoke a key; one that is revoked stays as it is."""
        table = schema.api_key
        change = update(table).where(table.c.id == key_id, table.c.revoked_at.is_(None)).values(revoked_at=at)
        await self._transactions.run(lambda connection: connection.execute(change))

    async def used(self, last_used: Sequence[tuple[str, datetime]]) -> None:
        """When keys were last used."""
        table = schema.api_key

        def write(connection: Connection) -> None:
            for key_id, at in last_used:
                connection.execute(update(table).where(table.c.id == key_id).values(last_used_at=at))

        await self._transactions.run(write)

    async def count(self, day: str, calls: Mapping[str, int]) -> dict[str, int]:
        """Add calls of a day; what everybody has of it then, for those named."""
        table = schema.use

        def write(connection: Connection) -> dict[str, int]:
            for who, more in calls.items():
                added = _upsert(connection, table, {"day": day, "who": who, "calls": more})
                total = {"calls": table.c.calls + more}
                connection.execute(added.on_conflict_do_update(index_elements=["day", "who"], set_=total))
            oldest = datetime.fromordinal(datetime.fromisoformat(day).toordinal() - _KEPT_DAYS).date().isoformat()
            connection.execute(delete(table).where(table.c.day < oldest))
            rows = connection.execute(select(table.c.who, table.c.calls).where(table.c.day == day))
            return {row.who: row.calls for row in rows}

        return await self._transactions.run(write)

    async def owner(self, kind: str, identity: str) -> str | None:
        """The tenant that a thing belongs to; None for what no tenant created."""
        table = schema.owner
        rows = await self._read(select(table.c.tenant).where(table.c.kind == kind, table.c.identity == identity))
        return str(rows[0].tenant) if rows else None

    async def claim(self, kind: str, identity: str, tenant: str) -> None:
        """Write down whose a new thing is. What has an owner keeps it."""
        row = {"kind": kind, "identity": identity, "tenant": tenant}
        await self._transactions.run(
            lambda connection: connection.execute(_upsert(connection, schema.owner, row).on_conflict_do_nothing())
        )

    async def record(self, deed: Deed) -> None:
        """Add a deed."""
        row = {name: getattr(deed, name) for name in ("at", "who", "tenant", "method", "request_id", "code")}
        row["names"] = json.dumps(deed.names, ensure_ascii=False)
        await self._transactions.run(lambda connection: connection.execute(insert(schema.deed), row))

    async def deeds(self, tenant: str, before: int | None, limit: int) -> list[tuple[int, Deed]]:
        """Deeds with their numbers, newest first; of one tenant, or all for the empty one."""
        table = schema.deed
        query = select(table).order_by(table.c.number.desc()).limit(limit)
        query = query if before is None else query.where(table.c.number < before)
        rows = await self._read(query.where(table.c.tenant == tenant) if tenant else query)
        return [(row.number, _deed(row)) for row in rows]

    async def _read(self, query: Any) -> Sequence[Any]:
        return await self._transactions.run(lambda connection: connection.execute(query).all())

    def _translated(self, error: Exception) -> AccessUnavailable:
        why = f"does not answer ({type(error).__name__})"
        return AccessUnavailable(f"the database of the keys, {shown(self._url)}, {why}")


def _upsert(connection: Connection, table: Any, row: Mapping[str, Any]) -> Any:
    return insert_of(connection.dialect.name)(table).values(**row)


def _row(key: ApiKey) -> dict[str, Any]:
    same = ("id", "label", "tenant", "secret_hash", "created_at", "created_by", "expires_at", "revoked_at")
    return {
        **{name: getattr(key, name) for name in same},
        "scopes": " ".join(key.scopes),
        "calls_per_second": key.allowance.calls_per_second,
        "calls_per_day": key.allowance.calls_per_day,
    }


def _key(row: Any) -> ApiKey:
    return ApiKey(
        id=row.id,
        label=row.label,
        tenant=row.tenant,
        scopes=tuple(row.scopes.split()),
        secret_hash=bytes(row.secret_hash),
        allowance=Allowance(row.calls_per_second, row.calls_per_day),
        created_at=_utc(row.created_at),
        created_by=row.created_by,
        expires_at=row.expires_at and _utc(row.expires_at),
        revoked_at=row.revoked_at and _utc(row.revoked_at),
        last_used_at=row.last_used_at and _utc(row.last_used_at),
    )


def _deed(row: Any) -> Deed:
    names = tuple(json.loads(row.names))
    return Deed(_utc(row.at), row.who, row.tenant, row.method, names, row.request_id, row.code)


def _utc(moment: datetime) -> datetime:
    """SQLite forgets the zone; what we write is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
