"""Bearer tokens over HTTP: the gateway verifies them, and each caller acts with its own rights.

The gateway is the resource that the tokens are for, and this server one of its faces. So it keeps no keys and no rules:
a credential that the gateway accepts, an API key or a token of its issuer, is accepted here.
"""

from __future__ import annotations

from collections.abc import Callable

from cachetools import LRUCache
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from chassis.settings import BadSetting
from hansei.client.client import AsyncClient
from hansei.client.errors import Unauthenticated
from hansei.gateway.v1.access_service_pb2 import AccessScope

MAX_CLIENTS = 256
"""Clients for the tokens that were used last; their channels share one connection."""


class GatewayTokens(TokenVerifier):
    """Verifies tokens at the gateway, and has the client of each."""

    def __init__(self, connect: Callable[[str], AsyncClient]) -> None:
        """`connect` returns a client with a credential."""
        self._connect = connect
        self._clients: LRUCache[str, AsyncClient] = LRUCache(MAX_CLIENTS)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the principal of a token; None if the gateway does not accept it. Raises HanseiError."""
        try:
            principal = await self._get_client(token).access.who_am_i()
        except Unauthenticated:
            return None
        if not principal.credentials_required:
            return None
        return AccessToken(
            token=token,
            client_id=principal.name,
            subject=principal.name,
            scopes=[AccessScope.Name(scope).removeprefix("ACCESS_SCOPE_").lower() for scope in principal.scopes],
            expires_at=principal.expires_at.seconds if principal.HasField("expires_at") else None,
        )

    def choose_client(self) -> AsyncClient:
        """Return the client of the caller of the request in progress."""
        access = get_access_token()
        if access is None:
            raise RuntimeError("no request with a verified token is in progress")
        return self._get_client(access.token)

    async def require_credentials(self) -> None:
        """Raise BadSetting if the gateway needs no credentials: it would accept any token."""
        try:
            principal = await self._connect("").access.who_am_i()
        except Unauthenticated:
            return
        if not principal.credentials_required:
            raise BadSetting(
                "--issuer: the gateway accepts callers without a credential, so it cannot verify tokens\n"
                "Set HANSEI_AUTH=on or HANSEI_OIDC_ISSUER at the gateway."
            )

    def _get_client(self, token: str) -> AsyncClient:
        if token not in self._clients:
            self._clients[token] = self._connect(token)
        return self._clients[token]


def build_auth_settings(issuer: str, url: str) -> AuthSettings:
    """Return the settings from which the metadata of the resource server are made."""
    # The gateway checks the audience of tokens.
    return AuthSettings(
        issuer_url=AnyHttpUrl(issuer), resource_server_url=AnyHttpUrl(url), validate_token_resource=False
    )
