"""A trace, the parts in which it arrives, and when it is complete."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

_JOBS = uuid.UUID("3f0d2a52-8b0d-4a43-9b55-0d6f4a0c7f10")


class TraceState(Enum):
    """The state of a stored trace."""

    OPEN = "open"
    """Spans arrive."""
    LEARNED = "learned"
    """A job has its trajectory; later evaluations are reported."""
    GIVEN_UP = "given up"
    """It has no trajectory, or is too large; its spans are deleted."""


class PartKind(Enum):
    """The kind of the OTLP message of a part."""

    SPANS = "spans"
    LOGS = "logs"


@dataclass(frozen=True, slots=True)
class TraceKey:
    """The dataset and the id, in hexadecimal, of a trace."""

    dataset: str
    trace_id: str

    @property
    def job_id(self) -> str:
        """Return the idempotency key of the job that learns the trace: one job, however often it is submitted."""
        return str(uuid.uuid5(_JOBS, f"{self.dataset}/{self.trace_id}"))


@dataclass(frozen=True, slots=True)
class TracePart:
    """The spans or events of one export that belong to one trace, as a serialized OTLP message."""

    key: TraceKey
    kind: PartKind
    payload: bytes
    items: int
    has_root: bool = False
    is_evaluation: bool = False
    """True: it has the result of an evaluation."""


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace that is due, with the parts that arrived."""

    key: TraceKey
    tenant: str
    state: TraceState
    parts: Sequence[tuple[PartKind, bytes]]
    last_number: int
    """The number of the newest part."""


class StoreResult(Enum):
    """The result of storing a part."""

    STORED = "stored"
    LATE = "late"
    """Its trace was learned or given up before."""
    TOO_LARGE = "too large"
    """Its trace is larger than the limit, and given up."""


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """Waiting times, and bounds of the stored bytes."""

    settle: timedelta
    idle: timedelta
    retention: timedelta
    trace_bytes: int
    total_bytes: int

    def compute_due_time(self, now: datetime, *, root_ended: bool) -> datetime:
        """Return the time at which a trace is complete if nothing more arrives."""
        return now + (self.settle if root_ended else self.idle)
