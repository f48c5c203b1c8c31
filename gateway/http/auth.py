"""HTTP authentication: who calls is found out once a request, what they may by each method."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from starlette.datastructures import Headers
from starlette.requests import Request

from chassis.guard import AllowAll, Authorization
from gateway.access.domain.principal import SYSTEM, Principal
from gateway.access.rpc.guard import AccessGuard

CALLER = "hansei.caller"
"""Key of the scope: the identity of the caller."""

_OPEN = AllowAll()


class Authentication:
    """Asks every caller for a credential; without a guard nobody is asked."""

    def __init__(self, guard: AccessGuard | None) -> None:
        self._guard = guard

    async def caller(self, headers: Headers) -> Principal:
        """Return who calls. Raises Unauthenticated, also for a request with several credentials."""
        given = headers.getlist("authorization")
        if self._guard is None:
            return SYSTEM
        return await self._guard.authenticate(given[0] if len(given) == 1 else "")

    def permit(self, method: str, request: Request) -> AbstractAsyncContextManager[Authorization]:
        """Return the permit for a method of the contract. Raises as `chassis.guard.Guard.call` does."""
        return _OPEN.call(method, ()) if self._guard is None else self._guard.authorize(method, request.scope[CALLER])

    @property
    def is_required(self) -> bool:
        """Return True if callers need a credential."""
        return self._guard is not None
