"""API keys, counts of calls, owners and audit records in the gateway's database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from gateway.access.adapters.sql import queries
from gateway.access.domain.api_key import ApiKey
from gateway.access.domain.audit import AuditRecord
from libs.storage.database import Database

_KEY = "access"
"""The key of all writes: two gateways that share a database lock rows of the stores in one order."""


class AccessRepository:
    """Implements `ApiKeyStore`, `CallCountStore`, `OwnerStore` and `AuditLog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_key(self, key: ApiKey) -> None:
        """Store a new key."""
        await self._database.write(lambda connection: queries.insert_key(connection, key), _KEY)

    async def find_key(self, key_id: str) -> ApiKey | None:
        """Return the key of an id."""
        return await self._database.read(queries.select_key, key_id)

    async def list_keys(self, tenant: str, after: str, limit: int) -> list[ApiKey]:
        """Return keys whose ids sort after `after`: of one tenant, or of all for the empty one."""
        return await self._database.read(queries.select_keys, tenant, after, limit)

    async def revoke_key(self, key_id: str, at: datetime) -> None:
        """Revoke a key; a revoked key keeps its time."""
        await self._database.write(lambda connection: queries.update_revoked(connection, key_id, at), _KEY)

    async def save_last_uses(self, last_uses: Mapping[str, datetime]) -> None:
        """Store when keys were last used; a later stored time stays."""
        await self._database.write(lambda connection: queries.update_last_uses(connection, last_uses), _KEY)

    async def add_calls(self, day: str, counts: Mapping[str, int]) -> dict[str, int]:
        """Add the calls of credentials on a day, and return the totals of all credentials that made calls."""
        return await self._database.write(lambda connection: queries.upsert_calls(connection, day, counts), _KEY)

    async def find_owner(self, kind: str, resource_id: str) -> str | None:
        """Return the tenant of a resource; None if no tenant created it."""
        return await self._database.read(queries.select_owner, kind, resource_id)

    async def add_owner(self, kind: str, resource_id: str, tenant: str) -> None:
        """Store the tenant of a new resource; an owned resource keeps its owner."""
        await self._database.write(lambda connection: queries.insert_owner(connection, kind, resource_id, tenant), _KEY)

    async def add_record(self, record: AuditRecord) -> None:
        """Append an audit record."""
        await self._database.write(lambda connection: queries.insert_audit_record(connection, record), _KEY)

    async def list_records(self, tenant: str, before: int | None, limit: int) -> list[tuple[int, AuditRecord]]:
        """Return audit records with their numbers, newest first."""
        return await self._database.read(queries.select_audit_records, tenant, before, limit)
