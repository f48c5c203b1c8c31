"""Execute plans: ask the state for the next moves, make them, and record their events (P-36 to P-57)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from chassis.errors import shorten
from chassis.logging import get_logger
from libs.storage.errors import StoreFull, StoreReadOnly, StoreUnavailable
from services.planner.domain import events, moves
from services.planner.domain.confidence import ConfidenceWeights
from services.planner.domain.errors import LeaseLost
from services.planner.domain.events import Event
from services.planner.domain.execution import ExecutionState, StepToolCall
from services.planner.domain.interventions import InterventionRequest
from services.planner.domain.moves import ExecutionRules
from services.planner.domain.plans import ExecutionPlan, StepStatus, prepare_plan, utc_now
from services.planner.domain.results import ToolResult, build_failed_result
from services.planner.domain.texts import TEXTS
from services.planner.domain.thresholds import InterventionLevel
from services.planner.domain.tools import build_tool_input
from services.planner.usecases.calls import validate_result
from services.planner.usecases.guarded_calls import GuardedToolCalls
from services.planner.usecases.interventions import InterventionChannel
from services.planner.usecases.judge import StepJudge
from services.planner.usecases.recorder import ExecutionRecorder
from services.planner.usecases.replan import ReplanOrchestrator
from services.planner.usecases.tools import ToolRegistry

_log = get_logger(__name__)

T = TypeVar("T")

_STOP_SECONDS = 2.0
_RECONCILE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes plans. Holds no state of any execution."""

    tools: ToolRegistry
    judge: StepJudge
    replanner: ReplanOrchestrator
    rules: ExecutionRules = field(default_factory=ExecutionRules)
    weights: ConfidenceWeights = field(default_factory=ConfidenceWeights)
    calls: GuardedToolCalls = field(default_factory=GuardedToolCalls)
    clock: Callable[[], datetime] = utc_now

    def make_started(
        self, plan: ExecutionPlan, budget: events.Budget | None = None, *, human_available: bool = True
    ) -> events.ExecutionStarted:
        """Return the first event of an execution. Raises InvalidPlan (P-144)."""
        return events.ExecutionStarted(
            plan=prepare_plan(plan, language=self.rules.language),
            budget=budget or events.Budget(),
            human_available=human_available,
            max_replans=self.rules.replans.max_replans,
            language=self.rules.language,
        )

    async def drive(self, recorder: ExecutionRecorder, channel: InterventionChannel) -> None:
        """Advance an execution until it pauses or ends. Raises LeaseLost, and the errors of its store."""
        await _Driver(self, recorder, channel).run()


