"""API keys and audit records."""

from __future__ import annotations

from hansei.gateway.v1.access_service_pb2 import AccessScope, ApiKey, AuditRecord, CreateKeyResponse


def format_key(response: CreateKeyResponse) -> str:
    """Return the secret text of a new key."""
    return response.text


def format_key_line(key: ApiKey) -> str:
    """Return a key on one line: its id, label, tenant, scopes and last use."""
    scopes = ",".join(AccessScope.Name(scope).removeprefix("ACCESS_SCOPE_").lower() for scope in key.scopes)
    used = f"used {key.last_used_at.ToDatetime():%Y-%m-%d %H:%M}" if key.HasField("last_used_at") else "never used"
    state = "  revoked" if key.HasField("revoked_at") else ""
    return f"{key.id}  {key.label:<24} {key.tenant or '(operator)':<20} {scopes:<24} {used}{state}"


def format_audit_line(record: AuditRecord) -> str:
    """Return an audit record on one line: the time, the result, the caller, the method and its names."""
    action = f"{record.method} {' '.join(record.names)}".strip()
    return f"{record.ended_at.ToDatetime():%Y-%m-%d %H:%M:%S}  {record.code:<12} {record.principal:<24} {action}"
