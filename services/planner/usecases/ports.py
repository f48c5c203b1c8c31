"""The ports of the planner: its store (ADR 030), models, search, tools and answerers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import BaseModel

from chassis.targets.guard import CallDecision
from chassis.targets.session import ToolCallRequest
from libs.storage.idempotency import IdempotencyKey
from libs.storage.leases import Lease, LeaseState
from services.planner.domain.events import Effect, Event, ExecutionStarted, RecordedEvent
from services.planner.domain.execution import ExecutionState
from services.planner.domain.generation import GeneratedAnswer, Question
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.tools import ToolInput
from services.planner.domain.webhooks import ExecutionWebhook

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

S = TypeVar("S", bound=BaseModel)


class ExecutionStatus(StrEnum):
    """The status of an execution."""

    RUNNING = "running"
    PAUSED = "paused"
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


def derive_status(state: ExecutionState) -> ExecutionStatus:
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
    """The executions to list; `before` is the (start_time, id) of the last one already listed."""

    status: ExecutionStatus | None = None
    query_contains: str = ""
    started_after: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 50
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Feedback:
    """A label for a confidence; `audit_probability` is that of the audit of the step (0: not audited)."""

    confidence: float
    correct: bool
    audit_probability: float = 0.0
    execution_id: str = ""
    step_id: int = 0


class AuditKind(StrEnum):
    """The kind of an entry of the audits."""

    SELECTED = "selected"
    LABELLED = "labelled"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the audits: a step was selected for a label or got one, or its execution ended.

    `tool`, `score`, `probability` and `rate` belong to a selection, `wrong` to a label.
    """

    number: int
    kind: AuditKind
    execution_id: str
    step_id: int = 0
    tool: str = ""
    score: float = 0.0
    probability: float = 0.0
    rate: float = 0.0
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class StateChange:
    """The events of a decision about an execution; `take_lease`: the decider drives it afterwards."""

    events: Sequence[Event]
    take_lease: bool = False


MakeChange = Callable[[ExecutionState, Sequence[RecordedEvent]], StateChange]


