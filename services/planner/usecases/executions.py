"""Executions as clients see them: start, watch, answer and cancel them; the holder of the lease drives each."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.repetition import repeat
from libs.storage.idempotency import IdempotencyKey
from libs.storage.leases import HeldLease, Lease, LeaseMonitor, LeaseState
from services.planner.domain.answers import interpret_response, interpret_timeout
from services.planner.domain.errors import (
    AnswerRefused,
    ExecutionEnded,
    ExecutionNotPaused,
    LeaseLost,
    TooMuchInformation,
)
from services.planner.domain.events import (
    Budget,
    CancelRequested,
    Event,
    ExecutionFinished,
    InformationAdded,
    RecordedEvent,
)
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import apply, replay
from services.planner.domain.interventions import InterventionResponse
from services.planner.domain.plans import ExecutionPlan, utc_now
from services.planner.domain.results import ExecutionResult
from services.planner.usecases.execute import Executor
from services.planner.usecases.interventions import InterventionChannel, InterventionHandler
from services.planner.usecases.ports import ExecutionStore, StateChange
from services.planner.usecases.recorder import ExecutionRecorder, create_steady_clock
from services.planner.usecases.tokens import check_answer, create_answer_token, find_open_question

_log = get_logger(__name__)

_SWEEP_BATCH = 100
_MAX_OBSERVED = 1000
"""Running executions, of all replicas, whose leases are observed; those not renewed for longest come first."""

MAX_INFORMATION = 100
MAX_INFORMATION_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Ownership:
    """The identity of this replica and its leases, which expire `lease_seconds` after its death."""

    owner: str
    lease_seconds: float = 10.0
    poll_seconds: float = 0.5


@dataclass(slots=True)
class _DrivenExecution:
    """An execution that this replica drives."""

    lease: HeldLease
    recorder: ExecutionRecorder
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class _LeasedLog:
    """The log of an execution as its driver writes it (`ExecutionLog`)."""

    store: ExecutionStore
    lease: Lease
    notify_watchers: Callable[[str], None]

    async def append(self, events: Sequence[tuple[Event, datetime]], after: int, state: ExecutionState) -> None:
        await self.store.append(self.lease, events, after, state)
        self.notify_watchers(self.lease.name)

    async def read(self) -> Sequence[RecordedEvent]:
        return await self.store.read(self.lease.name)


class Executions:
    """The executions in this database, and those that this replica drives. Paused ones use no memory."""

    def __init__(
        self,
        store: ExecutionStore,
        executor: Executor,
        ownership: Ownership,
        *,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.driven: dict[str, _DrivenExecution] = {}
        self._executor = executor
        self._ownership = ownership
        self._clock = clock
        self._monotonic = monotonic
        self._monitor = LeaseMonitor(ownership.lease_seconds, monotonic)
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._key = b""
        self._closing = False

    async def open(self) -> None:
        """Load the key of the answer tokens."""
        self._key = await self.store.load_answer_key()

    async def close(self) -> None:
        """Stop driving; the executions stay in the log, and their leases are free at once."""
        self._closing = True
        for driven in list(self.driven.values()):
            if driven.task is not None:
                driven.task.cancel()
        tasks = [driven.task for driven in self.driven.values() if driven.task]
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                _log.warning("lease could not be released; it has to expire", error=str(outcome))

    # Requests of clients

    async def start(
        self,
        plan: ExecutionPlan,
        budget: Budget | None,
        key: IdempotencyKey | None,
        *,
        human_available: bool = True,
    ) -> str:
        """Begin an execution, drive it, and return its id. Raises InvalidPlan, PlanAlreadyExecuted, RequestIdReused."""
        started = self._executor.make_started(plan, budget, human_available=human_available)
        now, began_at = self._clock(), self._monotonic()
        lease = await self.store.create(started, now, self._ownership.owner, key)
        execution_id = started.plan.plan_id or ""
        if lease is not None:
            await self._drive(lease, began_at)
        return execution_id

    async def answer(
        self,
        execution_id: str,
        response: InterventionResponse,
        token: str,
        plan_version: int,
        step_id: int | None,
        key: IdempotencyKey | None,
    ) -> int:
        """Answer the open question; return the sequence number of the answer. Of concurrent answers one is accepted.

        Raises ExecutionNotFound, ExecutionNotPaused, AnswerRefused, InvalidPlan.
        """

        def decision(state: ExecutionState, log: Sequence[RecordedEvent]) -> StateChange:
            if not state.is_paused or state.intervention_request is None:
                raise ExecutionNotPaused(execution_id)
            check_answer(self._key, execution_id, find_open_question(log), token, plan_version, step_id)
            now = self._clock()
            if state.expires_at is not None and now >= state.expires_at:
                raise AnswerRefused(f"the question expired at {state.expires_at.isoformat()}")
            seconds = max(0.0, (now - state.intervention_request.created_at).total_seconds())
            timed = response.model_copy(update={"response_time_ms": round(1000 * seconds), "timeout_reached": False})
            event = interpret_response(state, state.intervention_request, timed, self._executor.rules.policy)
            return StateChange([event], take_lease=True)

        return await self._decide(execution_id, decision, key)

    async def cancel(self, execution_id: str, reason: str, key: IdempotencyKey | None = None) -> None:
        """Cancel an execution; one that has ended is not changed (P-131). Raises ExecutionNotFound."""

        def decision(state: ExecutionState, log: Sequence[RecordedEvent]) -> StateChange:
            if state.result is not None or state.is_cancelled:
                return StateChange([])
            return StateChange([CancelRequested(reason=reason)], take_lease=True)

        await self._decide(execution_id, decision, key)

    async def add_information(self, execution_id: str, text: str, key: IdempotencyKey | None) -> int:
        """Add information; a replan follows before the next step (P-129).

        Raises ExecutionNotFound, ExecutionEnded, TooMuchInformation.
        """

        def decision(state: ExecutionState, log: Sequence[RecordedEvent]) -> StateChange:
            if state.result is not None or state.is_cancelled:
                raise ExecutionEnded(execution_id)
            _refuse_too_much(state.information, text)
            return StateChange([InformationAdded(text=text)])

        return await self._decide(execution_id, decision, key)

    async def state(self, execution_id: str) -> ExecutionState:
        """Return the state of an execution by its log. Raises ExecutionNotFound, CorruptLog."""
        return replay(await self.store.read(execution_id))

    async def read_log(self, execution_id: str) -> Sequence[RecordedEvent]:
        """Return the whole log of an execution. Raises ExecutionNotFound, CorruptLog."""
        return await self.store.read(execution_id)

    def create_token(self, execution_id: str, began_at: RecordedEvent) -> str:
        """Return the answer token of a question."""
        return create_answer_token(self._key, execution_id, began_at)

    async def await_result(self, execution_id: str) -> ExecutionResult:
        """Return the result of an execution, once it has ended."""
        async for recorded, _ in self.watch(execution_id):
            if isinstance(recorded.event, ExecutionFinished):
                return recorded.event.result
        raise ExecutionEnded(execution_id)

    async def watch(
        self, execution_id: str, after: int = 0, *, until_paused: bool = False
    ) -> AsyncIterator[tuple[RecordedEvent, ExecutionState]]:
        """Yield the events after a number without gap or duplicate, as they come, until the execution ends.

        Each event comes with the state that includes it. `until_paused`: the stream also ends at an open question.
        """
        change = asyncio.Event()
        self._watchers.setdefault(execution_id, set()).add(change)
        try:
            state: ExecutionState | None = None
            while True:
                change.clear()
                for recorded in await self.store.read(execution_id, state.sequence if state else 0):
                    if state is None:
                        state = replay([recorded])
                    else:
                        apply(state, recorded.event, recorded.created_at)
                        state.sequence = recorded.sequence
                    if recorded.sequence > after:
                        yield recorded, state
                if state is not None and (state.result is not None or (until_paused and state.is_paused)):
                    return
                await self._wait_for_change(change)
        finally:
            self._watchers[execution_id].discard(change)
            if not self._watchers[execution_id]:
                del self._watchers[execution_id]

    async def _wait_for_change(self, event: asyncio.Event) -> None:
        """Wait for a change, or for the poll interval, because another replica may drive the execution."""
        try:
            await asyncio.wait_for(event.wait(), self._ownership.poll_seconds)
        except TimeoutError:
            return

    def _notify_watchers(self, execution_id: str) -> None:
        for event in self._watchers.get(execution_id, ()):
            event.set()

    # Driving

    async def _decide(
        self,
        execution_id: str,
        decision: Callable[[ExecutionState, Sequence[RecordedEvent]], StateChange],
        key: IdempotencyKey | None,
    ) -> int:
        now, began_at = self._clock(), self._monotonic()
        sequence, lease = await self.store.decide(execution_id, decision, now, self._ownership.owner, key)
        self._notify_watchers(execution_id)
        driven = self.driven.get(execution_id)
        if lease is not None:
            await self._drive(lease, began_at)
        elif driven is not None:
            driven.recorder.interrupted.set()
        return sequence

    async def _drive(self, lease: Lease, began_at: float) -> None:
        """Drive an execution whose lease was just taken; its acquisition began at `began_at`, monotonic."""
        if self._closing:
            await self.store.release(lease)
            return
        log = await self.read_log(lease.name)
        clock = create_steady_clock(self._clock, self._monotonic, log[-1].created_at)
        held_lease = HeldLease(lease, began_at, self._ownership.lease_seconds, self._monotonic)
        leased_log = _LeasedLog(self.store, lease, self._notify_watchers)
        recorder = ExecutionRecorder(replay(log), leased_log, clock, may_act=held_lease.is_valid)
        driven = _DrivenExecution(held_lease, recorder)
        self.driven[lease.name] = driven
        # A new context, because the deadline of the call does not apply to the execution.
        driven.task = asyncio.create_task(
            self._run_driver(driven), name=f"execution {lease.name}", context=contextvars.Context()
        )

    async def _run_driver(self, driven: _DrivenExecution) -> None:
        execution_id = driven.lease.lease.name
        try:
            await self._executor.drive(driven.recorder, self._open_channel(driven.recorder.state))
        except LeaseLost:
            _log.warning("execution is driven by another replica", execution_id=execution_id)
        except Exception:  # the store failed: the lease expires, and the next sweep resumes from the log
            _log.exception("execution driver failed", execution_id=execution_id)
        finally:
            if self.driven.get(execution_id) is driven:
                del self.driven[execution_id]
            self._notify_watchers(execution_id)
            if self._closing:
                await self.store.release(driven.lease.lease)

    def _open_channel(self, state: ExecutionState) -> InterventionChannel:
        if state.human_available:
            return InterventionChannel()
        rules = self._executor.rules
        return InterventionHandler(policy=rules.policy, replans=rules.replans, clock=self._clock)

    # Background tasks

    async def renew_leases(self) -> None:
        """Renew the leases, and notify drivers of events that others wrote. Run until cancelled."""
        pause = min(self._ownership.lease_seconds / 3, 2.0)
        await repeat(pause, self.renew, first_pause=pause)

    async def renew(self) -> None:
        """Renew all leases once; cancel executions whose lease is lost, and notify the watchers of new events."""
        driven = list(self.driven.values())
        if not driven:
            return
        before = self._monotonic()
        sequences = await self.store.renew([execution.lease.lease for execution in driven], self._clock())
        for execution in driven:
            execution_id = execution.lease.lease.name
            sequence = sequences.get(execution_id)
            if sequence is None:
                if execution.task is not None and self.driven.get(execution_id) is execution:
                    execution.task.cancel()
            else:
                execution.lease.renewed_at = before
                if sequence > execution.recorder.state.sequence:
                    execution.recorder.interrupted.set()

    async def sweep(self) -> None:
        """Handle expired questions and orphaned executions. Run until cancelled."""
        await repeat(min(self._ownership.lease_seconds / 2, 1.0), self.sweep_once)

    async def sweep_once(self) -> None:
        """Apply the default answer to expired questions (P-85, P-130), and take over orphaned executions."""
        for execution_id in await self.store.list_expired(self._clock(), _SWEEP_BATCH):
            await self._try_sweep(execution_id, self._decide(execution_id, self._expire, None))
        for state in await self._find_orphans():
            await self._try_sweep(state.name, self._take_over(state))

    async def _try_sweep(self, execution_id: str, work: Awaitable[object]) -> None:
        """Do the work on one execution; a failure, such as a corrupt log, is logged and stops no other execution."""
        try:
            await work
        except Exception as error:
            _log.warning(
                "execution could not be resumed; trying again later",
                execution_id=execution_id,
                error=str(error),
                exc_info=not isinstance(error, HanseiError),
            )

    async def _take_over(self, observed: LeaseState) -> None:
        now, began_at = self._clock(), self._monotonic()
        lease = await self.store.acquire(observed, self._ownership.owner, now)
        if lease is not None:
            await self._drive(lease, began_at)

    async def _find_orphans(self) -> list[LeaseState]:
        """Return the leases of running executions that are free, or whose holder is dead."""
        running = await self.store.list_running(_MAX_OBSERVED)
        return self._monitor.find_free_leases([state for state in running if state.name not in self.driven])[
            :_SWEEP_BATCH
        ]

    def _expire(self, state: ExecutionState, log: Sequence[RecordedEvent]) -> StateChange:
        now, request = self._clock(), state.intervention_request
        if not state.is_paused or request is None or state.expires_at is None or now < state.expires_at:
            return StateChange([])
        rules = self._executor.rules
        return StateChange([interpret_timeout(state, request, rules.policy, rules.replans, now)], take_lease=True)


def _refuse_too_much(present: Sequence[str], text: str) -> None:
    """Raise TooMuchInformation beyond the limits of an execution. Each replan reads all of its information."""
    if len(present) >= MAX_INFORMATION:
        raise TooMuchInformation(
            f"cannot be added: an execution may have at most {MAX_INFORMATION} texts of information"
        )
    total = sum(map(len, present)) + len(text)
    if total > MAX_INFORMATION_CHARS:
        raise TooMuchInformation(
            f"must not raise the information of the execution above {MAX_INFORMATION_CHARS} characters (now {total})"
        )
