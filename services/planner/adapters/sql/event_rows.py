"""Encode events as rows and decode rows as events; a chain of hashes runs over them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from libs.storage.timestamps import from_microseconds, to_microseconds
from services.planner.domain.errors import CorruptLog
from services.planner.domain.events import EVENT, Event, RecordedEvent

FIRST_HASH = bytes(32)
REMEDY = "restore a backup of the database"


def encode_events(
    execution_id: str, events: Sequence[tuple[Event, datetime]], after: int, head: bytes
) -> list[dict[str, Any]]:
    """Return the rows of events that follow number `after`, whose hash is `head`."""
    rows: list[dict[str, Any]] = []
    for sequence, (event, time) in enumerate(events, start=after + 1):
        # Defaults are left out; the kind has a column of its own.
        payload, created_at = EVENT.dump_json(event, exclude_defaults=True), to_microseconds(time)
        head = _compute_chain_hash(head, execution_id, sequence, created_at, event.kind, payload)
        row = {"execution_id": execution_id, "sequence": sequence, "created_at": created_at, "kind": event.kind}
        rows.append(row | {"payload": payload, "hash": head})
    return rows


def decode_events(execution_id: str, rows: Iterable[Any], previous: bytes, after: int) -> list[RecordedEvent]:
    """Return rows in order as events; `previous` is the hash before them.

    Raises CorruptLog if a number is missing, a hash does not match, or a payload cannot be read.
    """
    recorded: list[RecordedEvent] = []
    for number, row in enumerate(rows, start=after + 1):
        # A forged row may hold another type than bytes.
        payload = row.payload if isinstance(row.payload, bytes) else b""
        expected = _compute_chain_hash(previous, execution_id, row.sequence, row.created_at, row.kind, payload)
        if row.sequence != number or row.hash != expected:
            raise CorruptLog(f"Execution {execution_id}: event {number} does not fit its chain of hashes; {REMEDY}")
        previous = row.hash
        try:
            event = EVENT.validate_python({**json.loads(row.payload), "kind": row.kind})
        except (ValidationError, ValueError) as error:
            raise CorruptLog(f"Execution {execution_id}: event {number} cannot be read; {REMEDY}") from error
        created_at = from_microseconds(row.created_at)
        recorded.append(RecordedEvent(sequence=number, created_at=created_at, event=event, hash=row.hash))
    return recorded


def _compute_chain_hash(
    previous: bytes, execution_id: str, sequence: int, created_at: int, kind: str, payload: bytes
) -> bytes:
    """Return SHA-256 over the hash before an event, its position, its time and its content."""
    head = f"{execution_id}\n{sequence}\n{created_at}\n{kind}\n".encode()
    return hashlib.sha256(previous + head + payload).digest()
