"""Who may call: the place at the edge where a service asks, and the credential by which a process knows itself.

A service that faces the outside brings a `Guard`; without one everybody may call everything. What a caller may do is
the guard's business, not the chassis'.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

AUTHORIZATION = "authorization"
OWN_CREDENTIAL = f"Bearer {secrets.token_urlsafe(32)}"
"""What calls of this process to itself bear; new in every process, never written anywhere."""


Metadata = Iterable[tuple[str, str | bytes]]


class Permit(Protocol):
    """What a caller may do within one call."""

    async def request(self, message: Any) -> Any:
        """A request as it goes to the handler; bytes where the handler takes bytes. Raises HanseiError."""
        ...

    async def response(self, message: Any) -> Any:
        """A response as it goes to the caller. Raises HanseiError."""
        ...


class Guard(Protocol):
    """Lets calls in."""

    def call(self, method: str, metadata: Metadata) -> AbstractAsyncContextManager[Permit]:
        """Return the permit for a call of the method `/package.Service/Method`; it lasts as long as the call.

        Raises HanseiError: on entry if the caller may not call it, on exit if the permit was withdrawn meanwhile.
        """
        ...


class Open:
    """Lets everybody do everything: a guard whose permit is itself."""

    def call(self, method: str, metadata: Metadata) -> Open:
        """Return the permit."""
        return self

    async def __aenter__(self) -> Open:
        return self

    async def __aexit__(self, *failure: object) -> None:
        pass

    async def request(self, message: Any) -> Any:
        """Return the message."""
        return message

    async def response(self, message: Any) -> Any:
        """Return the message."""
        return message


def credential_of(metadata: Metadata) -> str:
    """The `authorization` a call bears; empty if it bears none, or more than one."""
    given = [value for key, value in metadata if key == AUTHORIZATION]
    return given[0] if len(given) == 1 and isinstance(given[0], str) else ""
