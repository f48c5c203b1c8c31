"""How events become rows and rows events, and the chain of hashes over them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from services.planner.domain.errors import CorruptLog
from services.planner.domain.events import EVENT, Event, Recorded

FIRST_HASH = bytes(32)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(time: datetime) -> int:
    """Microseconds since the epoch."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def at(value: int) -> datetime:
    """The time of so many microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=value)


def packed(event: Event) -> bytes:
    """An event as JSON without its defaults; its kind stands beside it."""
    return EVENT.dump_json(event, exclude_defaults=True)


def chained(previous: bytes, execution_id: str, sequence: int, created_at: int, kind: str, payload: bytes) -> bytes:
    """The hash of an event: SHA-256 over the hash before it, its place, its time and its content."""
    head = f"{execution_id}\n{sequence}\n{created_at}\n{kind}\n".encode()
    return hashlib.sha256(previous + head + payload).digest()


def unpacked(execution_id: str, rows: Iterable[Any], previous: bytes, after: int) -> list[Recorded]:
    """Rows in order as events; CorruptLog if a number is missing, a hash does not fit, or a payload is none."""
    found: list[Recorded] = []
    for number, row in enumerate(rows, start=after + 1):
        # A forged row need not hold bytes where we wrote some.
        payload = row.payload if isinstance(row.payload, bytes) else b""
        expected = chained(previous, execution_id, row.sequence, row.created_at, row.kind, payload)
        if row.sequence != number or row.hash != expected:
            raise CorruptLog(f"Run {execution_id}: event {number} does not fit its chain of hashes")
        previous = row.hash
        try:
            event = EVENT.validate_python({**json.loads(row.payload), "kind": row.kind})
        except (ValidationError, ValueError) as error:
            raise CorruptLog(f"Run {execution_id}: event {number} cannot be read") from error
        found.append(Recorded(sequence=number, created_at=at(row.created_at), event=event, hash=row.hash))
    return found
