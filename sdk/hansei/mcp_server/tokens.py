"""Bearer tokens over HTTP, in the classes of the package `mcp`."""

from __future__ import annotations

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from hansei.client.callers import CallerClients
from hansei.client.client import AsyncClient
from hansei.gateway.v1.access_service_pb2 import AccessScope


class GatewayTokens(TokenVerifier):
    """Verifies tokens at the gateway, and has the client of each."""

    def __init__(self, callers: CallerClients) -> None:
        self._callers = callers

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the principal of a token; None if the gateway does not accept it. Raises HanseiError."""
        principal = await self._callers.verify(token)
        if principal is None:
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
        return self._callers.get_client(access.token)


def build_auth_settings(issuer: str, url: str) -> AuthSettings:
    """Return the settings from which the metadata of the resource server are made."""
    # The gateway checks the audience of tokens.
    return AuthSettings(
        issuer_url=AnyHttpUrl(issuer), resource_server_url=AnyHttpUrl(url), validate_token_resource=False
    )
