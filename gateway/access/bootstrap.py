"""Puts together who may call the gateway."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import URL

from chassis.errors import Unavailable
from chassis.guard import OWN_CREDENTIAL
from chassis.logging import get_logger
from chassis.policy import Policies
from chassis.settings import BadSetting
from chassis.tls import is_loopback
from gateway.access.errors import CredentialInvalid, CredentialMissing
from gateway.access.guard import Gatekeeper
from gateway.access.identity import SCOPES, SYSTEM, Allowance, Identity
from gateway.access.keys import PREFIX, Keys
from gateway.access.limits import Limits
from gateway.access.methods import methods
from gateway.access.settings import AccessSettings
from gateway.access.store import AccessStore
from gateway.rpc.access import AccessServicer

if TYPE_CHECKING:
    from gateway.access.tokens import Tokens

JWKS_SECONDS = 5.0
MAX_JWKS_BYTES = 1_000_000

log = get_logger("hansei.gateway.access")

Now = Callable[[], datetime]
Seconds = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Access:
    """Keys, deeds, and the guard where callers are asked who they are."""

    store: AccessStore
    servicer: AccessServicer
    guard: Gatekeeper | None
    keys: Keys
    limits: Limits
    sweep_seconds: float

    async def keep(self) -> None:
        """From time to time: write down what was used, learn what others wrote, end calls of credentials that ended."""
        while True:
            await asyncio.sleep(self.sweep_seconds)
            try:
                await self.sweep()
            except Unavailable as error:
                log.warning("keys are as they were", why=error.message)

    async def sweep(self) -> None:
        """Do so once. Raises AccessUnavailable."""
        if self.guard is not None:
            await self.guard.withdraw(self.keys.still_good)
        await self.keys.write_use()
        day, calls = self.limits.uncounted()
        self.limits.counted(day, await self.store.count(day, calls))

    async def close(self) -> None:
        """Write down what was used, and close."""
        try:
            await self.sweep()
        except Unavailable as error:
            log.warning("the last use of keys is not written down", why=error.message)
        await self.store.close()


def access(
    settings: AccessSettings,
    place: URL,
    policies: Policies,
    served: Mapping[str, str],
    *,
    seconds: Seconds = time.monotonic,
    now: Now = lambda: datetime.now(UTC),
) -> Access:
    """Who may call. `served` gives addresses by the variable that says them. Raises BadSetting."""
    required = _required(settings, served)
    allowance = Allowance(settings.auth_calls_per_second, settings.auth_calls_per_day)
    store, limits = AccessStore(place), Limits(seconds, now)
    keys = Keys(store, seconds=seconds, now=now, fresh_seconds=settings.auth_fresh_seconds)
    guard = None
    if required:
        authenticate = _authenticating(settings, keys, _tokens(settings, allowance, seconds, now))
        guard = Gatekeeper(methods(policies), authenticate, limits=limits, owners=store, audit=store, now=now)
    servicer = AccessServicer(keys, store, allowance=allowance, required=required, ended=_ending(guard, keys))
    return Access(store, servicer, guard, keys, limits, settings.auth_fresh_seconds)


def _ending(guard: Gatekeeper | None, keys: Keys) -> Callable[[], Awaitable[None]]:
    async def end() -> None:
        if guard is not None:
            await guard.withdraw(keys.still_good)

    return end


def _required(settings: AccessSettings, served: Mapping[str, str]) -> bool:
    """Whether callers are asked who they are. Raises BadSetting for a gateway that would let in the whole network."""
    token, issuer = bool(settings.gateway_api_token.get_secret_value()), bool(settings.oidc_issuer)
    if settings.auth == "off" and (token or issuer):
        variable = "GATEWAY_API_TOKEN" if token else "HANSEI_OIDC_ISSUER"
        raise BadSetting(f"HANSEI_AUTH is off, but {variable} is set: leave one of them out")
    if settings.auth == "on" or token or issuer:
        return True
    for variable, address in served.items():
        if settings.auth != "off" and address and not is_loopback(address):
            raise BadSetting(
                f"{variable}: {address!r} can be reached from other machines, and nobody is asked who they are. Set "
                "GATEWAY_API_TOKEN or HANSEI_OIDC_ISSUER, HANSEI_AUTH=on where keys were made, or HANSEI_AUTH=off if "
                "everybody may do everything"
            )
    return False


def _authenticating(
    settings: AccessSettings, keys: Keys, tokens: Tokens | None
) -> Callable[[str], Awaitable[Identity]]:
    master = settings.gateway_api_token.get_secret_value().encode()
    operator = Identity("token", scopes=SCOPES)

    async def authenticate(credential: str) -> Identity:
        """The caller. Raises CredentialMissing, CredentialInvalid."""
        if hmac.compare_digest(credential.encode(), OWN_CREDENTIAL.encode()):
            return SYSTEM
        scheme, _, text = credential.partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not text:
            raise CredentialMissing
        if master and hmac.compare_digest(text.encode(), master):
            return operator
        if text.startswith(PREFIX):
            return await keys.identity(text)
        if tokens is None:
            raise CredentialInvalid
        return await tokens.identity(text)

    return authenticate


def _tokens(settings: AccessSettings, allowance: Allowance, seconds: Seconds, now: Now) -> Tokens | None:
    if not settings.oidc_issuer:
        return None
    for name in ("oidc_audience", "oidc_jwks"):
        if not getattr(settings, name):
            raise BadSetting(f"HANSEI_{name.upper()} is not set; an issuer needs it")
    from gateway.access.tokens import ALGORITHMS, Issuer, Tokens  # with the cryptography that checks signatures

    algorithms = [each.strip() for each in settings.oidc_algorithms.split(",") if each.strip()]
    if not algorithms or not ALGORITHMS.issuperset(algorithms):
        raise BadSetting(f"HANSEI_OIDC_ALGORITHMS: must be some of {', '.join(sorted(ALGORITHMS))}")
    issuer = Issuer(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        algorithms=algorithms,
        skew_seconds=settings.oidc_clock_skew_seconds,
        tenant_claim=settings.oidc_tenant_claim,
        scopes_claim=settings.oidc_scopes_claim,
        operator_tenant=settings.oidc_operator_tenant,
        allowance=allowance,
    )
    return Tokens(issuer, _key_set(settings.oidc_jwks), seconds=seconds, now=now)


def _key_set(place: str) -> Callable[[], Awaitable[Mapping[str, Any]]]:
    """Reads the key set. Raises BadSetting for a place from which it could be forged on its way."""
    if "://" not in place:
        return lambda: asyncio.to_thread(lambda: json.loads(Path(place).read_text(encoding="utf-8")))
    import httpx  # takes long to import, and only an issuer's keys are read with it

    url = httpx.URL(place)
    port = url.port or 443
    if url.scheme != "https" and not (url.scheme == "http" and is_loopback(f"{url.host}:{port}")):
        raise BadSetting(f"HANSEI_OIDC_JWKS: {place!r} must be an https URL or the name of a file")

    async def fetch() -> Mapping[str, Any]:
        async with httpx.AsyncClient(timeout=JWKS_SECONDS) as client, client.stream("GET", url) as response:
            response.raise_for_status()
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_JWKS_BYTES:
                    raise ValueError(f"the key set has more than {MAX_JWKS_BYTES} bytes")
        read: Mapping[str, Any] = json.loads(body)
        return read

    return fetch
