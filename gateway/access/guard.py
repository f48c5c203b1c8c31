"""Lets calls in, over gRPC and HTTP alike: who calls, may they, is what they name theirs, and what was changed.

Names are checked, not rewritten: a tenant says `acme--faq` and gets `acme--faq`. What is not a tenant's does not exist
for it, and nobody behind the gateway is asked whether it does, so its absence and its presence take the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from chassis.calls import request_id
from chassis.errors import HanseiError, InvalidArgument, shortened
from gateway.access.errors import AuthorNotYours, NotYours, OperatorOnly, PermitWithdrawn, ScopeMissing
from gateway.access.identity import ADMIN, SYSTEM, Identity, prefix_of
from gateway.access.limits import Limits
from gateway.access.methods import Method
from gateway.access.names import CHOSEN_WITHIN_A_PREFIX, GIVEN, Kind, Mention, mentions, value_at

MAX_RECORDED = 20
"""Names that one audit record holds."""
MAX_RECORDED_CHARS = 200
"""Characters of each; what is longer is no name that any service takes."""

caller: ContextVar[Identity] = ContextVar("caller", default=SYSTEM)
"""Who makes the call being handled."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One call that was to change something, for the audit log. `code` is the status it ended with."""

    at: datetime
    who: str
    tenant: str
    method: str
    names: tuple[str, ...]
    request_id: str
    code: str


class Owners(Protocol):
    """Whose the things are that got their ids from a service."""

    async def owner(self, kind: str, identity: str) -> str | None:
        """The tenant; None for what no tenant created."""
        ...

    async def claim(self, kind: str, identity: str, tenant: str) -> None:
        """Write down whose a new thing is. What has an owner keeps it."""
        ...


class AuditLog(Protocol):
    """Where deeds are kept."""

    async def record(self, deed: Deed) -> None:
        """Add one."""
        ...


@dataclass(slots=True, eq=False)
class Permit:
    """What a caller may do within one call of a method."""

    who: Identity
    method: Method
    owners: Owners
    task: asyncio.Task[Any] | None
    names: list[str] = field(default_factory=list)
    withdrawn: bool = False

    async def request(self, message: Any) -> Any:
        """The request, if all it names is the caller's. Raises NotFound, PermissionDenied, InvalidArgument.

        A tenant's bytes are handed on without what we do not know: a service that knows more must not act on a field
        that nobody checked.
        """
        if self.who is SYSTEM or (not self.who.tenant and not self.method.changes):
            return message
        is_bytes = isinstance(message, bytes)
        read = _read(self.method.descriptor, message) if is_bytes else message
        if self.who.tenant:
            read.DiscardUnknownFields()
        for mention in mentions(read):
            await self._check(mention)
        return read.SerializeToString() if is_bytes else read

    async def response(self, message: Any) -> Any:
        """The response as it is; what it says was created is the caller's from now on."""
        path = self.method.policy.creates
        if path and self.who.tenant:
            is_bytes = isinstance(message, bytes)
            read = GetMessageClass(self.method.descriptor.output_type).FromString(message) if is_bytes else message
            if identity := value_at(read, path):
                await self.owners.claim(Kind.JOB.value, identity, self.who.tenant)
        return message

    async def _check(self, mention: Mention) -> None:
        kind, named = mention.kind, mention.value
        if kind is Kind.AUTHOR:
            return self._check_author(mention)
        if kind is Kind.PREFIX and not named:
            return setattr(mention.message, mention.field, prefix_of(self.who.tenant))
        if kind in CHOSEN_WITHIN_A_PREFIX and not named:
            return None
        if not await self._is_own(kind, named):
            raise NotYours(kind.value, named)
        return self._note(shortened(named, MAX_RECORDED_CHARS))

    def _note(self, named: str) -> None:
        if named and named not in self.names and len(self.names) < MAX_RECORDED:
            self.names.append(named)

    async def _is_own(self, kind: Kind, named: str) -> bool:
        if kind in GIVEN and self.who.tenant:
            return await self.owners.owner(kind.value, named) == self.who.tenant
        return self.who.owns(named)

    def _check_author(self, mention: Mention) -> None:
        """Trust in a change may depend on its author, so nobody but admin chooses one."""
        if mention.value in ("", self.who.name):
            setattr(mention.message, mention.field, self.who.name)
        elif ADMIN not in self.who.scopes:
            raise AuthorNotYours(mention.value, self.who.name)


def _read(method: MethodDescriptor, message: bytes) -> Any:
    try:
        return GetMessageClass(method.input_type).FromString(message)
    except DecodeError as error:
        raise InvalidArgument(f"not a {method.input_type.name}") from error


class Gatekeeper:
    """The guard of the gateway. `authenticate` gives the caller that a credential makes."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        authenticate: Callable[[str], Awaitable[Identity]],
        *,
        limits: Limits,
        owners: Owners,
        audit: AuditLog,
        now: Callable[[], datetime],
    ) -> None:
        self._methods = methods
        self.authenticate = authenticate
        self._limits = limits
        self._owners = owners
        self._audit = audit
        self._now = now
        self._open: set[Permit] = set()

    @asynccontextmanager
    async def call(self, method: str, credential: str) -> AsyncIterator[Permit]:
        """A call whose caller is known by a credential. Raises HanseiError."""
        who = await self.authenticate(credential)
        async with self.admitted(method, who) as permit:
            yield permit

    @asynccontextmanager
    async def admitted(self, path: str, who: Identity) -> AsyncIterator[Permit]:
        """A call whose caller is known. Raises HanseiError."""
        method = self._methods[path]
        if who is not SYSTEM:
            self._limits.take(who)
        if not who.has(method.policy.scope):
            raise ScopeMissing(method.descriptor.name, method.policy.scope)
        if method.policy.shared and who.tenant:
            raise OperatorOnly(method.descriptor.name)
        permit = Permit(who, method, self._owners, asyncio.current_task())
        caller.set(who)
        code = "CANCELLED"
        self._open.add(permit)
        try:
            yield permit
            code = "OK"
        except HanseiError as error:
            code = error.code
            raise
        except asyncio.CancelledError:
            if not permit.withdrawn or permit.task is None:
                raise
            permit.task.uncancel()
            code = PermitWithdrawn.code
            raise PermitWithdrawn from None
        except Exception:
            code = "INTERNAL"
            raise
        finally:
            self._open.discard(permit)
            if method.changes and who is not SYSTEM:
                await self._recorded(permit, code)

    async def withdraw(self, still_good: Callable[[str], Awaitable[bool]]) -> None:
        """End the calls in progress whose caller's credential has expired or was revoked."""
        now = self._now()
        for permit in list(self._open):
            who = permit.who
            expired = who.expires_at is not None and who.expires_at <= now
            if expired or (who.key_id and not await still_good(who.key_id)):
                permit.withdrawn = True
                if permit.task is not None and permit in self._open:
                    permit.task.cancel()

    async def _recorded(self, permit: Permit, code: str) -> None:
        path = permit.method.path.lstrip("/")
        deed = Deed(self._now(), permit.who.name, permit.who.tenant, path, tuple(permit.names), request_id(), code)
        await asyncio.shield(self._audit.record(deed))
