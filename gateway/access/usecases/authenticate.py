"""Authentication: the master token, API keys, tokens of an issuer, and the credential of the process itself."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

from chassis.guard import own_credential
from gateway.access.domain.errors import CredentialInvalid, CredentialMissing
from gateway.access.domain.principal import SCOPES, SYSTEM, Principal
from gateway.access.usecases.api_keys import PREFIX, ApiKeys

Authenticate = Callable[[str], Awaitable[Principal]]
"""Returns the principal of a text. Raises CredentialMissing, CredentialInvalid."""

_OPERATOR = Principal("token", scopes=SCOPES)


def create_authenticator(keys: ApiKeys, master_token: str, authenticate_token: Authenticate | None) -> Authenticate:
    """Return a function that authenticates the value of an `authorization` header."""
    master = master_token.encode()

    async def authenticate(credential: str) -> Principal:
        if hmac.compare_digest(credential.encode(), own_credential().encode()):
            return SYSTEM
        scheme, _, text = credential.partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not text:
            raise CredentialMissing
        if master and hmac.compare_digest(text.encode(), master):
            return _OPERATOR
        if text.startswith(PREFIX):
            return await keys.authenticate(text)
        if authenticate_token is None:
            raise CredentialInvalid
        return await authenticate_token(text)

    return authenticate
