"""The stores that access control needs. All methods raise StoreUnavailable."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from gateway.access.domain.api_key import ApiKey
from gateway.access.domain.audit import AuditRecord


class ApiKeyStore(Protocol):
    """Stores API keys."""

    async def add_key(self, key: ApiKey) -> None:
        """Store a new key."""

    async def find_key(self, key_id: str) -> ApiKey | None:
        """Return the key of an id."""

    async def list_keys(self, tenant: str, after: str, limit: int) -> list[ApiKey]:
        """Return keys whose ids sort after `after`: of one tenant, or of all for the empty one."""

    async def revoke_key(self, key_id: str, at: datetime) -> None:
        """Revoke a key; a revoked key keeps its time."""

    async def save_last_uses(self, last_uses: Mapping[str, datetime]) -> None:
        """Store when keys were last used; a later stored time stays."""


class CallCountStore(Protocol):
    """Stores calls by credential and day."""

    async def add_calls(self, day: str, counts: Mapping[str, int]) -> dict[str, int]:
        """Add the calls of credentials on a day, and return the totals of all credentials that made calls."""


class OwnerStore(Protocol):
    """Stores the tenants of resources whose ids a service assigned."""

    async def find_owner(self, kind: str, resource_id: str) -> str | None:
        """Return the tenant of a resource; None if no tenant created it."""

    async def add_owner(self, kind: str, resource_id: str, tenant: str) -> None:
        """Store the tenant of a new resource; an owned resource keeps its owner."""


class AuditLog(Protocol):
    """Stores audit records."""

    async def add_record(self, record: AuditRecord) -> None:
        """Append a record."""

    async def list_records(self, tenant: str, before: int | None, limit: int) -> list[tuple[int, AuditRecord]]:
        """Return records with their numbers, newest first: of one tenant, or of all for the empty one."""
