"""AccessService: the caller, API keys and audit records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from chassis.server.messages import decode_time, encode
from gateway.access.domain.api_key import ApiKeyRequest
from gateway.access.domain.errors import TenantNotAllowed
from gateway.access.domain.principal import Allowance, Principal, build_tenant_prefix, validate_tenant
from gateway.access.rpc.convert import decode_scopes, encode_key, encode_scopes
from gateway.access.rpc.guard import current_principal
from gateway.access.usecases.api_keys import ApiKeys
from gateway.access.usecases.ports import ApiKeyStore, AuditLog
from hansei.gateway.v1 import access_service_pb2 as pb
from hansei.gateway.v1 import access_service_pb2_grpc as grpc_access
from libs.storage.page_tokens import decode_page_token, encode_page_token

DEFAULT_PAGE_SIZE = 100


class AccessServicer(grpc_access.AccessServiceServicer):
    """Serves API keys and audit records. A key without limits of its own gets `allowance`; `on_revocation` ends the
    calls of revoked credentials."""

    def __init__(
        self,
        keys: ApiKeys,
        key_store: ApiKeyStore,
        audit_log: AuditLog,
        *,
        allowance: Allowance,
        required: bool,
        on_revocation: Callable[[], Awaitable[None]],
    ) -> None:
        self._keys = keys
        self._key_store = key_store
        self._audit_log = audit_log
        self._allowance = allowance
        self._required = required
        self._on_revocation = on_revocation

    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Any) -> pb.WhoAmIResponse:
        """Return the caller."""
        principal = current_principal.get()
        return encode(
            principal,
            pb.WhoAmIResponse,
            name=principal.name if self._required else "anonymous",
            prefix=build_tenant_prefix(principal.tenant),
            scopes=encode_scopes(principal.scopes),
            credentials_required=self._required,
        )

    async def CreateKey(self, request: pb.CreateKeyRequest, context: Any) -> pb.CreateKeyResponse:
        """Create a key of the caller's tenant, or of any tenant for the operator."""
        principal = current_principal.get()
        key_request = ApiKeyRequest(
            label=request.label,
            tenant=_choose_tenant(principal, request.tenant),
            scopes=decode_scopes(request.scopes),
            allowance=Allowance(
                request.calls_per_second or self._allowance.calls_per_second,
                request.calls_per_day or self._allowance.calls_per_day,
            ),
            expires_at=decode_time(request, "expires_at"),
        )
        key, text = await self._keys.create_key(key_request, principal.name)
        return pb.CreateKeyResponse(key=encode_key(key), text=text)

    async def ListKeys(self, request: pb.ListKeysRequest, context: Any) -> pb.ListKeysResponse:
        """Return a page of keys."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        tenant = _choose_tenant(current_principal.get(), request.tenant)
        (after,) = decode_page_token(request, str, scope=tenant) or ("",)
        keys = await self._key_store.list_keys(tenant, after, size + 1)
        next_page_token = encode_page_token(request, keys[size - 1].id, scope=tenant) if len(keys) > size else ""
        return pb.ListKeysResponse(keys=map(encode_key, keys[:size]), next_page_token=next_page_token)

    async def RevokeKey(self, request: pb.RevokeKeyRequest, context: Any) -> pb.RevokeKeyResponse:
        """Revoke a key, and return it."""
        key = await self._keys.revoke_key(request.key_id, current_principal.get().tenant)
        await self._on_revocation()
        return pb.RevokeKeyResponse(key=encode_key(key))

    async def ListAuditRecords(self, request: pb.ListAuditRecordsRequest, context: Any) -> pb.ListAuditRecordsResponse:
        """Return a page of audit records."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        tenant = _choose_tenant(current_principal.get(), request.tenant)
        (before,) = decode_page_token(request, int, scope=tenant) or (None,)
        records = await self._audit_log.list_records(tenant, before, size + 1)
        more = len(records) > size
        next_page_token = encode_page_token(request, records[size - 1][0], scope=tenant) if more else ""
        messages = [encode(record, pb.AuditRecord, number=number) for number, record in records[:size]]
        return pb.ListAuditRecordsResponse(audit_records=messages, next_page_token=next_page_token)


def _choose_tenant(principal: Principal, requested: str) -> str:
    """Return the tenant of a request. Raises TenantNotAllowed for another one than the caller's."""
    if principal.tenant and requested not in ("", principal.tenant):
        raise TenantNotAllowed
    return principal.tenant or validate_tenant(requested)
