"""Authorization of calls at the edge, and the credential that a process uses for calls to itself.

A service that is exposed to clients has a `Guard`; without one everybody may call everything. The guard decides; the
chassis only asks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any, Protocol

AUTHORIZATION = "authorization"

Metadata = Iterable[tuple[str, str | bytes]]


@cache
def own_credential() -> str:
    """Return the credential of calls of this process to itself; it is new in every process, and stored nowhere."""
    import secrets  # it loads slowly, and clients have no calls to themselves

    return f"Bearer {secrets.token_urlsafe(32)}"


class Authorization(Protocol):
    """The rights of a caller within one call."""

    async def check_request(self, message: Any) -> Any:
        """Return a request as the handler gets it; bytes where the handler takes bytes. Raises HanseiError."""

    async def check_response(self, message: Any) -> Any:
        """Return a response as the caller gets it. Raises HanseiError."""


class Guard(Protocol):
    """Authorizes calls."""

    def call(self, method: str, metadata: Metadata) -> AbstractAsyncContextManager[Authorization]:
        """Return the authorization of one call of the method `/package.Service/Method`.

        Raises HanseiError: on entry if the caller may not call it, on exit if its credential was revoked meanwhile.
        """


class AllowAll:
    """A guard, and its authorization, that allows everybody everything."""

    def call(self, method: str, metadata: Metadata) -> AllowAll:
        """Return the authorization."""
        return self

    async def __aenter__(self) -> AllowAll:
        return self

    async def __aexit__(self, *failure: object) -> None:
        pass

    async def check_request(self, message: Any) -> Any:
        """Return the message."""
        return message

    async def check_response(self, message: Any) -> Any:
        """Return the message."""
        return message


def read_credential(metadata: Metadata) -> str:
    """Return the `authorization` of a call; empty if the call has none, or more than one."""
    credentials = [value for key, value in metadata if key == AUTHORIZATION]
    return credentials[0] if len(credentials) == 1 and isinstance(credentials[0], str) else ""
