"""Audit records: the caller, the method, the time and the result of each call that changes something."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One call of a method that changes something. `code` is the status that the call ended with.

    `correlation_id` joins the record with logs and traces; `request_id` is the idempotency key, if there was one.
    """

    ended_at: datetime
    principal: str
    tenant: str
    method: str
    names: tuple[str, ...]
    correlation_id: str
    request_id: str
    code: str
