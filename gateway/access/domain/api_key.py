"""API keys as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.access.domain.principal import Allowance, Principal


@dataclass(frozen=True, slots=True)
class ApiKeyRequest:
    """The properties of a key that a caller chooses."""

    label: str
    tenant: str
    scopes: Sequence[str]
    allowance: Allowance
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key. Times are aware UTC; None: never, not yet."""

    id: str
    label: str
    tenant: str
    scopes: Sequence[str]
    secret_hash: bytes
    allowance: Allowance
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        """Return the caller that the key authenticates."""
        name = f"{self.label}.{self.id[:8]}"
        return Principal(name, self.tenant, frozenset(self.scopes), self.allowance, self.expires_at, self.id)

    def is_valid(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
