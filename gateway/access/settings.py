"""Settings of who may call."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from chassis.settings import Settings, plain_field


class AccessSettings(Settings):
    """Who may come in, and how often."""

    auth: Literal["auto", "on", "off"] = "auto"
    """Whether callers need a credential, over gRPC and HTTP. `on`: an API key, a token of the issuer, or the
    `GATEWAY_API_TOKEN`. `off`: nobody is asked, wherever that is served. `auto`: on if there is a `GATEWAY_API_TOKEN`
    or an issuer, else off, and then the gateway serves this machine only."""

    gateway_api_token: SecretStr = plain_field(SecretStr(""))
    """A token that opens everything; calls bear it as `authorization: Bearer <token>` (G-30). Empty: there is none."""

    auth_fresh_seconds: float = Field(5.0, gt=0)
    """Seconds after which a key revoked at another gateway opens nothing at this one any more."""

    auth_calls_per_second: float = Field(0, ge=0)
    """Calls a second of a credential that has no number of its own; 0: any number."""

    auth_calls_per_day: int = Field(0, ge=0)
    """Calls a day (UTC) of a credential that has no number of its own; 0: any number."""

    oidc_issuer: str = ""
    """The issuer whose tokens (JWT) are taken, as their claim `iss` says it. Empty: none are."""

    oidc_audience: str = ""
    """What the claim `aud` of a token must hold."""

    oidc_jwks: str = ""
    """Where the issuer's public keys (JWKS) are: an https URL, or the name of a file."""

    oidc_algorithms: str = "RS256,ES256,EdDSA"
    """The signatures that are taken, with commas between. Only those by a private key can be."""

    oidc_clock_skew_seconds: float = Field(30.0, ge=0, le=600)
    """Seconds by which the issuer's clock may be wrong."""

    oidc_tenant_claim: str = "tenant"
    """The claim that names the bearer's tenant; a token without it opens nothing."""

    oidc_scopes_claim: str = "scope"
    """The claim that holds the bearer's scopes (read, learn, review, admin), as text with spaces or as a list."""

    oidc_operator_tenant: str = ""
    """The tenant in a token that stands for the operator, who has none. Empty: no token does."""
