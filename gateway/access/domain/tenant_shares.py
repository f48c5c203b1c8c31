"""Fair shares of a gateway: while several tenants call, each has a limited number of calls that run; the others wait.

A tenant that is alone has no limit. Calls of a tenant start in the order in which they came. The limit adapts to what
is scarce: a call that may start resumes at once if calls wait for models, and late if they wait for the processor. Then
more running calls only make everybody's next step wait longer, so the limit falls, down to one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from chassis.errors import ResourceExhausted
from chassis.server.admission import OVERLOADED

ACTIVE_SECONDS = 60.0
"""A tenant counts as active for this time after its last call."""
MAX_WAITING = 512
"""Calls of a tenant that may wait; more of them are refused."""
LONGEST_LAG_SECONDS = 0.002
"""The limit falls if a call that may start resumes later than this, and rises otherwise."""
PAUSE_SECONDS = 0.001
"""Beside other tenants a call starts this long after its tenant's last call came, started or ended.

gRPC accepts one call at a time, in the order of arrival, between the steps of the calls that run. Without the pause a
busy process accepts a call only after it has finished one, and the calls of all tenants wait in one queue before it.
"""
LONGEST_PAUSE_SECONDS = 0.05
"""Calls of a tenant that come one after the other prolong its pause up to this time."""
RETRY_SECONDS = 1.0

_has_slot: ContextVar[bool] = ContextVar("has_slot", default=False)


@dataclass(slots=True)
class _Tenant:
    running: int = 0
    waiting: deque[asyncio.Future[float]] = field(default_factory=deque)
    last_call: float = 0.0
    paused_since: float = 0.0
    paused_until: float = 0.0
    timer: asyncio.TimerHandle | None = None


class TenantShares:
    """Limits the calls that run for each tenant to at most `limit` while others are active; 0 is no limit.

    `seconds` is a monotonic clock. All methods run on one event loop.
    """

    def __init__(self, limit: int, seconds: Callable[[], float]) -> None:
        self._limit = limit
        self._adapted_limit = float(limit)
        self._seconds = seconds
        self._tenants: dict[str, _Tenant] = {}

    @asynccontextmanager
    async def enter(self, name: str) -> AsyncIterator[None]:
        """Hold a slot of a tenant; a call within a call needs none. Raises ResourceExhausted."""
        if not self._limit or _has_slot.get():
            yield
            return
        tenant = self._tenants.setdefault(name, _Tenant())
        tenant.last_call = self._seconds()
        await self._wait_for_slot(tenant)
        _has_slot.set(True)
        try:
            yield
        finally:
            _has_slot.set(False)  # not `reset`: a stream may be closed in another context
            tenant.running -= 1
            self._pause(tenant)
            self._start_waiting(tenant)

    async def _wait_for_slot(self, tenant: _Tenant) -> None:
        """Count the call as running, now or as soon as a slot is free."""
        if not tenant.waiting and self._may_start(tenant):
            self._start(tenant)
            return
        if len(tenant.waiting) >= MAX_WAITING:
            raise ResourceExhausted(
                f"{len(tenant.waiting)} calls of this tenant wait, {tenant.running} run; try again later",
                reason=OVERLOADED,
                retry_after=RETRY_SECONDS,
            )
        slot = asyncio.get_running_loop().create_future()
        tenant.waiting.append(slot)
        now = self._seconds()
        tenant.paused_until = min(now + PAUSE_SECONDS, tenant.paused_since + LONGEST_PAUSE_SECONDS)
        self._start_waiting(tenant)
        try:
            granted_at = await slot
            self._adapt_limit(self._seconds() - granted_at)
        except asyncio.CancelledError:
            if slot in tenant.waiting:
                tenant.waiting.remove(slot)
            elif not slot.cancelled():
                tenant.running -= 1  # the slot came together with the cancellation
            self._start_waiting(tenant)
            raise

    def _start_waiting(self, tenant: _Tenant) -> None:
        """Start the waiting calls that may start; come back after the pause if some of them must wait for it only."""
        while tenant.waiting and self._may_start(tenant):
            slot = tenant.waiting.popleft()
            if not slot.done():
                self._start(tenant)
                slot.set_result(self._seconds())
        if tenant.waiting and tenant.timer is None and self._has_free_slot(tenant):
            tenant.timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._end_pause, tenant)

    def _end_pause(self, tenant: _Tenant) -> None:
        tenant.timer = None
        self._start_waiting(tenant)

    def _start(self, tenant: _Tenant) -> None:
        tenant.running += 1
        self._pause(tenant)

    def _pause(self, tenant: _Tenant) -> None:
        tenant.paused_since = self._seconds()
        tenant.paused_until = tenant.paused_since + PAUSE_SECONDS

    def _adapt_limit(self, lag: float) -> None:
        """Lower or raise the limit after a call resumed `lag` seconds after it was allowed to start."""
        changed = self._adapted_limit * 0.9 if lag > LONGEST_LAG_SECONDS else self._adapted_limit + 0.5
        self._adapted_limit = min(max(1.0, changed), float(self._limit))

    def _may_start(self, tenant: _Tenant) -> bool:
        is_free = self._has_free_slot(tenant) and self._seconds() >= tenant.paused_until
        return is_free or not self._are_others_active(tenant)

    def _has_free_slot(self, tenant: _Tenant) -> bool:
        return tenant.running < int(self._adapted_limit)

    def _are_others_active(self, tenant: _Tenant) -> bool:
        since = self._seconds() - ACTIVE_SECONDS
        for name, other in list(self._tenants.items()):
            if other is tenant:
                continue
            if other.last_call >= since or other.running or other.waiting:
                return True
            del self._tenants[name]
        return False
