"""Executions as clients see them: started, followed, answered, cancelled; driven by whoever holds their lease."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from chassis.logging import get_logger
from libs.storage.idempotency import IdempotencyKey
from libs.storage.leases import HeldLease, Lease, LeaseMonitor, LeaseState
from services.planner.domain.answers import interpret_response, interpret_timeout
from services.planner.domain.errors import AnswerRefused, LeaseLost, RunEnded, RunNotPaused
from services.planner.domain.events import (
    Budget,
    CancelRequested,
    Event,
    Finished,
    InformationAdded,
    Recorded,
)
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import apply, replay
from services.planner.domain.interventions import InterventionResponse
from services.planner.domain.plans import ExecutionPlan, utc_now
from services.planner.domain.results import ExecutionResult
from services.planner.usecases.execute import Executor
from services.planner.usecases.interventions import DeferredAnswers, InterventionChannel, InterventionHandler
from services.planner.usecases.ports import ExecutionStore, StateChange
from services.planner.usecases.recorder import ExecutionRecorder, steady_clock
from services.planner.usecases.tokens import answer_token, check_token, open_question

_log = get_logger(__name__)

_SWEEP_AT_ONCE = 100
_WATCHED = 1000
"""Running executions, of all replicas, that are watched for a driver that died; those that seem stalest come first."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """How this replica holds executions. `lease_seconds` after its death another one takes them over."""

    owner: str
    lease_seconds: float = 10.0
    poll_seconds: float = 0.5


@dataclass(slots=True)
class _Driven:
    """An execution this replica drives."""

    held: HeldLease
    run: ExecutionRecorder
    task: asyncio.Task[None] | None = None


class _LeasedLog:
    """The log of an execution as its driver writes it (`Log`)."""

    def __init__(self, executions: Executions, lease: Lease) -> None:
        self._executions = executions
        self._lease = lease

    async def append(self, events: Sequence[tuple[Event, datetime]], after: int) -> None:
        driven = self._executions.driven.get(self._lease.name)
        if driven is None:
            raise LeaseLost(self._lease.name)
        await self._executions.store.append(self._lease, events, after, driven.run.state)
        self._executions.changed(self._lease.name)

    async def read(self) -> Sequence[Recorded]:
        return await self._executions.store.read(self._lease.name)


class Executions:
    """All executions of this database, and the ones this replica drives. Paused ones take no memory."""

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
        self.driven: dict[str, _Driven] = {}
        self._executor = executor
        self._own = ownership
        self._clock = clock
        self._monotonic = monotonic
        self._monitor = LeaseMonitor(ownership.lease_seconds, monotonic)
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._key = b""
        self._closing = False

    async def open(self) -> None:
        """Gets ready: the key of the answer tokens."""
        self._key = await self.store.answer_key()

    async def close(self) -> None:
        """Stops driving; the executions stay in the log, their leases are free for others at once."""
        self._closing = True
        for driven in list(self.driven.values()):
            if driven.task is not None:
                driven.task.cancel()
        tasks = [driven.task for driven in self.driven.values() if driven.task]
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                _log.warning("lease could not be released; it has to expire", error=str(outcome))

    # What clients ask for

    async def start(
        self,
        plan: ExecutionPlan,
        budget: Budget | None,
        key: IdempotencyKey | None,
        *,
        human_available: bool = True,
    ) -> str:
        """Begins an execution and drives it; its id. Errors: InvalidPlan, PlanAlreadyRun, RequestIdReused."""
        started = self._executor.started(plan, budget, human_available=human_available)
        now, asked = self._clock(), self._monotonic()
        lease = await self.store.create(started, now, self._own.owner, key)
        execution_id = started.plan.plan_id or ""
        if lease is not None:
            await self._drive(lease, asked)
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
        """Answers the open question; the sequence number of the answer. Of racing answers one wins.

        Errors: RunNotFound, RunNotPaused, AnswerRefused, InvalidPlan.
        """

        def decision(state: ExecutionState, log: Sequence[Recorded]) -> StateChange:
            if not state.is_paused or state.intervention_request is None:
                raise RunNotPaused(execution_id)
            check_token(self._key, execution_id, open_question(log), token, plan_version, step_id)
            now = self._clock()
            if state.expires_at is not None and now >= state.expires_at:
                raise AnswerRefused(f"the question expired at {state.expires_at.isoformat()}")
            took = max(0.0, (now - state.intervention_request.created_at).total_seconds())
            timed = response.model_copy(update={"response_time_ms": round(1000 * took), "timeout_reached": False})
            event = interpret_response(state, state.intervention_request, timed, self._executor.rules.asking)
            return StateChange([event], take_lease=True)

        return await self._decide(execution_id, decision, key)

    async def cancel(self, execution_id: str, reason: str, key: IdempotencyKey | None = None) -> None:
        """Asks for the end of an execution; one that has ended stays as it is (P-131). Errors: RunNotFound."""

        def decision(state: ExecutionState, log: Sequence[Recorded]) -> StateChange:
            if state.result is not None or state.is_cancelled:
                return StateChange([])
            return StateChange([CancelRequested(reason=reason)], take_lease=True)

        await self._decide(execution_id, decision, key)

    async def add_information(self, execution_id: str, text: str, key: IdempotencyKey | None) -> int:
        """Adds information; a replan follows before the next step (P-129). Errors: RunNotFound, RunEnded."""

        def decision(state: ExecutionState, log: Sequence[Recorded]) -> StateChange:
            if state.result is not None or state.is_cancelled:
                raise RunEnded(execution_id)
            return StateChange([InformationAdded(text=text)])

        return await self._decide(execution_id, decision, key)

    async def state(self, execution_id: str) -> ExecutionState:
        """Where an execution is, by its log. Errors: RunNotFound, CorruptLog."""
        return replay(await self.store.read(execution_id))

    async def log(self, execution_id: str) -> Sequence[Recorded]:
        """The whole log of an execution. Errors: RunNotFound, CorruptLog."""
        return await self.store.read(execution_id)

    def token(self, execution_id: str, asked: Recorded) -> str:
        """The answer token of a question."""
        return answer_token(self._key, execution_id, asked)

    async def result(self, execution_id: str) -> ExecutionResult:
        """The result of an execution, once it has ended."""
        async for recorded, _ in self.watch(execution_id):
            if isinstance(recorded.event, Finished):
                return recorded.event.result
        raise RunEnded(execution_id)

    async def watch(
        self, execution_id: str, after: int = 0, *, until_paused: bool = False
    ) -> AsyncIterator[tuple[Recorded, ExecutionState]]:
        """The events after a number, without gap or duplicate, then those to come, until the execution ends.

        With each event comes the state up to it. `until_paused`: the stream also ends at a question that is open.
        """
        woken = asyncio.Event()
        self._watchers.setdefault(execution_id, set()).add(woken)
        try:
            state: ExecutionState | None = None
            while True:
                woken.clear()
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
                await self._woken(woken)
        finally:
            self._watchers[execution_id].discard(woken)
            if not self._watchers[execution_id]:
                del self._watchers[execution_id]

    async def _woken(self, event: asyncio.Event) -> None:
        """Waits for a change; looks anyway after a while, because another replica may drive the execution."""
        try:
            await asyncio.wait_for(event.wait(), self._own.poll_seconds)
        except TimeoutError:
            return

    def changed(self, execution_id: str) -> None:
        """Wakes those who watch an execution."""
        for event in self._watchers.get(execution_id, ()):
            event.set()

    # Driving

    async def _decide(
        self,
        execution_id: str,
        decision: Callable[[ExecutionState, Sequence[Recorded]], StateChange],
        key: IdempotencyKey | None,
    ) -> int:
        now, asked = self._clock(), self._monotonic()
        sequence, lease = await self.store.decide(execution_id, decision, now, self._own.owner, key)
        self.changed(execution_id)
        driven = self.driven.get(execution_id)
        if lease is not None:
            await self._drive(lease, asked)
        elif driven is not None:
            driven.run.interrupted.set()
        return sequence

    async def _drive(self, lease: Lease, asked: float) -> None:
        """Drives an execution whose lease was just taken; it was asked for at `asked`, monotonic."""
        if self._closing:
            await self.store.release(lease)
            return
        log = await self.log(lease.name)
        clock = steady_clock(self._clock, self._monotonic, log[-1].created_at)
        held = HeldLease(lease, asked, self._own.lease_seconds, self._monotonic)
        driven = _Driven(held, ExecutionRecorder(replay(log), _LeasedLog(self, lease), clock, may_act=held.is_valid))
        self.driven[lease.name] = driven
        # A context of its own: the deadline of the call that began the execution is not the execution's.
        driven.task = asyncio.create_task(
            self._driving(driven), name=f"execution {lease.name}", context=contextvars.Context()
        )

    async def _driving(self, driven: _Driven) -> None:
        execution_id = driven.held.lease.name
        try:
            await self._executor.drive(driven.run, self._asking(driven.run.state))
        except LeaseLost:
            _log.warning("execution is driven by another replica", execution_id=execution_id)
        except Exception:  # the store failed: the lease runs out and whoever sweeps next goes on from the log
            _log.exception("execution stopped", execution_id=execution_id)
        finally:
            if self.driven.get(execution_id) is driven:
                del self.driven[execution_id]
            self.changed(execution_id)
            if self._closing:
                await self.store.release(driven.held.lease)

    def _asking(self, state: ExecutionState) -> InterventionChannel:
        if state.human_available:
            return DeferredAnswers()
        rules = self._executor.rules
        return InterventionHandler(policy=rules.asking, replans=rules.replans, clock=self._clock)

    # What goes on in the background

    async def keep_leases(self) -> None:
        """Prolongs the leases, and tells drivers what others wrote. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(min(self._own.lease_seconds / 3, 2.0))
            try:
                await self.renew()
            except Exception:  # the store may be back in time; if not, the leases run out, as they must
                _log.exception("leases were not renewed")

    async def renew(self) -> None:
        """Prolongs the leases once."""
        driven = list(self.driven.values())
        if not driven:
            return
        before = self._monotonic()
        sequences = await self.store.renew([each.held.lease for each in driven], self._clock())
        for each in driven:
            execution_id = each.held.lease.name
            sequence = sequences.get(execution_id)
            if sequence is None:
                if each.task is not None and self.driven.get(execution_id) is each:
                    each.task.cancel()
            else:
                each.held.renewed_at = before
                if sequence > each.run.state.sequence:
                    each.run.interrupted.set()

    async def sweep(self) -> None:
        """Looks after expired questions and orphaned executions. Runs until it is cancelled."""
        while True:
            try:
                await self.sweep_once()
            except Exception:  # a database that does not answer now may do so at the next round
                _log.exception("sweep failed")
            await asyncio.sleep(min(self._own.lease_seconds / 2, 1.0))

    async def sweep_once(self) -> None:
        """Answers expired questions as nobody does (P-85, P-130), and takes over executions that nobody drives."""
        for execution_id in await self.store.list_expired(self._clock(), _SWEEP_AT_ONCE):
            await self._decide(execution_id, self._expired, None)
        for state in await self._orphaned():
            now, asked = self._clock(), self._monotonic()
            lease = await self.store.acquire(state, self._own.owner, now)
            if lease is not None:
                await self._drive(lease, asked)

    async def _orphaned(self) -> list[LeaseState]:
        """Return the leases of running executions that nobody holds, or whose holder is gone."""
        running = await self.store.running(_WATCHED)
        return self._monitor.takeable([state for state in running if state.name not in self.driven])[:_SWEEP_AT_ONCE]

    def _expired(self, state: ExecutionState, log: Sequence[Recorded]) -> StateChange:
        now, request = self._clock(), state.intervention_request
        if not state.is_paused or request is None or state.expires_at is None or now < state.expires_at:
            return StateChange([])
        rules = self._executor.rules
        return StateChange([interpret_timeout(state, request, rules.asking, rules.replans, now)], take_lease=True)
