"""Settings of access control."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from chassis.settings import Settings, create_plain_field


class AccessSettings(Settings):
    """Settings of credentials, limits and the token issuer."""

    auth: Literal["auto", "on", "off"] = "auto"
    """Authentication of callers over gRPC and HTTP. `on`: an API key, a token of the issuer, or the
    `GATEWAY_API_TOKEN`. `off`: callers need none on any address. `auto`: on if a `GATEWAY_API_TOKEN` or an issuer is
    set, else off; then the gateway serves loopback addresses only."""

    gateway_api_token: SecretStr = create_plain_field(SecretStr(""))
    """A token with all rights; callers send it as `authorization: Bearer <token>`. Empty: no such token."""

    auth_fresh_seconds: float = Field(5.0, gt=0)
    """Seconds after which this gateway refuses a key that was revoked at another gateway."""

    auth_calls_per_second: float = Field(0, ge=0)
    """Calls a second of a credential without a limit of its own; 0: no limit."""

    auth_calls_per_day: int = Field(0, ge=0)
    """Calls a day (UTC) of a credential without a limit of its own; 0: no limit."""

    auth_tenant_calls: int = Field(16, ge=0)
    """Maximum number of concurrent calls of one tenant in this gateway while other tenants call as well, fewer while
    the processor is busy; further ones wait. `Watch…` methods do not count. 0: no limit."""

    oidc_issuer: str = ""
    """The issuer whose tokens (JWT) are accepted, as in their claim `iss`. Empty: no tokens are accepted."""

    oidc_audience: str = ""
    """The audience that the claim `aud` of a token must contain."""

    oidc_jwks: str = ""
    """Location of the issuer's public keys (JWKS): an https URL, or the name of a file."""

    oidc_algorithms: str = "RS256,ES256,EdDSA"
    """The accepted signature algorithms, separated by commas; only asymmetric ones are allowed."""

    oidc_clock_skew_seconds: float = Field(30.0, ge=0, le=600)
    """Seconds by which the issuer's clock may differ."""

    oidc_tenant_claim: str = "tenant"
    """The claim with the caller's tenant; a token without it is refused."""

    oidc_scopes_claim: str = "scope"
    """The claim with the caller's scopes (read, learn, review, admin), as a text with spaces or as a list."""

    oidc_operator_tenant: str = ""
    """The value of the tenant claim that authenticates the operator, who has no tenant. Empty: no value does."""
