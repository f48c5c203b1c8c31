"""Composition of access control."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from google.protobuf.descriptor import MethodDescriptor

from chassis.policy import MethodPolicy
from chassis.settings import BadSetting
from chassis.tls import is_loopback
from gateway.access.adapters.sql.repository import AccessRepository
from gateway.access.domain.call_limits import CallLimits
from gateway.access.domain.principal import Allowance
from gateway.access.domain.tenant_shares import TenantShares
from gateway.access.rpc.guard import AccessGuard
from gateway.access.rpc.methods import guard_methods
from gateway.access.rpc.servicer import AccessServicer
from gateway.access.settings import AccessSettings
from gateway.access.usecases.api_keys import ApiKeys
from gateway.access.usecases.authenticate import Authenticate, create_authenticator
from gateway.access.usecases.synchronize import Synchronization
from gateway.contract import Contract
from libs.storage.database import Database


@dataclass(frozen=True, slots=True)
class Access:
    """Access control of one gateway; `guard` is None if callers need no credential."""

    repository: AccessRepository
    servicer: AccessServicer
    guard: AccessGuard | None
    keys: ApiKeys
    synchronization: Synchronization


def build_access(
    settings: AccessSettings,
    database: Database,
    contract: Contract,
    addresses: Mapping[str, str],
    *,
    other_methods: Mapping[MethodDescriptor, MethodPolicy] = MappingProxyType({}),
    seconds: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Access:
    """Return access control. `addresses` has the served addresses by variable. Raises BadSetting.

    `other_methods` are those of other contracts, with their policies.
    """
    required = _requires_credentials(settings, addresses)
    allowance = Allowance(settings.auth_calls_per_second, settings.auth_calls_per_day)
    repository, limits = AccessRepository(database), CallLimits(seconds, now)
    keys = ApiKeys(repository, seconds=seconds, now=now, cache_seconds=settings.auth_fresh_seconds)
    guard = None
    if required:
        tokens = _create_token_authenticator(settings, allowance, seconds, now)
        authenticate = create_authenticator(keys, settings.gateway_api_token.get_secret_value(), tokens)
        guard = AccessGuard(
            guard_methods(contract, other_methods),
            authenticate,
            limits=limits,
            shares=TenantShares(settings.auth_tenant_calls, seconds),
            owners=repository,
            audit_log=repository,
            now=now,
        )

    async def cancel_revoked_calls() -> None:
        if guard is not None:
            await guard.cancel_revoked_calls(keys.is_valid)

    servicer = AccessServicer(
        keys, repository, repository, allowance=allowance, required=required, on_revocation=cancel_revoked_calls
    )
    synchronization = Synchronization(keys, limits, repository, cancel_revoked_calls, settings.auth_fresh_seconds)
    return Access(repository, servicer, guard, keys, synchronization)


def _requires_credentials(settings: AccessSettings, addresses: Mapping[str, str]) -> bool:
    """Return whether callers need a credential. Raises BadSetting for an open gateway that the network can reach."""
    token, issuer = bool(settings.gateway_api_token.get_secret_value()), bool(settings.oidc_issuer)
    if settings.auth == "off" and (token or issuer):
        variable = "GATEWAY_API_TOKEN" if token else "HANSEI_OIDC_ISSUER"
        raise BadSetting(f"HANSEI_AUTH is off, but {variable} is set: unset one of them")
    if settings.auth == "on" or token or issuer:
        return True
    for variable, address in addresses.items():
        if settings.auth != "off" and address and not is_loopback(address):
            raise BadSetting(
                f"{variable}: {address!r} is reachable from other machines, and callers need no credential. Set "
                "GATEWAY_API_TOKEN or HANSEI_OIDC_ISSUER, HANSEI_AUTH=on if API keys exist, or HANSEI_AUTH=off if "
                "everybody may do everything"
            )
    return False


def _create_token_authenticator(
    settings: AccessSettings, allowance: Allowance, seconds: Callable[[], float], now: Callable[[], datetime]
) -> Authenticate | None:
    if not settings.oidc_issuer:
        return None
    for name in ("oidc_audience", "oidc_jwks"):
        if not getattr(settings, name):
            raise BadSetting(f"HANSEI_{name.upper()} is not set; HANSEI_OIDC_ISSUER requires it")
    # Imports the cryptography library, which only tokens of an issuer need.
    from gateway.access.adapters.issuer_tokens import ALGORITHMS, IssuerTokens, TokenIssuer, create_key_set_reader

    algorithms = [name.strip() for name in settings.oidc_algorithms.split(",") if name.strip()]
    if not algorithms or not ALGORITHMS.issuperset(algorithms):
        raise BadSetting(f"HANSEI_OIDC_ALGORITHMS: must be some of {', '.join(sorted(ALGORITHMS))}")
    issuer = TokenIssuer(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        algorithms=algorithms,
        skew_seconds=settings.oidc_clock_skew_seconds,
        tenant_claim=settings.oidc_tenant_claim,
        scopes_claim=settings.oidc_scopes_claim,
        operator_tenant=settings.oidc_operator_tenant,
        allowance=allowance,
    )
    return IssuerTokens(issuer, create_key_set_reader(settings.oidc_jwks), seconds=seconds, now=now).authenticate
