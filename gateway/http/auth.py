"""HTTP authentication, once for each request, and authorization of the methods that it calls."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from chassis.errors import PermissionDenied, shorten
from chassis.guard import AllowAll, Authorization
from chassis.tls import is_loopback
from gateway.access.domain.principal import SYSTEM, Principal
from gateway.access.rpc.guard import AccessGuard

CALLER = "hansei.caller"
"""Key of the principal in the scope of a request."""

_ALLOW_ALL = AllowAll()


class Authentication:
    """Authenticate callers; without a guard every caller is the system."""

    def __init__(self, guard: AccessGuard | None, *, is_local: bool = False) -> None:
        """With `is_local`, callers without a credential must name this machine as the host."""
        self._guard = guard
        self._is_local = is_local

    def refuse_other_pages(self, headers: Headers) -> None:
        """Raise PermissionDenied for a call that a page of another origin may have made in a browser.

        Credentials protect against such pages, which do not have them. Without credentials, the browser states the
        origin of the page, and a name that somebody else points at this machine is not a name of it (DNS rebinding).
        """
        if self._guard is not None:
            return
        host, origin = headers.get("host", ""), headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise PermissionDenied(
                f"the origin {shorten(origin)!r} is not that of this gateway, {shorten(host)!r}: pages of other "
                "origins need a gateway with credentials",
                reason="ORIGIN_NOT_ALLOWED",
            )
        if self._is_local and not is_loopback(host):
            raise PermissionDenied(
                f"the host {shorten(host)!r} is not this machine, such as 127.0.0.1 or localhost: set HANSEI_AUTH=off "
                "to serve other names without credentials",
                reason="HOST_NOT_ALLOWED",
            )

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
