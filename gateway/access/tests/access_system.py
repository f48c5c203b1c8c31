"""Access control over a real database and with clocks that tests set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gateway.access.adapters.sql.schema import MIGRATIONS
from gateway.access.bootstrap import Access, build_access
from gateway.access.domain.api_key import ApiKeyRequest
from gateway.access.domain.principal import Allowance, Principal
from gateway.access.rpc.guard import AccessGuard
from gateway.access.settings import AccessSettings
from gateway.contract import load_contract
from libs.storage.database import Database

BOOKS = "/hansei.playbook.v1.PlaybookService/"
PLANS = "/hansei.planner.v1.PlannerService/"
SEARCH = "/hansei.search.v1.SearchService/Search"
ACME = Principal("ann", "acme", frozenset({"admin"}))
EVERYTHING = Principal("root", "", frozenset({"admin"}))


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    seconds: float = 1000.0

    def move(self, seconds: float) -> None:
        self.seconds += seconds

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 5, 1, 12, tzinfo=UTC) + timedelta(seconds=self.seconds)


@dataclass
class AccessSystem:
    """Access control, its guard and its clock."""

    access: Access
    clock: Clock

    @property
    def guard(self) -> AccessGuard:
        assert self.access.guard is not None
        return self.access.guard

    async def key(self, tenant: str, *scopes: str, seconds: float | None = None, **allowance: Any) -> str:
        """The credential of a new key; with `seconds` it ends after them."""
        ends = None if seconds is None else self.clock.now() + timedelta(seconds=seconds)
        request = ApiKeyRequest("test", tenant, scopes, Allowance(**allowance), ends)
        return "Bearer " + (await self.access.keys.create_key(request, "test"))[1]


@asynccontextmanager
async def open_access(location: Path | str, **settings: Any) -> AsyncIterator[AccessSystem]:
    """Yield access control that asks for credentials. `location` is a folder for its database, or where that is.

    Without shares of tenants, because their pauses would not end while the clock stands.
    """
    clock = Clock()
    url = str(location / "gateway.db") if isinstance(location, Path) else location
    database = Database(url, MIGRATIONS, service="gateway", store="access store")
    made = build_access(
        AccessSettings(**{"auth": "on", "auth_tenant_calls": 0, **settings}),
        database,
        load_contract(),
        {},
        seconds=clock.monotonic,
        now=clock.now,
    )
    await database.open()
    try:
        yield AccessSystem(made, clock)
    finally:
        await made.synchronization.try_once()
        await database.close()


async def call_guarded(system: AccessSystem, method: str, who: Principal, request: Any) -> Any:
    """Return the request as the handler would get it."""
    async with system.guard.authorize(method, who) as call:
        return await call.check_request(request)
