"""Conversion between API keys, audit records and their messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from gateway.access.domain.api_key import ApiKey
from gateway.access.domain.audit import AuditRecord
from hansei.gateway.v1 import access_service_pb2 as pb

SCOPE_NUMBERS: Mapping[str, pb.AccessScope.ValueType] = {
    name.removeprefix("ACCESS_SCOPE_").lower(): number for name, number in pb.AccessScope.items()
}
SCOPE_NAMES = {number: scope for scope, number in SCOPE_NUMBERS.items()}


def to_key_message(key: ApiKey) -> pb.ApiKey:
    """Return the message of a key."""
    return pb.ApiKey(
        id=key.id,
        label=key.label,
        tenant=key.tenant,
        scopes=sorted(SCOPE_NUMBERS[scope] for scope in key.scopes),
        calls_per_second=key.allowance.calls_per_second,
        calls_per_day=key.allowance.calls_per_day,
        created_at=to_timestamp(key.created_at),
        created_by=key.created_by,
        expires_at=to_timestamp(key.expires_at),
        revoked_at=to_timestamp(key.revoked_at),
        last_used_at=to_timestamp(key.last_used_at),
    )


def to_audit_message(number: int, record: AuditRecord) -> pb.AuditRecord:
    """Return the message of an audit record."""
    return pb.AuditRecord(
        number=number,
        ended_at=to_timestamp(record.ended_at),
        principal=record.principal,
        tenant=record.tenant,
        method=record.method,
        names=record.names,
        correlation_id=record.correlation_id,
        request_id=record.request_id,
        code=record.code,
    )


def to_timestamp(time: datetime | None) -> Timestamp | None:
    """Return the timestamp of a time."""
    if time is None:
        return None
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp
