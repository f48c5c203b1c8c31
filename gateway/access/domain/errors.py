"""Errors of authentication and authorisation.

Unauthenticated  CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_REVOKED
PermissionDenied SCOPE_MISSING, OPERATOR_ONLY, AUTHOR_NOT_ALLOWED, TENANT_NOT_ALLOWED
NotFound         NOT_FOUND, KEY_NOT_FOUND
ResourceExhausted RATE_EXCEEDED, QUOTA_EXCEEDED
"""

from __future__ import annotations

from chassis.errors import NotFound, PermissionDenied, ResourceExhausted, Unauthenticated, shorten


class CredentialMissing(Unauthenticated):
    """The call has no credential."""

    reason = "CREDENTIAL_MISSING"

    def __init__(self) -> None:
        super().__init__("a credential is needed: send authorization: Bearer <key or token>")


class CredentialInvalid(Unauthenticated):
    """The credential is unknown, expired, revoked or forged; which of them would help an attacker."""

    reason = "CREDENTIAL_INVALID"

    def __init__(self) -> None:
        super().__init__("the credential is unknown, expired or revoked")


class CredentialRevoked(Unauthenticated):
    """The credential of a call in progress expired or was revoked."""

    reason = "CREDENTIAL_REVOKED"

    def __init__(self) -> None:
        super().__init__("the credential of this call expired or was revoked during the call")


class ScopeMissing(PermissionDenied):
    """The caller's scopes do not include that of the method."""

    reason = "SCOPE_MISSING"

    def __init__(self, method: str, scope: str) -> None:
        needed = f"the scope {scope}" if scope else "the scope admin and no tenant"
        super().__init__(f"{method} needs {needed}", metadata={"scope": scope})


class OperatorOnly(PermissionDenied):
    """The method acts on data that all tenants share."""

    reason = "OPERATOR_ONLY"

    def __init__(self, method: str) -> None:
        super().__init__(f"{method} concerns all tenants: it needs a credential without tenant")


class AuthorNotAllowed(PermissionDenied):
    """Changes are attributed to their author: only admin may name another one."""

    reason = "AUTHOR_NOT_ALLOWED"

    def __init__(self, author: str, own: str) -> None:
        super().__init__(f"author {shorten(author)!r} is not you: leave it out, or set it to {own!r}")


class TenantNotAllowed(PermissionDenied):
    """API keys and audit records are accessible to their own tenant only."""

    reason = "TENANT_NOT_ALLOWED"

    def __init__(self) -> None:
        super().__init__("API keys and audit records of other tenants are not accessible")


class ResourceNotFound(NotFound):
    """The resource does not exist, or belongs to another tenant: callers cannot distinguish the two."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {shorten(name)!r}" if name else f"the {kind} must be named")


class KeyNotFound(NotFound):
    """There is no API key of this id in the caller's tenant."""

    reason = "KEY_NOT_FOUND"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key {shorten(key_id)!r}")


class RateExceeded(ResourceExhausted):
    """The credential made more calls a second than it may."""

    reason = "RATE_EXCEEDED"

    def __init__(self, calls_per_second: float, retry_after: float) -> None:
        super().__init__(f"this credential may make {calls_per_second:g} calls a second", retry_after=retry_after)


class QuotaExceeded(ResourceExhausted):
    """The credential made more calls a day than it may."""

    reason = "QUOTA_EXCEEDED"

    def __init__(self, calls_per_day: int, retry_after: float) -> None:
        super().__init__(f"this credential may make {calls_per_day} calls a day (UTC)", retry_after=retry_after)
