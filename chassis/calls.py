"""The call in progress: the ids that join its log records, traces and audit records."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass

CORRELATION_ID_KEY = "x-request-id"
"""The metadata key, and the HTTP header, of the correlation id."""
_CORRELATION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True)
class Call:
    """One RPC: its full method, the correlation id that all its hops share, and the idempotency key of a mutation."""

    method: str
    correlation_id: str
    request_id: str = ""


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)


def create_id() -> str:
    """Return a random id of 32 hexadecimal digits."""
    return os.urandom(16).hex()


def get_correlation_id() -> str:
    """Return the correlation id of the call in progress; a new one outside a call."""
    call = current_call.get()
    return call.correlation_id if call else create_id()


def read_correlation_id(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Return the correlation id that the caller sent; a new one if it sent none, or one with unsafe characters."""
    for key, value in metadata:
        if key == CORRELATION_ID_KEY and isinstance(value, str) and _CORRELATION_ID.fullmatch(value):
            return value
    return create_id()
