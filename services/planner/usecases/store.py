"""What the planner needs of its database: logs with leases, requests answered once, feedback (ADR 030)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from services.planner.domain.events import Event, Recorded, Started
from services.planner.domain.execution import ExecutionState


class ExecutionStatus(StrEnum):
    """Where an execution is, or how it ended."""

    RUNNING = "running"
    PAUSED = "paused"
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


def status_of(state: ExecutionState) -> ExecutionStatus:
    """The status a state has."""
    if state.result is not None:
        return ExecutionStatus(state.result.overall_status.value)
    return ExecutionStatus.PAUSED if state.is_paused else ExecutionStatus.RUNNING


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive one execution. `fence` rises with each new holder; an older one cannot write any more."""

    execution_id: str
    owner: str
    fence: int


@dataclass(frozen=True, slots=True)
class Holding:
    """Who drives a running execution, as its row says: nobody without an `owner`. `mark` changes with each renewal."""

    execution_id: str
    owner: str | None
    fence: int
    mark: int | None


@dataclass(frozen=True, slots=True)
class Request:
    """A mutation as its caller names it: the same id with the same content changes nothing again.

    Each prefix has ids of its own: nobody learns which ones others have used.
    """

    request_id: str
    fingerprint: bytes
    prefix: str = ""

    @property
    def key(self) -> str:
        """What it is kept under."""
        return self.prefix + self.request_id


@dataclass(frozen=True, slots=True)
class Summary:
    """An execution in a list."""

    execution_id: str
    query: str
    status: ExecutionStatus
    started_at: datetime
    updated_at: datetime
    sequence: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Which executions to list; `before` is the (started_at, id) of the last one already listed."""

    status: ExecutionStatus | None = None
    query_contains: str = ""
    started_after: datetime | None = None
    before: tuple[int, str] | None = None
    limit: int = 50
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Whether a confidence was justified, and with which probability the step had been audited (0: it was not)."""

    confidence: float
    correct: bool
    audit_probability: float = 0.0
    execution_id: str = ""
    step_id: int = 0


@dataclass(frozen=True, slots=True)
class Audit:
    """A step that a person was to judge; `wrong` is None until someone did."""

    number: int
    score: float
    probability: float
    floor: float
    wrong: bool | None


@dataclass(frozen=True, slots=True)
class Change:
    """What a decision about an execution comes to: events, and whether the decider drives it from now on."""

    events: Sequence[Event]
    take_lease: bool = False


Decide = Callable[[ExecutionState, Sequence[Recorded]], Change]


class ExecutionStore(Protocol):
    """Logs of executions. Every write is one transaction; `now` is the writer's clock."""

    async def create(
        self, started: Started, now: datetime, owner: str, lease_seconds: float, request: Request | None
    ) -> Lease | None:
        """Begins an execution and takes its lease; None for a replay. Errors: PlanAlreadyRun, RequestIdReused."""

    async def acquire(self, seen: Holding, owner: str, now: datetime, lease_seconds: float) -> Lease | None:
        """Takes the lease of an execution that is still held, or free, just as it was seen; None if it is not."""

    async def renew(self, leases: Sequence[Lease], now: datetime, lease_seconds: float) -> dict[str, int]:
        """Prolongs leases; the sequence number of each execution whose lease is still held."""

    async def release(self, lease: Lease) -> None:
        """Gives a lease back, if it is still held."""

    async def append(
        self, lease: Lease, events: Sequence[tuple[Event, datetime]], after: int, state: ExecutionState
    ) -> None:
        """Appends under a lease; `state` is the state with the events. Errors: Interleaved, LeaseLost."""

    async def decide(
        self,
        execution_id: str,
        decision: Decide,
        now: datetime,
        owner: str,
        lease_seconds: float,
        request: Request | None = None,
    ) -> tuple[int, Lease | None]:
        """Appends what `decision` makes of the state as it is in this very transaction; its last sequence number.

        A replayed request appends nothing. Errors: RunNotFound, RequestIdReused, those of `decision`.
        """

    async def read(self, execution_id: str, after: int = 0) -> Sequence[Recorded]:
        """The log after a sequence number, its chain of hashes checked. Errors: RunNotFound, CorruptLog."""

    async def listed(self, wanted: Filter) -> Sequence[Summary]:
        """Executions, newest first."""

    async def due(self, now: datetime, limit: int) -> Sequence[str]:
        """Paused executions whose question has expired."""

    async def running(self, limit: int) -> Sequence[Holding]:
        """Running executions, those that nobody drives first, then those that were not renewed for longest."""

    async def add_feedback(self, record: Feedback, now: datetime, request: Request | None) -> bool:
        """Keeps a record, and labels the audit of its step; False for a replay. Errors: RequestIdReused."""

    async def all_feedback(self, after: int = 0) -> Sequence[tuple[int, Feedback]]:
        """Feedback records after a number, oldest first."""

    async def audits(self, after: int = 0) -> Sequence[Audit]:
        """Audits after a number, in the order of the decisions."""

    async def answer_key(self) -> bytes:
        """The secret that answer tokens are made with: made once, the same for all replicas."""
