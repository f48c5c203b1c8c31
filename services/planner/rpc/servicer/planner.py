"""Serve PlannerService: make plans, execute them, stream their events, take answers."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from typing import Any

from chassis.server.messages import decode_enum, decode_time, encode
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as api
from hansei.planner.v1 import planner_service_pb2_grpc as rpc
from libs.llm.usage import collect_usage, encode_usage
from libs.storage.idempotency import IdempotencyKey
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.planner.domain.errors import EmptyQuery, PriceUnknown
from services.planner.domain.events import Budget
from services.planner.domain.fold import replay
from services.planner.domain.labels import LabelQueue
from services.planner.domain.mermaid import draw_mermaid
from services.planner.domain.plans import parse_prefix, prepare_plan, utc_now
from services.planner.domain.webhooks import ExecutionWebhook
from services.planner.rpc.convert.executions import encode_event, encode_execution
from services.planner.rpc.convert.plans import decode_budget, decode_plan, decode_response
from services.planner.usecases.executions import Executions
from services.planner.usecases.feedback import FeedbackBook
from services.planner.usecases.plan import Planner
from services.planner.usecases.ports import ExecutionFilter, ExecutionStatus
from services.planner.usecases.tokens import find_open_question
from services.planner.usecases.verify_log import verify_log
from services.planner.usecases.webhooks import UrlCheck, create_webhook

_PAGE_SIZE = 50


class PlannerServicer(rpc.PlannerServiceServicer):
    """Serve plans and their executions."""

    def __init__(
        self,
        planner: Planner,
        executions: Executions,
        feedback: FeedbackBook,
        webhook_urls: UrlCheck,
        limits: Budget,
        clock: Callable[[], datetime] = utc_now,
        *,
        unpriced_model: str = "",
    ) -> None:
        """`unpriced_model` is the name of the model if its price is unknown."""
        self._planner = planner
        self._executions = executions
        self._feedback = feedback
        self._webhook_urls = webhook_urls
        self._limits = limits
        self._clock = clock
        self._unpriced_model = unpriced_model

    async def CreatePlan(self, request: api.CreatePlanRequest, context: Any) -> api.CreatePlanResponse:
        """Make a plan for a query (P-15, P-19)."""
        with collect_usage() as usage:
            made = await self._planner.create_plan(
                request.query, request.hints or None, prefix=request.prefix, collection=request.collection
            )
        return api.CreatePlanResponse(
            plan=encode(made.plan, pb.Plan),
            from_template=made.from_template,
            template_reason=made.template_reason,
            model_usage=encode_usage(usage),
        )

    async def RefinePlan(self, request: api.RefinePlanRequest, context: Any) -> api.RefinePlanResponse:
        """Make a plan again with feedback (P-22)."""
        plan = await self._planner.check_plan(decode_plan(request.plan), request.prefix)
        with collect_usage() as usage:
            made = await self._planner.refine_plan(plan, request.feedback)
        return api.RefinePlanResponse(
            plan=encode(made.plan, pb.Plan),
            changed=made.plan != plan,
            reason=made.template_reason,
            model_usage=encode_usage(usage),
        )

    async def EstimateComplexity(
        self, request: api.EstimateComplexityRequest, context: Any
    ) -> api.EstimateComplexityResponse:
        """Estimate the complexity of a query (P-13)."""
        if not request.query.strip():
            raise EmptyQuery
        complexity = await self._planner.estimate_complexity(request.query)
        needs_model = complexity >= self._planner.simple_threshold
        return api.EstimateComplexityResponse(complexity=complexity, needs_model=needs_model)

    async def DrawPlan(self, request: api.DrawPlanRequest, context: Any) -> api.DrawPlanResponse:
        """Return a plan as mermaid text."""
        if request.WhichOneof("subject") == "plan":
            return api.DrawPlanResponse(mermaid=draw_mermaid(prepare_plan(decode_plan(request.plan))))
        state = await self._executions.state(request.execution_id)
        return api.DrawPlanResponse(mermaid=draw_mermaid(state.plan, state.step_statuses))

    async def RunPlan(self, request: api.RunPlanRequest, context: Any) -> api.RunPlanResponse:
        """Execute a plan without a person to ask and return the result."""
        execution_id = await self._start(request, human_available=False)
        return api.RunPlanResponse(result=encode(await self._executions.await_result(execution_id), pb.ExecutionResult))

    async def ExecutePlan(
        self, request: api.ExecutePlanRequest, context: Any
    ) -> AsyncIterator[api.ExecutePlanResponse]:
        """Execute a plan and stream the events until the execution pauses or ends."""
        execution_id = await self._start(request, human_available=True)
        async for event in self._stream_events(execution_id, 0, until_paused=True):
            yield api.ExecutePlanResponse(event=event)

    async def ResumePlan(self, request: api.ResumePlanRequest, context: Any) -> AsyncIterator[api.ResumePlanResponse]:
        """Answer the open question and stream the events until the execution pauses again or ends."""
        response = decode_response(request.response)
        if response.modified_plan is not None:
            changed = response.modified_plan.model_copy(update={"plan_id": None})
            await self._planner.check_plan(changed, parse_prefix(request.execution_id))
        sequence = await self._executions.answer(
            request.execution_id,
            response,
            request.answer_token,
            request.plan_version,
            request.step_id if request.HasField("step_id") else None,
            _build_execution_key(request),
        )
        async for event in self._stream_events(request.execution_id, sequence - 1, until_paused=True):
            yield api.ResumePlanResponse(event=event)

    async def WatchExecution(
        self, request: api.WatchExecutionRequest, context: Any
    ) -> AsyncIterator[api.WatchExecutionResponse]:
        """Stream the events of an execution after a sequence number."""
        async for event in self._stream_events(
            request.execution_id, request.after_sequence, until_paused=request.until_paused
        ):
            yield api.WatchExecutionResponse(event=event)

    async def GetExecution(self, request: api.GetExecutionRequest, context: Any) -> api.GetExecutionResponse:
        """Return the state of an execution."""
        return api.GetExecutionResponse(execution=await self._load_execution(request.execution_id))

    async def ListExecutions(self, request: api.ListExecutionsRequest, context: Any) -> api.ListExecutionsResponse:
        """List executions, newest first."""
        size = request.page_size or _PAGE_SIZE
        status = decode_enum(pb.ExecutionStatus.DESCRIPTOR, request.status)
        execution_filter = ExecutionFilter(
            status=None if status is None else ExecutionStatus(status),
            query_contains=request.query_contains,
            started_after=decode_time(request, "started_after"),
            before=decode_page_token(request, datetime, str),
            limit=size + 1,
            prefix=request.prefix,
        )
        executions = await self._executions.store.list_executions(execution_filter)
        page = executions[:size]
        last = page[-1] if len(executions) > size else None
        return api.ListExecutionsResponse(
            executions=[encode(summary, api.ExecutionSummary) for summary in page],
            next_page_token=encode_page_token(request, last.start_time, last.execution_id) if last else "",
        )

    async def CancelExecution(self, request: api.CancelExecutionRequest, context: Any) -> api.CancelExecutionResponse:
        """Cancel an execution (P-131)."""
        await self._executions.cancel(request.execution_id, request.reason, _build_execution_key(request))
        return api.CancelExecutionResponse(execution=await self._load_execution(request.execution_id))

    async def AddInformation(self, request: api.AddInformationRequest, context: Any) -> api.AddInformationResponse:
        """Add information to an execution (P-129)."""
        sequence = await self._executions.add_information(
            request.execution_id, request.text, _build_execution_key(request)
        )
        return api.AddInformationResponse(sequence=sequence)

    async def CreateWebhook(self, request: api.CreateWebhookRequest, context: Any) -> api.CreateWebhookResponse:
        """Send the changes of the state of an execution to a URL."""
        webhook = ExecutionWebhook(
            request.execution_id,
            request.webhook_id,
            request.url,
            request.token,
            request.authorization,
            request.after_sequence,
        )
        created = await create_webhook(
            self._executions.store, self._webhook_urls, webhook, self._clock(), validate_only=request.validate_only
        )
        return api.CreateWebhookResponse(webhook=_encode_webhook(created))

    async def ListWebhooks(self, request: api.ListWebhooksRequest, context: Any) -> api.ListWebhooksResponse:
        """List the webhooks of an execution."""
        webhooks = await self._executions.store.list_webhooks(request.execution_id)
        return api.ListWebhooksResponse(webhooks=[_encode_webhook(webhook) for webhook in webhooks])

    async def DeleteWebhook(self, request: api.DeleteWebhookRequest, context: Any) -> api.DeleteWebhookResponse:
        """Delete a webhook of an execution."""
        deleted = await self._executions.store.delete_webhook(request.execution_id, request.webhook_id)
        return api.DeleteWebhookResponse(deleted=deleted)

    async def VerifyExecution(self, request: api.VerifyExecutionRequest, context: Any) -> api.VerifyExecutionResponse:
        """Replay the log of an execution and return the findings."""
        verification = await verify_log(self._executions.store, request.execution_id)
        response = api.VerifyExecutionResponse(
            intact=not verification.findings, events=verification.events, findings=verification.findings
        )
        if verification.state is not None:
            response.execution.CopyFrom(encode_execution(verification.state, None, lambda _: "", self._clock()))
        return response

    async def SubmitFeedback(self, request: api.SubmitFeedbackRequest, context: Any) -> api.SubmitFeedbackResponse:
        """Store feedback and return the thresholds that result from it."""
        confidence = request.confidence if request.HasField("confidence") else None
        adjusted = await self._feedback.submit(
            confidence, request.correct, request.execution_id, request.step_id, _build_execution_key(request)
        )
        return api.SubmitFeedbackResponse(
            thresholds=encode(self._feedback.gate.thresholds, pb.Thresholds),
            adjusted=adjusted,
            records=self._feedback.records,
        )

    async def ResetThresholds(self, request: api.ResetThresholdsRequest, context: Any) -> api.ResetThresholdsResponse:
        """Restore the configured thresholds and forget all feedback (P-91)."""
        await self._feedback.reset(_build_key(request))
        return api.ResetThresholdsResponse(thresholds=encode(self._feedback.gate.thresholds, pb.Thresholds))

    async def GetThresholds(self, request: api.GetThresholdsRequest, context: Any) -> api.GetThresholdsResponse:
        """Return the thresholds after all feedback so far, also that which another replica stored."""
        await self._feedback.catch_up()
        gate = self._feedback.gate
        return api.GetThresholdsResponse(
            thresholds=encode(gate.thresholds, pb.Thresholds),
            configured=encode(gate.configured, pb.Thresholds),
            mode=gate.mode,
            records=self._feedback.records,
            calibration=gate.calibration.kind,
            calibration_log_loss=gate.calibration.log_loss,
            tools=[_encode_evidence(tool, queue) for tool, queue in gate.queues.items()],
        )

    async def _start(self, request: api.RunPlanRequest | api.ExecutePlanRequest, *, human_available: bool) -> str:
        wanted = request.budget
        if wanted.max_cost_micro_usd and self._unpriced_model and not wanted.allow_unknown_price:
            raise PriceUnknown(wanted.max_cost_micro_usd, self._unpriced_model)
        plan, budget = decode_plan(request.plan), decode_budget(request.budget, self._limits)
        if plan.plan_id is None and request.request_id:
            # A repeated request must find the execution of the first one, so the id is derived from the request id.
            digest = hashlib.sha256(request.request_id.encode()).hexdigest()[:12]
            plan = plan.model_copy(update={"plan_id": request.prefix + digest})
        plan = await self._planner.check_plan(plan, request.prefix)
        key = _build_key(request, plan.prefix)
        return await self._executions.start(plan, budget, key, human_available=human_available)

    async def _load_execution(self, execution_id: str) -> pb.Execution:
        log = await self._executions.read_log(execution_id)
        state = replay(log)
        question = find_open_question(log) if state.is_paused else None
        return encode_execution(state, question, partial(self._executions.create_token, execution_id), self._clock())

    async def _stream_events(
        self, execution_id: str, after: int, *, until_paused: bool
    ) -> AsyncIterator[pb.ExecutionEvent]:
        async for recorded, state in self._executions.watch(execution_id, after, until_paused=until_paused):
            yield encode_event(execution_id, recorded, state, partial(self._executions.create_token, execution_id))


def _encode_webhook(webhook: ExecutionWebhook) -> api.Webhook:
    return api.Webhook(execution_id=webhook.execution_id, webhook_id=webhook.webhook_id, url=webhook.url)


def _encode_evidence(tool: str, queue: LabelQueue) -> pb.ToolEvidence:
    return pb.ToolEvidence(
        tool=tool,
        proven_threshold=queue.guarantee.threshold,
        audit_rate=queue.guarantee.audit_rate,
        selected=queue.selected,
        labelled=queue.labelled,
        waiting=queue.waiting,
        missing=queue.missing,
        revocations=queue.guarantee.revocations,
    )


def _build_key(message: Any, scope: str = "") -> IdempotencyKey | None:
    """Return the idempotency key of a mutation; None if the client gave no request_id."""
    return IdempotencyKey.for_message(message, scope=scope) if message.request_id else None


def _build_execution_key(message: Any) -> IdempotencyKey | None:
    return _build_key(message, parse_prefix(message.execution_id))
