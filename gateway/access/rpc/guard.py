"""The guard of the gateway for gRPC and HTTP: authentication, scopes, limits, ownership, audit records.

The guard checks names and does not rewrite them: a tenant sends `acme--faq` and gets `acme--faq`. A resource of another
tenant does not exist for the caller; the guard calls no service for it, so both cases take the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from chassis.calls import current_call
from chassis.errors import HanseiError, InvalidArgument, shorten
from chassis.guard import Metadata, read_credential
from chassis.idempotency import normalize_key, normalize_request_id
from gateway.access.domain.audit import AuditRecord
from gateway.access.domain.call_limits import CallLimits
from gateway.access.domain.errors import (
    AuthorNotAllowed,
    CredentialRevoked,
    OperatorOnly,
    ResourceNotFound,
    ScopeMissing,
)
from gateway.access.domain.principal import ADMIN, SYSTEM, Principal, build_tenant_prefix
from gateway.access.domain.tenant_shares import TenantShares
from gateway.access.rpc.methods import GuardedMethod
from gateway.access.rpc.named_resources import (
    ASSIGNED_BY_SERVICE,
    OPTIONAL_WITHIN_PREFIX,
    NamedResource,
    ResourceKind,
    find_named_resources,
    read_value,
)
from gateway.access.usecases.authenticate import Authenticate
from gateway.access.usecases.ports import AuditLog, OwnerStore

MAX_RECORDED = 20
"""Names in one audit record."""
MAX_RECORDED_CHARS = 200
"""Characters of each; no service accepts a longer name."""

current_principal: ContextVar[Principal] = ContextVar("current_principal", default=SYSTEM)
"""The principal of the call in progress."""


@dataclass(slots=True, eq=False)
class AuthorizedCall:
    """A call in progress whose principal may call the method; checks the resources that its messages name."""

    principal: Principal
    method: GuardedMethod
    owners: OwnerStore
    task: asyncio.Task[Any] | None
    names: list[str] = field(default_factory=list)
    is_revoked: bool = False

    async def check_request(self, message: Any) -> Any:
        """Return the request if the principal owns all resources it names.

        The idempotency key of the request is stored for the audit record. Unknown fields of a tenant's message are
        dropped: a service that knows more fields must not act on one that the guard did not check.

        Raises NotFound, PermissionDenied, InvalidArgument.
        """
        if self.principal is SYSTEM or (not self.principal.tenant and not self.method.is_audited):
            return message
        is_bytes = isinstance(message, bytes)
        parsed = _parse(self.method.descriptor, message) if is_bytes else message
        if (call := current_call.get()) is not None and not call.request_id:
            call.request_id = normalize_key(parsed)
        if self.principal.tenant:
            parsed.DiscardUnknownFields()
        for resource in find_named_resources(parsed):
            await self._check(resource)
        return parsed.SerializeToString() if is_bytes else parsed

    async def check_response(self, message: Any) -> Any:
        """Return the response as it is; store the tenant as the owner of the resource that the call created."""
        path = self.method.policy.creates
        if path and self.principal.tenant:
            is_bytes = isinstance(message, bytes)
            parsed = GetMessageClass(self.method.descriptor.output_type).FromString(message) if is_bytes else message
            if resource_id := read_value(parsed, path):
                await self.owners.add_owner(ResourceKind.JOB.value, resource_id, self.principal.tenant)
        return message

    async def _check(self, resource: NamedResource) -> None:
        kind, name = resource.kind, resource.value
        if kind is ResourceKind.AUTHOR:
            return self._check_author(resource)
        if kind is ResourceKind.PREFIX and not name:
            return setattr(resource.message, resource.field, build_tenant_prefix(self.principal.tenant))
        if kind in OPTIONAL_WITHIN_PREFIX and not name:
            return None
        if not await self._owns(kind, name):
            raise ResourceNotFound(kind.value, name)
        return self._add_audited_name(shorten(name, MAX_RECORDED_CHARS))

    def _add_audited_name(self, name: str) -> None:
        """Add the name of a resource to the audit record, up to a limit."""
        if name and name not in self.names and len(self.names) < MAX_RECORDED:
            self.names.append(name)

    async def _owns(self, kind: ResourceKind, name: str) -> bool:
        if kind in ASSIGNED_BY_SERVICE and self.principal.tenant:
            return await self.owners.find_owner(kind.value, normalize_request_id(name)) == self.principal.tenant
        return self.principal.owns(name)

    def _check_author(self, resource: NamedResource) -> None:
        """Set the author of a change. Trust in a change may depend on it, so only admin may name another one."""
        if resource.value in ("", self.principal.name):
            setattr(resource.message, resource.field, self.principal.name)
        elif ADMIN not in self.principal.scopes:
            raise AuthorNotAllowed(resource.value, self.principal.name)


def _parse(method: MethodDescriptor, message: bytes) -> Any:
    try:
        return GetMessageClass(method.input_type).FromString(message)
    except DecodeError as error:
        raise InvalidArgument(f"the request is not a valid {method.input_type.name}") from error


class AccessGuard:
    """Authenticates and authorises calls, and records those that change something."""

    def __init__(
        self,
        methods: Mapping[str, GuardedMethod],
        authenticate: Authenticate,
        *,
        limits: CallLimits,
        shares: TenantShares,
        owners: OwnerStore,
        audit_log: AuditLog,
        now: Callable[[], datetime],
    ) -> None:
        self._methods = methods
        self.authenticate = authenticate
        self._limits = limits
        self._shares = shares
        self._owners = owners
        self._audit_log = audit_log
        self._now = now
        self._calls: set[AuthorizedCall] = set()

    @asynccontextmanager
    async def call(self, method: str, metadata: Metadata) -> AsyncIterator[AuthorizedCall]:
        """Authenticate and authorise a call. Raises HanseiError."""
        principal = await self.authenticate(read_credential(metadata))
        async with self.authorize(method, principal) as call:
            yield call

    @asynccontextmanager
    async def authorize(self, path: str, principal: Principal) -> AsyncIterator[AuthorizedCall]:
        """Authorise a call of an authenticated principal. Raises HanseiError."""
        method = self._methods[path]
        if principal is not SYSTEM:
            self._limits.count_call(principal)
        if not principal.has_scope(method.policy.scope):
            raise ScopeMissing(method.descriptor.name, method.policy.scope)
        if method.policy.shared and principal.tenant:
            raise OperatorOnly(method.descriptor.name)
        call = AuthorizedCall(principal, method, self._owners, asyncio.current_task())
        current_principal.set(principal)
        code = "CANCELLED"
        self._calls.add(call)
        takes_slot = principal is not SYSTEM and method.policy.timeout_seconds is not None
        try:
            async with self._shares.enter(principal.tenant) if takes_slot else nullcontext():
                yield call
            code = "OK"
        except HanseiError as error:
            code = error.code
            raise
        except asyncio.CancelledError:
            if not call.is_revoked or call.task is None:
                raise
            call.task.uncancel()
            code = CredentialRevoked.code
            raise CredentialRevoked from None
        except Exception:
            code = "INTERNAL"
            raise
        finally:
            self._calls.discard(call)
            if method.is_audited and principal is not SYSTEM:
                await self._record(call, code)

    async def cancel_revoked_calls(self, is_valid_key: Callable[[str], Awaitable[bool]]) -> None:
        """Cancel the calls in progress whose credential has expired or was revoked."""
        now = self._now()
        for call in list(self._calls):
            principal = call.principal
            is_expired = principal.expires_at is not None and principal.expires_at <= now
            if is_expired or (principal.key_id and not await is_valid_key(principal.key_id)):
                call.is_revoked = True
                if call.task is not None and call in self._calls:
                    call.task.cancel()

    async def _record(self, call: AuthorizedCall, code: str) -> None:
        current = current_call.get()
        record = AuditRecord(
            ended_at=self._now(),
            principal=call.principal.name,
            tenant=call.principal.tenant,
            method=call.method.path.lstrip("/"),
            names=tuple(call.names),
            correlation_id=current.correlation_id if current else "",
            request_id=current.request_id if current else "",
            code=code,
        )
        await asyncio.shield(self._audit_log.add_record(record))
