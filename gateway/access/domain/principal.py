"""Principals with tenants, scopes and allowances, and the prefix of the names of a tenant."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from chassis.errors import InvalidArgument, Violation, shorten

Scope = Literal["read", "learn", "review", "admin"]
SCOPES: frozenset[str] = frozenset(get_args(Scope))
ADMIN = "admin"
ANY = "any"
"""In a policy: every caller with a valid credential."""
SEPARATOR = "--"
_TENANT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_TENANT_CHARS = 32


@dataclass(frozen=True, slots=True)
class Allowance:
    """The calls that a credential may make; 0 does not limit."""

    calls_per_second: float = 0
    calls_per_day: int = 0


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller.

    `name` is unique; audit records and authors of changes hold it. A principal without tenant is the operator's and may
    access everything that its scopes allow. `key_id` is set for API keys. `expires_at` is UTC; None: does not expire.
    """

    name: str
    tenant: str = ""
    scopes: Set[str] = frozenset()
    allowance: Allowance = Allowance()
    expires_at: datetime | None = None
    key_id: str = ""

    def has_scope(self, scope: str) -> bool:
        """Return whether the scopes suffice: admin suffices for all, and a method without a scope is the operator's."""
        if scope == ANY:
            return True
        if scope not in SCOPES:
            return ADMIN in self.scopes and not self.tenant
        return scope in self.scopes or ADMIN in self.scopes

    def owns(self, name: str) -> bool:
        """Return whether the principal may access a resource of this name: a tenant's names begin with its prefix."""
        return not self.tenant or name.startswith(build_tenant_prefix(self.tenant))


SYSTEM = Principal("system", scopes=SCOPES)
"""The process itself, when it calls its own port."""


def build_tenant_prefix(tenant: str) -> str:
    """Return the prefix of the names of a tenant's datasets, collections and executions; empty without a tenant.

    No tenant has two hyphens in a row or one at its end, so the first `--` of a name ends its prefix: no tenant's
    prefix is the beginning of another's.
    """
    return tenant + SEPARATOR if tenant else ""


def validate_tenant(tenant: str) -> str:
    """Return the tenant. Raises InvalidArgument."""
    if tenant and not (_TENANT.fullmatch(tenant) and len(tenant) <= MAX_TENANT_CHARS):
        rule = f"must be at most {MAX_TENANT_CHARS} of a-z, 0-9 and single hyphens between them"
        raise InvalidArgument(f"tenant {shorten(tenant)!r} {rule}", violations=[Violation("tenant", rule)])
    return tenant
