"""The in-process API that the specification names: plans run in a program, without a store (P-36, P-47)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from services.planner.domain import events
from services.planner.domain.answers import interpret_response
from services.planner.domain.events import Budget, Event, LogLine, RecordedEvent
from services.planner.domain.execution import ExecutionState
from services.planner.domain.interventions import InterventionResponse
from services.planner.domain.plans import ExecutionPlan, prepare_plan
from services.planner.domain.results import ExecutionResult
from services.planner.usecases.execute import Executor
from services.planner.usecases.interventions import InterventionChannel, InterventionHandler
from services.planner.usecases.recorder import ExecutionRecorder

_REPORTED_EVENTS = (
    events.StepFinished,
    events.StepSkipped,
    events.InterventionRequested,
    events.Replanned,
    events.ExecutionFinished,
)


class MemoryLog:
    """A log that lasts as long as the process."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []

    async def append(self, new_events: Sequence[tuple[Event, datetime]], after: int, state: ExecutionState) -> None:
        """Append the events; there is no other writer."""
        for number, (event, time) in enumerate(new_events, start=after + 1):
            self.events.append(RecordedEvent(sequence=number, created_at=time, event=event))

    async def read(self) -> Sequence[RecordedEvent]:
        """Return the log; empty if the execution began from a state that the caller passed in."""
        return self.events if self.events and isinstance(self.events[0].event, events.ExecutionStarted) else []


@dataclass(frozen=True, slots=True)
class InProcessExecutor(Executor):
    """An executor that runs whole plans in this process."""

    async def execute_plan(
        self, plan: ExecutionPlan, budget: Budget | None = None, *, people: InterventionHandler | None = None
    ) -> ExecutionResult:
        """Run a plan to its end; `people` answers the questions, the default response without it (P-36)."""
        started = self.make_started(plan, budget, human_available=people is not None)
        recorder = ExecutionRecorder(ExecutionState(started.plan), MemoryLog(), self.clock)
        recorder.record(started)
        default_handler = InterventionHandler(policy=self.rules.policy, replans=self.rules.replans, clock=self.clock)
        await self.drive(recorder, people or default_handler)
        if recorder.state.result is None:
            raise RuntimeError("an execution whose questions are answered must end with a result")
        return recorder.state.result

    async def execute_plan_generator(
        self,
        plan: ExecutionPlan,
        state: ExecutionState | None = None,
        response: InterventionResponse | None = None,
    ) -> AsyncIterator[ExecutionState | LogLine]:
        """Yield the state after every step, and the log lines, until the execution pauses or ends (P-36, P-47).

        To resume, call it again with the last state and the response to its `intervention_request` (P-48).
        """
        reports: asyncio.Queue[ExecutionState | LogLine | None] = asyncio.Queue()
        first = state.copy() if state else ExecutionState(prepare_plan(plan))
        recorder = ExecutionRecorder(first, MemoryLog(), self.clock, _build_reporter(reports))
        if state is None:
            recorder.record(self.make_started(recorder.state.plan))
        elif state.intervention_request is not None and response is not None:
            recorder.record(interpret_response(recorder.state, state.intervention_request, response, self.rules.policy))
        driver = asyncio.ensure_future(self.drive(recorder, InterventionChannel()))
        driver.add_done_callback(lambda _: reports.put_nowait(None))
        try:
            while (report := await reports.get()) is not None:
                yield report
            await driver
        finally:
            driver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await driver


def _build_reporter(
    reports: asyncio.Queue[ExecutionState | LogLine | None],
) -> Callable[[ExecutionState, Event], None]:
    def enqueue_report(state: ExecutionState, event: Event) -> None:
        if isinstance(event, LogLine):
            reports.put_nowait(event)
        elif isinstance(event, _REPORTED_EVENTS):
            reports.put_nowait(state.copy())

    return enqueue_report
