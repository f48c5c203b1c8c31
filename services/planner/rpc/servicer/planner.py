"""PlannerService: plans are made, executed, followed and answered."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from hansei.planner.v1 import planner_service_pb2_grpc as rpc
from libs.storage.idempotency import IdempotencyKey
from libs.storage.page_tokens import decode_page_token, encode_page_token
from libs.storage.timestamps import from_microseconds, to_microseconds
from services.planner.domain.errors import EmptyQuery
from services.planner.domain.events import Budget
from services.planner.domain.fold import replayed
from services.planner.domain.mermaid import mermaid
from services.planner.domain.plans import executable, prefix_of, utc_now
from services.planner.rpc.convert.executions import STATUSES_BACK, event_to, execution_to, summary_to
from services.planner.rpc.convert.plans import (
    answer_from,
    budget_from,
    plan_from,
    plan_to,
    result_to,
    thresholds_to,
)
from services.planner.usecases.audit import audited
from services.planner.usecases.executions import Executions
from services.planner.usecases.feedback import FeedbackBook
from services.planner.usecases.plan import Planner
from services.planner.usecases.ports import Filter
from services.planner.usecases.tokens import open_question

_PAGE_SIZE = 50


class PlannerServicer(rpc.PlannerServiceServicer):
    """Serves plans and their executions."""

    def __init__(
        self,
        planner: Planner,
        executions: Executions,
        feedback: FeedbackBook,
        most: Budget,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._planner = planner
        self._executions = executions
        self._feedback = feedback
        self._most = most
        self._clock = clock

    async def CreatePlan(self, request: service_pb.CreatePlanRequest, context: Any) -> service_pb.CreatePlanResponse:
        """A plan for a query (P-15, P-19)."""
        made = await self._planner.create_plan(request.query, request.hints or None, prefix=request.prefix)
        return service_pb.CreatePlanResponse(
            plan=plan_to(made.plan), from_template=made.from_template, template_reason=made.template_reason
        )

    async def RefinePlan(self, request: service_pb.RefinePlanRequest, context: Any) -> service_pb.RefinePlanResponse:
        """A plan made anew with feedback (P-22)."""
        plan = executable(plan_from(request.plan), request.prefix)
        made = await self._planner.refine_plan(plan, request.feedback)
        return service_pb.RefinePlanResponse(plan=plan_to(made.plan), changed=made.plan != plan)

    async def EstimateComplexity(
        self, request: service_pb.EstimateComplexityRequest, context: Any
    ) -> service_pb.EstimateComplexityResponse:
        """How demanding a query is (P-13)."""
        if not request.query.strip():
            raise EmptyQuery
        complexity = await self._planner.estimate_complexity(request.query)
        needs_model = complexity >= self._planner.simple_threshold
        return service_pb.EstimateComplexityResponse(complexity=complexity, needs_model=needs_model)

    async def DrawPlan(self, request: service_pb.DrawPlanRequest, context: Any) -> service_pb.DrawPlanResponse:
        """A plan as mermaid text."""
        if request.WhichOneof("subject") == "plan":
            return service_pb.DrawPlanResponse(mermaid=mermaid(executable(plan_from(request.plan))))
        state = await self._executions.state(request.execution_id)
        return service_pb.DrawPlanResponse(mermaid=mermaid(state.plan, state.step_statuses))

    async def RunPlan(self, request: service_pb.RunPlanRequest, context: Any) -> service_pb.RunPlanResponse:
        """The result of a plan executed with nobody there."""
        execution_id = await self._started(request, human_available=False)
        return service_pb.RunPlanResponse(result=result_to(await self._executions.result(execution_id)))

    async def ExecutePlan(
        self, request: service_pb.ExecutePlanRequest, context: Any
    ) -> AsyncIterator[service_pb.ExecutePlanResponse]:
        """The events of a plan's execution until it pauses or ends."""
        execution_id = await self._started(request, human_available=True)
        async for event in self._events(execution_id, 0, until_paused=True):
            yield service_pb.ExecutePlanResponse(event=event)

    async def ResumePlan(
        self, request: service_pb.ResumePlanRequest, context: Any
    ) -> AsyncIterator[service_pb.ResumePlanResponse]:
        """The events from an answer on, until the execution pauses again or ends."""
        sequence = await self._executions.answer(
            request.execution_id,
            answer_from(request.response),
            request.answer_token,
            request.plan_version,
            request.step_id if request.HasField("step_id") else None,
            _execution_key(request),
        )
        async for event in self._events(request.execution_id, sequence - 1, until_paused=True):
            yield service_pb.ResumePlanResponse(event=event)

    async def WatchExecution(
        self, request: service_pb.WatchExecutionRequest, context: Any
    ) -> AsyncIterator[service_pb.WatchExecutionResponse]:
        """The events of an execution after a sequence number."""
        async for event in self._events(
            request.execution_id, request.after_sequence, until_paused=request.until_paused
        ):
            yield service_pb.WatchExecutionResponse(event=event)

    async def GetExecution(
        self, request: service_pb.GetExecutionRequest, context: Any
    ) -> service_pb.GetExecutionResponse:
        """Where an execution is."""
        return service_pb.GetExecutionResponse(execution=await self._execution(request.execution_id))

    async def ListExecutions(
        self, request: service_pb.ListExecutionsRequest, context: Any
    ) -> service_pb.ListExecutionsResponse:
        """Executions, newest first."""
        size = request.page_size or _PAGE_SIZE
        cursor = decode_page_token(request, int, str)
        after = request.started_after.ToDatetime(UTC) if request.HasField("started_after") else None
        wanted = Filter(
            STATUSES_BACK.get(request.status),
            request.query_contains,
            after,
            None if cursor is None else (from_microseconds(cursor[0]), cursor[1]),
            size + 1,
            request.prefix,
        )
        found = await self._executions.store.listed(wanted)
        page = found[:size]
        last = (to_microseconds(page[-1].started_at), page[-1].execution_id) if len(found) > size else None
        return service_pb.ListExecutionsResponse(
            executions=[summary_to(summary) for summary in page],
            next_page_token=encode_page_token(request, *last) if last else "",
        )

    async def CancelExecution(
        self, request: service_pb.CancelExecutionRequest, context: Any
    ) -> service_pb.CancelExecutionResponse:
        """Asks for the end of an execution (P-131)."""
        await self._executions.cancel(request.execution_id, request.reason, _execution_key(request))
        return service_pb.CancelExecutionResponse(execution=await self._execution(request.execution_id))

    async def AddInformation(
        self, request: service_pb.AddInformationRequest, context: Any
    ) -> service_pb.AddInformationResponse:
        """Adds information to an execution (P-129)."""
        sequence = await self._executions.add_information(request.execution_id, request.text, _execution_key(request))
        return service_pb.AddInformationResponse(sequence=sequence)

    async def AuditExecution(
        self, request: service_pb.AuditExecutionRequest, context: Any
    ) -> service_pb.AuditExecutionResponse:
        """What a replay of the log finds."""
        found = await audited(self._executions.store, request.execution_id)
        response = service_pb.AuditExecutionResponse(
            intact=not found.findings, events=found.events, findings=found.findings
        )
        if found.state is not None:
            response.execution.CopyFrom(execution_to(found.state, None, lambda _: "", self._clock()))
        return response

    async def SubmitFeedback(
        self, request: service_pb.SubmitFeedbackRequest, context: Any
    ) -> service_pb.SubmitFeedbackResponse:
        """Takes feedback; the thresholds of the next decision follow."""
        confidence = request.confidence if request.HasField("confidence") else None
        adjusted = await self._feedback.submit(
            confidence, request.correct, request.execution_id, request.step_id, _key(request)
        )
        return service_pb.SubmitFeedbackResponse(
            thresholds=thresholds_to(self._feedback.gate.thresholds),
            adjusted=adjusted,
            records=self._feedback.records,
        )

    async def GetThresholds(
        self, request: service_pb.GetThresholdsRequest, context: Any
    ) -> service_pb.GetThresholdsResponse:
        """The thresholds in force."""
        gate = self._feedback.gate
        return service_pb.GetThresholdsResponse(
            thresholds=thresholds_to(gate.thresholds),
            configured=thresholds_to(gate.configured),
            mode=gate.mode,
            records=self._feedback.records,
            calibration=gate.calibration.kind,
            calibration_log_loss=gate.calibration.log_loss,
        )

    async def _started(
        self, request: service_pb.RunPlanRequest | service_pb.ExecutePlanRequest, *, human_available: bool
    ) -> str:
        plan, budget = plan_from(request.plan), budget_from(request.budget, self._most)
        if plan.plan_id is None and request.request_id:
            # A replay must find the execution of the first try, so the id follows from the request.
            own = hashlib.sha256(request.request_id.encode()).hexdigest()[:12]
            plan = plan.model_copy(update={"plan_id": request.prefix + own})
        plan = executable(plan, request.prefix)
        key = _key(request, plan.prefix)
        return await self._executions.start(plan, budget, key, human_available=human_available)

    async def _execution(self, execution_id: str) -> pb.Execution:
        log = await self._executions.log(execution_id)
        state = replayed(log)
        asked = open_question(log) if state.is_paused else None
        return execution_to(state, asked, lambda each: self._executions.token(execution_id, each), self._clock())

    async def _events(self, execution_id: str, after: int, *, until_paused: bool) -> AsyncIterator[pb.ExecutionEvent]:
        async for recorded, state in self._executions.watch(execution_id, after, until_paused=until_paused):
            yield event_to(execution_id, recorded, state, lambda each: self._executions.token(execution_id, each))


def _key(message: Any, scope: str = "") -> IdempotencyKey | None:
    """Return the idempotency key of a mutation; None if the client gave no request_id."""
    return IdempotencyKey.for_message(message, scope=scope) if message.request_id else None


def _execution_key(message: Any) -> IdempotencyKey | None:
    return _key(message, prefix_of(message.execution_id))
