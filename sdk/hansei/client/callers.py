"""The callers of a server beside a client: the gateway verifies their tokens, and each acts with its own rights.

The gateway is the resource that the tokens are for, and the server one of its faces. So it keeps no keys and no rules:
a credential that the gateway accepts, an API key or a token of its issuer, is accepted there.
"""

from __future__ import annotations

from cachetools import LRUCache

from chassis.settings import BadSetting
from hansei.client.client import AsyncClient
from hansei.client.errors import Unauthenticated
from hansei.gateway.v1.access_service_pb2 import WhoAmIResponse

MAX_CLIENTS = 256
"""Clients for the tokens that were used last."""
_HTTP_STATUSES = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429}


def choose_http_status(code: str) -> int:
    """Return the HTTP status for a request that is refused with a gRPC status; 503 if no token can be verified now."""
    return _HTTP_STATUSES.get(code, 503)


class CallerClients:
    """Verifies tokens at the gateway, and has the client of each."""

    def __init__(self, client: AsyncClient) -> None:
        """`client` has the connection for the calls of all callers."""
        self._client = client
        self._clients: LRUCache[str, AsyncClient] = LRUCache(MAX_CLIENTS)

    async def verify(self, token: str) -> WhoAmIResponse | None:
        """Return the principal of a token; None if the gateway does not accept it. Raises HanseiError."""
        try:
            principal: WhoAmIResponse = await self.get_client(token).access.who_am_i()
        except Unauthenticated:
            return None
        return principal if principal.credentials_required else None

    async def require_credentials(self, option: str) -> None:
        """Raise BadSetting if the gateway needs no credentials: it would accept any token."""
        try:
            principal = await self._client.with_token("").access.who_am_i()
        except Unauthenticated:
            return
        if not principal.credentials_required:
            raise BadSetting(
                f"{option}: the gateway accepts callers without a credential, so it cannot verify tokens\n"
                "Set HANSEI_AUTH=on or HANSEI_OIDC_ISSUER at the gateway"
            )

    def get_client(self, token: str) -> AsyncClient:
        """Return the client that calls with a token."""
        if token not in self._clients:
            self._clients[token] = self._client.with_token(token)
        return self._clients[token]
