"""Bearer tokens of an OpenID Connect issuer: JWTs (RFC 7519), verified with its published keys (RFC 7517)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt

from chassis.errors import InvalidArgument
from chassis.logging import get_logger
from chassis.settings import BadSetting
from chassis.tls import is_loopback
from gateway.access.domain.errors import CredentialInvalid
from gateway.access.domain.principal import SCOPES, Allowance, Principal, validate_tenant

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Algorithms that can be allowed: signatures by a private key. Never `none`; never HMAC, whose key is public here."""
MIN_REFETCH_SECONDS = 10.0
"""An unknown key id makes the key set be read again, at most this often."""
KEY_SET_SECONDS = 300.0
FETCH_SECONDS = 5.0
MAX_KEY_SET_BYTES = 1_000_000
MAX_TOKEN_CHARS = 16_384
MAX_NAME_CHARS = 200

_OPTIONS: Any = {
    "require": ["exp", "iss", "aud", "sub"],
    "verify_exp": False,  # times are checked here, by an injected clock
    "verify_nbf": False,
    "verify_iat": False,
}

log = get_logger("hansei.gateway.access")

FetchKeySet = Callable[[], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """A trusted issuer, and the claims in which its tokens hold tenant and scopes."""

    issuer: str
    audience: str
    algorithms: Sequence[str]
    skew_seconds: float
    tenant_claim: str
    scopes_claim: str
    operator_tenant: str
    """Value of the tenant claim that authenticates the operator, who has no tenant. Empty: none does."""
    allowance: Allowance


class IssuerTokens:
    """Verifies tokens. `fetch_key_set` reads a JWKS; `seconds` is a monotonic clock, `now` returns the time in UTC."""

    def __init__(
        self,
        issuer: TokenIssuer,
        fetch_key_set: FetchKeySet,
        *,
        seconds: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._issuer = issuer
        self._fetch_key_set = fetch_key_set
        self._seconds = seconds
        self._now = now
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._fetching = asyncio.Lock()

    async def authenticate(self, text: str) -> Principal:
        """Return the principal of a token. Raises CredentialInvalid for every fault of a token; the fault is logged."""
        try:
            return self._build_principal(await self._verify_claims(text))
        except (jwt.PyJWTError, InvalidArgument, KeyError, TypeError, ValueError, OverflowError) as error:
            log.info("token refused", error=f"{type(error).__name__}: {error}"[:300])
            raise CredentialInvalid from error

    async def _verify_claims(self, text: str) -> dict[str, Any]:
        if len(text) > MAX_TOKEN_CHARS:
            raise ValueError(f"the token has more than {MAX_TOKEN_CHARS} characters")
        header = jwt.get_unverified_header(text)
        if header.get("alg") not in self._issuer.algorithms or "crit" in header:
            raise ValueError("the algorithm is not allowed")
        key = await self._find_key(str(header.get("kid", "")))
        if key.algorithm_name != header["alg"]:
            raise ValueError("the algorithm is not that of the key")
        claims: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=[header["alg"]],
            audience=self._issuer.audience,
            issuer=self._issuer.issuer,
            options=_OPTIONS,
        )
        self._check_times(claims)
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now, skew = self._now().timestamp(), self._issuer.skew_seconds
        if float(claims["exp"]) + skew <= now:
            raise ValueError("the token has expired")
        if float(claims.get("nbf", now)) - skew > now or float(claims.get("iat", now)) - skew > now:
            raise ValueError("the token is not valid yet: `iat` or `nbf` is in the future")

    async def _find_key(self, key_id: str) -> jwt.PyJWK:
        is_old = self._fetched_at is None or self._seconds() - self._fetched_at >= KEY_SET_SECONDS
        if is_old or key_id not in self._keys:
            async with self._fetching:  # a fetch in progress may bring the key
                await self._refresh_keys()
        return self._keys[key_id] if key_id or len(self._keys) != 1 else next(iter(self._keys.values()))

    async def _refresh_keys(self) -> None:
        now = self._seconds()
        if self._fetched_at is not None and now - self._fetched_at < MIN_REFETCH_SECONDS:
            return
        before, self._fetched_at = self._fetched_at, now
        try:
            self._keys = dict(_select_signing_keys((await self._fetch_key_set())["keys"]))
        except asyncio.CancelledError:
            self._fetched_at = before  # the next caller fetches them
            raise
        except Exception as error:  # cached keys stay valid, so an unavailable issuer locks nobody out
            problem = f"{type(error).__name__}: {error}"[:300]
            log.warning("reading the keys of the issuer failed; using the cached keys", error=problem)

    def _build_principal(self, claims: Mapping[str, Any]) -> Principal:
        issuer = self._issuer
        claimed_tenant = claims.get(issuer.tenant_claim)
        if not isinstance(claimed_tenant, str) or not claimed_tenant:
            raise ValueError(f"missing claim {issuer.tenant_claim}")
        is_operator = bool(issuer.operator_tenant) and claimed_tenant == issuer.operator_tenant
        tenant = "" if is_operator else validate_tenant(claimed_tenant)
        claimed_scopes = claims.get(issuer.scopes_claim, [])
        scopes = claimed_scopes.split() if isinstance(claimed_scopes, str) else claimed_scopes
        if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
            raise ValueError(f"the claim {issuer.scopes_claim} is neither a text nor a list of texts")
        subject = str(claims["sub"])
        if not subject or len(subject) > MAX_NAME_CHARS or not subject.isprintable():
            raise ValueError("the subject cannot be a name")
        expires = datetime.fromtimestamp(float(claims["exp"]) + issuer.skew_seconds, UTC)
        # Names of keys have no colon: no token authenticates under the name of a key.
        return Principal(f"oidc:{subject}", tenant, frozenset(scopes) & SCOPES, issuer.allowance, expires)


def create_key_set_reader(location: str) -> FetchKeySet:
    """Return a function that reads the key set. Raises BadSetting for a URL on whose way it could be forged."""
    if "://" not in location:
        return lambda: asyncio.to_thread(lambda: json.loads(Path(location).read_text(encoding="utf-8")))
    import httpx  # takes long to import, and only an issuer's keys are read with it

    url = httpx.URL(location)
    if url.scheme != "https" and not (url.scheme == "http" and is_loopback(f"{url.host}:{url.port or 443}")):
        raise BadSetting(f"HANSEI_OIDC_JWKS: {location!r} must be an https URL or the name of a file")

    async def fetch() -> Mapping[str, Any]:
        async with httpx.AsyncClient(timeout=FETCH_SECONDS) as client, client.stream("GET", url) as response:
            response.raise_for_status()
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_KEY_SET_BYTES:
                    raise ValueError(f"the key set has more than {MAX_KEY_SET_BYTES} bytes")
        key_set: Mapping[str, Any] = json.loads(body)
        return key_set

    return fetch


def _select_signing_keys(keys: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, jwt.PyJWK]]:
    """Yield the keys that sign, by id; keys of an unknown kind are left out."""
    for key in keys:
        if key.get("use", "sig") == "sig" and key.get("kty") in ("RSA", "EC", "OKP"):
            with suppress(jwt.PyJWTError):
                yield str(key.get("kid", "")), jwt.PyJWK(dict(key))