class _Driver:
    """Drives one execution."""

    def __init__(self, executor: Executor, recorder: ExecutionRecorder, channel: InterventionChannel) -> None:
        self._executor = executor
        self._recorder = recorder
        self._channel = channel
        self._tasks: dict[asyncio.Task[Event], int] = {}

    @property
    def _state(self) -> ExecutionState:
        return self._recorder.state

    async def run(self) -> None:
        """Make moves until the execution pauses or ends."""
        try:
            await self._recorder.flush()
            await self._recover()
            while await self._turn():
                pass
        except (LeaseLost, StoreUnavailable, StoreFull, StoreReadOnly):  # the execution is resumed from its log
            raise
        except Exception as error:  # P-53: the execution always ends with a result
            _log.exception("execution failed unexpectedly", execution_id=self._state.execution_id)
            await self._stop()
            self._end(crash=shorten(str(error) or type(error).__name__, 300))
            await self._recorder.flush()
        finally:
            await self._stop()

    async def _turn(self) -> bool:
        """Make all moves that are possible now, or wait for a change; return False when there is none to wait for."""
        possible = moves.choose_moves(self._state, self._executor.rules, self._recorder.get_time())
        next_moves = [move for move in possible if not self._is_judging(move)]
        if not next_moves:
            await self._recorder.flush()
            if not self._tasks:
                return False
            await self._wait()
            return True
        calls = [self._record_intent(move) for move in next_moves if isinstance(move, moves.CallTool)]
        for move in next_moves:
            if not isinstance(move, moves.CallTool):
                await self._make_move(move)
        if calls:
            await self._recorder.flush()
            for step_id in calls:
                self._launch(step_id)
        return True

    def _is_judging(self, move: moves.Move) -> bool:
        return isinstance(move, moves.JudgeStep) and move.step_id in self._tasks.values()

    def _record_intent(self, move: moves.CallTool) -> int:
        """Record the intent of a call; the call itself follows after the flush."""
        tool = self._executor.tools.get(move.action)
        key = f"{self._state.execution_id}:{move.step_id}:{move.attempt}"
        effect = tool.effect if tool else events.Effect.PURE
        self._recorder.record(
            events.StepStarted(step_id=move.step_id, action=move.action, attempt=move.attempt, key=key, effect=effect)
        )
        return move.step_id

    def _launch(self, step_id: int) -> None:
        call = self._state.find_last_call(step_id)
        if call is None or call.result is not None or call.in_doubt:
            return
        if not self._recorder.may_act():
            raise LeaseLost(self._state.execution_id)
        self._track(step_id, self._call_tool(step_id, call))

    def _track(self, step_id: int, work: Coroutine[Any, Any, Event]) -> None:
        self._tasks[asyncio.ensure_future(work)] = step_id

    async def _call_tool(self, step_id: int, call: StepToolCall) -> Event:
        tool = self._executor.tools.get(call.action)
        if tool is None:
            result = build_failed_result(f"Unknown action: {call.action.value}")
        else:
            tool_input = build_tool_input(self._state, self._state.plan.get_step(step_id), call.action, call.key)
            result = await self._executor.calls.run(tool, tool_input)
        return events.ToolReturned(step_id=step_id, attempt=call.attempt, result=result)

    async def _make_move(self, move: moves.Move) -> None:
        """Make one move that is not a call."""
        match move:
            case moves.JudgeStep():
                await self._judge(move.step_id)
            case moves.SkipStep():
                self._recorder.record(events.StepSkipped(step_id=move.step_id, reason=move.reason))
            case moves.AskPerson():
                await self._ask(move.request)
            case moves.ReplanSteps() | moves.ReplacePlan():
                await self._replan(move)
            case moves.RefuseReplan():
                self._recorder.record(events.ReplanRefused(trigger=move.trigger))
            case moves.FinishExecution():
                await self._stop()
                if move.reason:
                    self._recorder.record(events.LogLine(message=move.reason))
                self._end(move.reason)

    async def _judge(self, step_id: int) -> None:
        """Judge at once if that calls no model, else beside the running calls, after the result is stored."""
        is_exhausted = moves.find_exhausted_limit(self._state, self._recorder.get_time()) is not None
        if is_exhausted or not self._executor.judge.needs_model(self._state, step_id):
            await self._take_event(
                await self._executor.judge.judge(self._state, step_id, skips_model_calls=is_exhausted)
            )
        else:
            await self._recorder.flush()
            self._track(step_id, self._executor.judge.judge(self._state, step_id))

    async def _take_event(self, event: Event) -> None:
        self._recorder.record(event)
        if isinstance(event, events.ToolReturned):
            for text in event.result.advice:
                self._recorder.record(events.LogLine(message=text, step_id=event.step_id))
        if (
            isinstance(event, events.StepFinished)
            and event.status == "success"
            and event.level is InterventionLevel.NOTIFY
        ):
            message = TEXTS[self._state.language].notice.format(step_id=event.step_id, score=event.confidence.score)
            self._recorder.record(events.LogLine(message=message, step_id=event.step_id))
            await self._channel.notify(message)

    async def _ask(self, request: InterventionRequest) -> None:
        expires = self._recorder.get_time() + timedelta(seconds=request.timeout_seconds)
        self._recorder.record(
            events.InterventionRequested(
                request=request.model_copy(update={"plan": None}),
                plan_version=self._state.plan_version,
                expires_at=expires,
            )
        )
        # No flush before the answer: a log that ends with a question is a paused execution, which nobody drives.
        answer = await self._channel.answer(self._state, request, self._recorder.get_time())
        if answer is not None:
            self._recorder.record(answer)

    async def _replan(self, move: moves.ReplanSteps | moves.ReplacePlan) -> None:
        await self._recorder.flush()
        replanner, state = self._executor.replanner, self._state
        if isinstance(move, moves.ReplanSteps):
            work = replanner.replan(state, move.trigger, move.step_id, move.text)
        elif state.plan_change is not None:
            work = replanner.replace(state, state.plan_change)
        else:
            return
        event = await self._run_interruptibly(work)
        if event is not None:
            self._recorder.record(event)

    async def _run_interruptibly(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of `work`; None if the execution is cancelled or out of time before."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await self._wait_for_progress({task})
                if self._state.is_cancelled or moves.find_exhausted_limit(self._state, self._recorder.get_time()):
                    return None
            return task.result()
        finally:
            task.cancel()

    async def _wait(self) -> None:
        """Wait until a call returns, an interrupt arrives, or the time is used up."""
        await self._wait_for_progress(set(self._tasks))
        for task in [task for task in self._tasks if task.done()]:
            del self._tasks[task]
            await self._take_event(task.result())
        if self._is_out_of_time():
            await self._stop()
            for step in self._state.plan.steps:
                self._fail_call(step.step_id)

    async def _wait_for_progress(self, tasks: set[asyncio.Task[T]]) -> None:
        """Wait until a task ends, the deadline of the execution passes, or another caller changes the log."""
        now = self._recorder.get_time()
        deadline = moves.compute_wall_deadline(self._state, now)
        seconds = None if deadline is None else max(0.0, (deadline - now).total_seconds())
        interrupted = asyncio.ensure_future(self._recorder.interrupted.wait())
        try:
            await asyncio.wait({*tasks, interrupted}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupted.cancel()
        if self._recorder.interrupted.is_set():
            await self._recorder.refresh()

    def _is_out_of_time(self) -> bool:
        limit = self._state.budget.max_wall_seconds
        return limit is not None and self._state.compute_wall_seconds(self._recorder.get_time()) >= limit

    def _fail_call(self, step_id: int) -> None:
        """Record the failure of a call that was stopped because the time is used up."""
        call = self._state.find_last_call(step_id)
        if self._state.step_statuses[step_id] is StepStatus.RUNNING and call is not None and call.result is None:
            result = build_failed_result("stopped: the execution's time is used up", timed_out=True)
            self._recorder.record(events.ToolReturned(step_id=step_id, attempt=call.attempt, result=result))

    async def _stop(self) -> None:
        """Cancel all running tasks; a tool that ignores the cancellation is abandoned."""
        tasks, self._tasks = list(self._tasks), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)

    def _end(self, reason: str = "", *, crash: str | None = None) -> None:
        for step in self._state.plan.steps:
            if self._state.step_statuses[step.step_id] in (StepStatus.PENDING, StepStatus.RUNNING):
                self._recorder.record(events.StepSkipped(step_id=step.step_id, reason=moves.ENDED_EARLY))
        now, weights = self._recorder.get_time(), self._executor.weights
        self._recorder.record(
            events.ExecutionFinished(result=self._state.make_result(now, weights, reason=reason, crash=crash))
        )

    async def _recover(self) -> None:
        """Resolve the calls during which a previous executor died, each by its effect."""
        if self._state.result is not None or self._state.is_cancelled:
            return
        for step in self._state.plan.steps:
            call = self._state.find_last_call(step.step_id)
            running = self._state.step_statuses[step.step_id] is StepStatus.RUNNING
            if not running or call is None or call.result is not None or call.in_doubt:
                continue
            if call.effect is events.Effect.UNSAFE:
                self._recorder.record(events.StepInDoubt(step_id=step.step_id, attempt=call.attempt))
            elif call.effect is events.Effect.RECONCILABLE:
                await self._reconcile(step.step_id, call)
            else:
                self._launch(step.step_id)
        await self._recorder.flush()

    async def _reconcile(self, step_id: int, call: StepToolCall) -> None:
        """Find out whether the call happened; if not, call again; if that is unknown, leave the call in doubt."""
        tool = self._executor.tools.get(call.action)
        find_outcome = getattr(tool, "find_outcome", None)
        try:
            if find_outcome is None:
                raise LookupError(f"tool {call.action.value} does not implement find_outcome")
            outcome: ToolResult | None = await asyncio.wait_for(find_outcome(call.key), _RECONCILE_SECONDS)
        except Exception as error:  # after any failure the call stays in doubt
            _log.warning("outcome of a tool call is unknown", call=call.key, error=shorten(str(error)))
            self._recorder.record(events.StepInDoubt(step_id=step_id, attempt=call.attempt))
            return
        if outcome is None:
            self._launch(step_id)
        else:
            self._recorder.record(
                events.ToolReturned(step_id=step_id, attempt=call.attempt, result=validate_result(outcome))
            )