class ExecutionStore(Protocol):
    """Stores the logs of executions. Every write is one transaction; `now` is the writer's clock."""

    async def create(
        self, started: ExecutionStarted, now: datetime, owner: str, key: IdempotencyKey | None
    ) -> Lease | None:
        """Begin an execution and take its lease; None for a replay. Raises PlanAlreadyExecuted, RequestIdReused."""

    async def acquire(self, observed: LeaseState, owner: str, now: datetime) -> Lease | None:
        """Take the lease of an execution if it has not changed since it was observed; None if it has."""

    async def renew(self, leases: Sequence[Lease], now: datetime) -> dict[str, int]:
        """Renew leases; return the sequence number of each execution whose lease is still held."""

    async def release(self, lease: Lease) -> None:
        """Release a lease, if it is still held."""

    async def append(
        self, lease: Lease, events: Sequence[tuple[Event, datetime]], after: int, state: ExecutionState
    ) -> None:
        """Append under a lease; `state` is the state with the events. Raises LogConflict, LeaseLost."""

    async def decide(
        self,
        execution_id: str,
        decision: MakeChange,
        now: datetime,
        owner: str,
        key: IdempotencyKey | None = None,
    ) -> tuple[int, Lease | None]:
        """Append the events that `decision` derives from the current state.

        Return the last sequence number, and the lease if this call acquired it. Read the state and append the events in
        one transaction. A replayed request appends nothing. Raises ExecutionNotFound,
        RequestIdReused, and the errors of `decision`.
        """

    async def read(self, execution_id: str, after: int = 0) -> Sequence[RecordedEvent]:
        """Return the log after a sequence number, with verified hashes. Raises ExecutionNotFound, CorruptLog."""

    async def list_executions(self, execution_filter: ExecutionFilter) -> Sequence[ExecutionSummary]:
        """Return executions, newest first."""

    async def list_expired(self, now: datetime, limit: int) -> Sequence[str]:
        """Return paused executions whose question has expired."""

    async def claim_notifications(self, now: datetime, until: datetime, limit: int) -> Sequence[str]:
        """Return paused executions whose question nobody was told about; until then no other caller gets them."""

    async def settle_notification(self, execution_id: str, claimed_until: datetime) -> None:
        """Record that the question was sent, unless a newer one has come since it was claimed."""

    async def put_webhook(self, webhook: ExecutionWebhook, now: datetime) -> None:
        """Insert or replace a webhook of an execution. Raises ExecutionNotFound, TooManyWebhooks."""

    async def list_webhooks(self, execution_id: str) -> Sequence[ExecutionWebhook]:
        """Return the webhooks of an execution by id. Raises ExecutionNotFound."""

    async def delete_webhook(self, execution_id: str, webhook_id: str) -> bool:
        """Delete a webhook; return whether there was one. Raises ExecutionNotFound."""

    async def claim_webhooks(self, now: datetime, until: datetime, limit: int) -> Sequence[ExecutionWebhook]:
        """Return webhooks whose messages are due; until then no other caller gets them."""

    async def settle_webhook(
        self, webhook: ExecutionWebhook, sent_sequence: int, claimed_until: datetime | None, *, has_ended: bool
    ) -> None:
        """Record the last event that was sent. `claimed_until`: nothing else is due, unless there is a newer change.

        Then delete the webhook if its execution has ended.
        """

    async def list_running(self, limit: int) -> Sequence[LeaseState]:
        """Return the leases of running executions: the free ones first, then those not renewed for longest."""

    async def add_feedback(self, record: Feedback, now: datetime, key: IdempotencyKey | None) -> None:
        """Store a record and label the audit of its step; a replay changes nothing. Raises RequestIdReused."""

    async def list_feedback(self, after: int = 0) -> Sequence[tuple[int, Feedback]]:
        """Return feedback records after a number, oldest first."""

    async def list_audits(self, after: int = 0) -> Sequence[AuditEntry]:
        """Return the entries of the audits after a number, in their order, which is the same for all replicas."""

    async def load_answer_key(self) -> bytes:
        """Return the secret of the answer tokens: created once, the same for all replicas."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The reply of a model: its text, its tokens, and their price in millionths of a US dollar."""

    text: str
    tokens: int = 0
    cost_micro_usd: int = 0


class CompletionModel(Protocol):
    """A chat model with fixed temperature and length."""

    async def complete(self, system: str, prompt: str) -> Completion:
        """Return the reply to a prompt. May raise anything; callers continue without a model."""

    async def complete_structured(self, system: str, prompt: str, shape: type[S]) -> tuple[S | None, Completion]:
        """Return the reply as a `shape`, None for an unusable reply. May raise anything, as `complete` may."""


class Embedder(Protocol):
    """Embeds texts."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of the texts, shape (n, d), float32."""


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

    @property
    def description(self) -> str:
        """Describe the tool and its input for models; empty for a built-in tool."""

    async def run(self, tool_input: ToolInput) -> ToolResult:
        """Perform one call. An exception becomes a failed result."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A tool call that an execution is about to make. `key` names the attempt, `texts` are those of the user."""

    execution_id: str
    key: str
    prefix: str
    request: ToolCallRequest
    texts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LessonVerdict:
    """The decision of guards about a call, and the texts of their lessons."""

    decision: CallDecision = CallDecision.ALLOW
    lessons: tuple[str, ...] = ()

    @property
    def lesson(self) -> str:
        """Return the texts of the lessons as one text."""
        return " ".join(self.lessons)


class CallChecks(Protocol):
    """The guards of tool calls."""

    async def check(self, call: PlannedCall) -> LessonVerdict:
        """Return the decision about a call. Raises nothing; while guards are unavailable every call is allowed."""

    async def report(self, call: PlannedCall, result: ToolResult) -> None:
        """Add a call that was made to its session, for the checks of later calls. Raises nothing."""


class Answerer(Protocol):
    """Answers a question from bullets: a model, or the offline rules."""

    @property
    def name(self) -> str:
        """Return the name of the model, or `offline`."""

    async def answer(self, question: Question) -> GeneratedAnswer:
        """Return the answer. May raise anything."""
