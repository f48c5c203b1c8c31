"""API keys: creation, which returns the text once, revocation and authentication by stored hashes.

A key is `hansei_<id>_<secret>`: the id names its row, the secret is 256 random bits, so one SHA-256 is as good as any
slow hash. A key is read from the database again after `cache_seconds`, or at once after a change at this gateway.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from cachetools import TLRUCache

from chassis.errors import HanseiError
from gateway.access.domain.api_key import ApiKey, ApiKeyRequest
from gateway.access.domain.errors import CredentialInvalid, KeyNotFound
from gateway.access.domain.principal import Principal
from gateway.access.usecases.ports import ApiKeyStore

PREFIX = "hansei_"
MAX_CACHED_KEYS = 10_000
_KEY = re.compile(r"hansei_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_UNKNOWN_KEY_HASH = bytes(32)


class ApiKeys:
    """The API keys of this gateway. `seconds` is a monotonic clock, `now` returns the present time in UTC."""

    def __init__(
        self, store: ApiKeyStore, *, seconds: Callable[[], float], now: Callable[[], datetime], cache_seconds: float
    ) -> None:
        self._store = store
        self._seconds = seconds
        self._now = now
        # Keys with the time before they were read: a slow read does not lengthen the life of a revoked key.
        self._cache: TLRUCache[str, tuple[ApiKey, float]] = TLRUCache(
            MAX_CACHED_KEYS, ttu=lambda key_id, entry, now: entry[1] + cache_seconds, timer=seconds
        )
        self._last_uses: dict[str, datetime] = {}

    async def create_key(self, request: ApiKeyRequest, created_by: str) -> tuple[ApiKey, str]:
        """Create a key. Return it and its text, which is stored nowhere."""
        secret = secrets.token_urlsafe(32)
        key = ApiKey(
            id=secrets.token_hex(8),
            label=request.label,
            tenant=request.tenant,
            scopes=tuple(sorted(set(request.scopes))),
            secret_hash=_hash_secret(secret),
            allowance=request.allowance,
            created_at=self._now(),
            created_by=created_by,
            expires_at=request.expires_at,
        )
        await self._store.add_key(key)
        return key, f"{PREFIX}{key.id}_{secret}"

    async def revoke_key(self, key_id: str, tenant: str) -> ApiKey:
        """Revoke a key and return it; this gateway refuses it from now on. Raises KeyNotFound."""
        key = await self._store.find_key(key_id)
        if key is None or (tenant and key.tenant != tenant):
            raise KeyNotFound(key_id)
        revoked_at = key.revoked_at or self._now()
        await self._store.revoke_key(key_id, revoked_at)
        revoked = replace(key, revoked_at=revoked_at)
        self._cache[key_id] = revoked, self._seconds()
        return revoked

    async def authenticate(self, text: str) -> Principal:
        """Return the principal of a key. Raises CredentialInvalid."""
        match = _KEY.fullmatch(text)
        if match is None:
            raise CredentialInvalid
        key = await self._find_key(match[1])
        matches = hmac.compare_digest(_hash_secret(match[2]), _UNKNOWN_KEY_HASH if key is None else key.secret_hash)
        if key is None or not matches or not key.is_valid(self._now()):
            raise CredentialInvalid
        self._last_uses[key.id] = self._now()
        return key.principal

    async def is_valid(self, key_id: str) -> bool:
        """Return whether a key is neither revoked nor expired, as the database has it."""
        key = await self._find_key(key_id)
        return key is not None and key.is_valid(self._now())

    async def save_last_uses(self) -> None:
        """Store when keys were last used. Raises StoreUnavailable; then they are stored the next time."""
        last_uses, self._last_uses = self._last_uses, {}
        if last_uses:
            try:
                await self._store.save_last_uses(last_uses)
            except HanseiError:
                self._last_uses = last_uses | self._last_uses
                raise

    async def _find_key(self, key_id: str) -> ApiKey | None:
        cached = self._cache.get(key_id)
        if cached is not None:
            return cached[0]
        read_at, key = self._seconds(), await self._store.find_key(key_id)
        if key is not None and key_id not in self._cache:  # it may have been revoked meanwhile
            self._cache[key_id] = key, read_at
        return key


def _hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
