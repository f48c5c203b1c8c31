"""The ports of the planner: its store (ADR 030), models, search, tools and answerers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from libs.storage.idempotency import IdempotencyKey
from libs.storage.leases import Lease, LeaseState
from services.planner.domain.events import Effect, Event, Recorded, Started
from services.planner.domain.execution import ExecutionState
from services.planner.domain.generation import (
    GeneratedAnswer,
    Question,
    TokenUse,
)
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.tools import ToolInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ExecutionStatus(StrEnum):
    """The status of an execution."""

    RUNNING = "running"
    PAUSED = "paused"
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


def status_of(state: ExecutionState) -> ExecutionStatus:
    """Return the status of a state."""
    if state.result is not None:
        return ExecutionStatus(state.result.overall_status.value)
    return ExecutionStatus.PAUSED if state.is_paused else ExecutionStatus.RUNNING


@dataclass(frozen=True, slots=True)
class ExecutionSummary:
    """An execution in a list."""

    execution_id: str
    original_query: str
    status: ExecutionStatus
    start_time: datetime
    update_time: datetime
    sequence: int


@dataclass(frozen=True, slots=True)
class ExecutionFilter:
    """Which executions to list; `before` is the (started_at, id) of the last one already listed."""

    status: ExecutionStatus | None = None
    query_contains: str = ""
    started_after: datetime | None = None
    before: tuple[datetime, str] | None = None
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
class StepAudit:
    """A step that a person was to judge; `wrong` is None until someone did."""

    number: int
    score: float
    probability: float
    floor: float
    wrong: bool | None


@dataclass(frozen=True, slots=True)
class StateChange:
    """What a decision about an execution comes to: events, and whether the decider drives it from now on."""

    events: Sequence[Event]
    take_lease: bool = False


MakeChange = Callable[[ExecutionState, Sequence[Recorded]], StateChange]


class ExecutionStore(Protocol):
    """Logs of executions. Every write is one transaction; `now` is the writer's clock."""

    async def create(self, started: Started, now: datetime, owner: str, key: IdempotencyKey | None) -> Lease | None:
        """Begins an execution and takes its lease; None for a replay. Errors: PlanAlreadyRun, RequestIdReused."""

    async def acquire(self, seen: LeaseState, owner: str, now: datetime) -> Lease | None:
        """Takes the lease of an execution that is still held, or free, just as it was seen; None if it is not."""

    async def renew(self, leases: Sequence[Lease], now: datetime) -> dict[str, int]:
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
        decision: MakeChange,
        now: datetime,
        owner: str,
        key: IdempotencyKey | None = None,
    ) -> tuple[int, Lease | None]:
        """Appends what `decision` makes of the state as it is in this very transaction; its last sequence number.

        A replayed request appends nothing. Errors: RunNotFound, RequestIdReused, those of `decision`.
        """

    async def read(self, execution_id: str, after: int = 0) -> Sequence[Recorded]:
        """The log after a sequence number, its chain of hashes checked. Errors: RunNotFound, CorruptLog."""

    async def list_executions(self, wanted: ExecutionFilter) -> Sequence[ExecutionSummary]:
        """Executions, newest first."""

    async def list_expired(self, now: datetime, limit: int) -> Sequence[str]:
        """Paused executions whose question has expired."""

    async def running(self, limit: int) -> Sequence[LeaseState]:
        """Running executions, those that nobody drives first, then those that were not renewed for longest."""

    async def add_feedback(self, record: Feedback, now: datetime, key: IdempotencyKey | None) -> bool:
        """Keeps a record, and labels the audit of its step; False for a replay. Errors: RequestIdReused."""

    async def all_feedback(self, after: int = 0) -> Sequence[tuple[int, Feedback]]:
        """Feedback records after a number, oldest first."""

    async def audits(self, after: int = 0) -> Sequence[StepAudit]:
        """Audits after a number, in the order of the decisions."""

    async def answer_key(self) -> bytes:
        """The secret that answer tokens are made with: made once, the same for all replicas."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply: its text, the tokens it took, and their price in millionths of a US dollar."""

    text: str
    tokens: int = 0
    cost_micro_usd: int = 0


class CompletionModel(Protocol):
    """A chat model with its temperature and length already chosen."""

    async def complete(self, system: str, prompt: str) -> Completion:
        """Return the reply to a prompt. May raise anything; callers go on without a model."""


class Embedder(Protocol):
    """Embeds texts."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row for each text, shape (n, d), float32."""


class SearchBackend(Protocol):
    """The collections that `rag_search` searches (P-27)."""

    async def list_collections(self, prefix: str = "") -> Sequence[str]:
        """Return the names of the collections that begin with `prefix`."""

    async def search(self, query: str, collection: str, limit: int, score_threshold: float) -> Sequence[Hit]:
        """Return hits with scores in 0..1, best first."""


class Tool(Protocol):
    """A tool that a step can call."""

    @property
    def name(self) -> str:
        """Return the action that the tool performs."""

    @property
    def effect(self) -> Effect:
        """Return the effect of a call."""

    async def run(self, tool_input: ToolInput) -> ToolResult:
        """Perform one call. An exception becomes a failed result."""


class Answerer(Protocol):
    """Answers a question from bullets: a model, or the offline rules."""

    @property
    def name(self) -> str:
        """Return the name of the model, or `offline`."""

    async def answer(self, question: Question) -> tuple[GeneratedAnswer, TokenUse | None]:
        """Return the answer and its usage. May raise anything."""
