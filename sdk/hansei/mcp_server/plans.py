"""The MCP tools that run plans. The question of a paused plan reaches the person by elicitation.

Revision 2026-07-28 returns the question as `input_required`, and the client repeats the call with the answer. Earlier
revisions are asked within the call. A client without elicitation gets the question in the result, for
`answer_question`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, render_elicitation_schema
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import is_version_at_least
from pydantic import BaseModel, Field

from hansei.client.client import AsyncClient
from hansei.client.plan_questions import PlanQuestion, build_response, build_resumption, format_question
from hansei.mcp_server.errors import report_errors
from hansei.planner.v1.planner_pb2 import Execution, ExecutionStatus, InterventionResponse

INPUT_REQUIRED_VERSION = "2026-07-28"
"""The first revision that asks people by `input_required`."""
_REPLY = "reply"

Task = Annotated[str, Field(min_length=1, max_length=10_000, description="The task or question.")]
Collection = Annotated[
    str, Field(max_length=200, description="The playbook or document collection to search; empty for all.")
]
ExecutionId = Annotated[str, Field(min_length=1, max_length=160, description="The id from run_plan.")]
Reply = Annotated[str, Field(min_length=1, max_length=10_000, description="One of the options, or free text.")]


class PlanReply(BaseModel):
    """The answer of a person to the question of a plan."""

    answer: str = Field(min_length=1, max_length=10_000, description="One of the options, or free text.")


class PlanAnswer(BaseModel):
    """The state of a plan."""

    execution_id: str
    status: str = Field(description="success, partial, failed, cancelled, or paused if it waits for a person.")
    answer: str = Field(description="The final answer; empty until there is one.")
    confidence: float = Field(description="0 to 1.")
    question: str = Field(description="The question of a paused plan, for answer_question; empty otherwise.")
    options: list[str] = Field(description="The answers that the question offers; any text may be answered.")


class PlanTools:
    """The tools; models read their docstrings."""

    def __init__(self, choose_client: Callable[[], AsyncClient]) -> None:
        self._choose_client = choose_client

    async def run_plan(
        self, query: Task, context: Context[Any, Any], collection: Collection = ""
    ) -> PlanAnswer | InputRequiredResult:
        """Make a plan for a task, run it, and return its answer. A person may be asked in between."""
        with report_errors():
            execution = await self._continue(query, collection, context)
            while execution.HasField("intervention_request") and _can_elicit(context):
                if is_version_at_least(context.protocol_version or "", INPUT_REQUIRED_VERSION):
                    return _build_input_request(execution)
                result = await context.elicit(_format_question(execution), PlanReply)
                if not isinstance(result, AcceptedElicitation):
                    break
                execution = await self._resume(
                    PlanQuestion.from_execution(execution),
                    build_response(execution.intervention_request, result.data.answer),
                )
            return _build_plan_answer(execution)

    async def answer_question(self, execution_id: ExecutionId, answer: Reply) -> PlanAnswer:
        """Answer the question of a paused plan with the words of a person, and continue the plan."""
        with report_errors():
            execution = await self._get_execution(execution_id)
            if execution.HasField("intervention_request"):
                response = build_response(execution.intervention_request, answer)
                execution = await self._resume(PlanQuestion.from_execution(execution), response)
            return _build_plan_answer(execution)

    async def _continue(self, query: str, collection: str, context: Context[Any, Any]) -> Execution:
        """Start a plan, or answer the question to which this call is the reply. Return the execution."""
        client = self._choose_client()
        if context.request_state is None:
            plan = (await client.planner.create_plan(query=query, collection=collection)).plan
            execution_id = ""
            async for event in client.planner.execute_plan(plan=plan):
                execution_id = event.event.execution_id
            return await self._get_execution(execution_id)
        question = PlanQuestion.model_validate_json(context.request_state)
        execution = await self._get_execution(question.execution_id)
        reply = (context.input_responses or {}).get(_REPLY)
        if not isinstance(reply, ElicitResult) or reply.action != "accept":
            return _copy_without_question(execution)
        answer = PlanReply.model_validate(reply.content or {}).answer
        return await self._resume(question, build_response(execution.intervention_request, answer))

    async def _resume(self, question: PlanQuestion, response: InterventionResponse) -> Execution:
        """Answer a question once, and return the execution when it pauses again or has ended."""
        async for _ in self._choose_client().planner.resume_plan(**build_resumption(question, response)):
            pass
        return await self._get_execution(question.execution_id)

    async def _get_execution(self, execution_id: str) -> Execution:
        response = await self._choose_client().planner.get_execution(execution_id=execution_id)
        execution: Execution = response.execution
        return execution


def _can_elicit(context: Context[Any, Any]) -> bool:
    capabilities = context.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _copy_without_question(execution: Execution) -> Execution:
    """Return a copy of a paused execution without its question, so that the person who declined is not asked again."""
    paused = Execution()
    paused.CopyFrom(execution)
    paused.ClearField("intervention_request")
    return paused


def _format_question(execution: Execution) -> str:
    return format_question(execution.intervention_request, execution.step_results)


def _build_input_request(execution: Execution) -> InputRequiredResult:
    params = ElicitRequestFormParams(
        message=_format_question(execution),
        requested_schema=render_elicitation_schema(PlanReply),
    )
    state = PlanQuestion.from_execution(execution).model_dump_json()
    return InputRequiredResult(input_requests={_REPLY: ElicitRequest(params=params)}, request_state=state)


def _build_plan_answer(execution: Execution) -> PlanAnswer:
    question = execution.intervention_request
    return PlanAnswer(
        execution_id=execution.execution_id,
        status=ExecutionStatus.Name(execution.status).removeprefix("EXECUTION_STATUS_").lower(),
        answer=execution.result.final_answer,
        confidence=execution.overall_confidence,
        question=_format_question(execution) if execution.HasField("intervention_request") else "",
        options=list(question.options),
    )
