"""HTTP authentication, once for each request, and authorization of the methods that it calls."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from starlette.datastructures import Headers
from starlette.requests import Request

from chassis.guard import AllowAll, Authorization
from gateway.access.domain.principal import SYSTEM, Principal
from gateway.access.rpc.guard import AccessGuard

CALLER = "hansei.caller"
"""Key of the principal in the scope of a request."""

_ALLOW_ALL = AllowAll()


class Authentication:
    """Authenticate callers; without a guard every caller is the system."""

    def __init__(self, guard: AccessGuard | None) -> None:
        self._guard = guard

    async def authenticate_caller(self, headers: Headers) -> Principal:
        """Return the principal of a request. Raises Unauthenticated, also for several credentials."""
        credentials = headers.getlist("authorization")
        if self._guard is None:
            return SYSTEM
        return await self._guard.authenticate(credentials[0] if len(credentials) == 1 else "")

    def authorize(self, method: str, request: Request) -> AbstractAsyncContextManager[Authorization]:
        """Return the authorization of a call of a method. Raises HanseiError."""
        if self._guard is None:
            return _ALLOW_ALL
        return self._guard.authorize(method, request.scope[CALLER])

    @property
    def is_required(self) -> bool:
        """Return whether callers need a credential."""
        return self._guard is not None
