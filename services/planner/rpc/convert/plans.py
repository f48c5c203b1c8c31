"""Between messages and the planner's own types: plans, results, confidences, questions and answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import ValidationError

from chassis.errors import InvalidArgument, Violation
from hansei.planner.v1 import planner_pb2 as pb
from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.events import Budget
from services.planner.domain.interventions import (
    InterventionAction,
    InterventionRequest,
    InterventionResponse,
    text_answer,
)
from services.planner.domain.plans import Action, ExecutionPlan, StepStatus
from services.planner.domain.results import ExecutionResult, OverallStatus, StepResult
from services.planner.domain.thresholds import InterventionLevel, Thresholds

ACTIONS = {action: pb.Action.Value(f"ACTION_{action.name}") for action in Action}
_ACTIONS_BACK = {number: action for action, number in ACTIONS.items()}
STEP_STATUSES = {status: pb.StepStatus.Value(f"STEP_STATUS_{status.name}") for status in StepStatus}
LEVELS = {level: pb.InterventionLevel.Value(f"INTERVENTION_LEVEL_{level.name}") for level in InterventionLevel}
ANSWERS = {a: pb.InterventionAction.Value(f"INTERVENTION_ACTION_{a.name}") for a in InterventionAction}
_ANSWERS_BACK = {number: action for action, number in ANSWERS.items()}
OVERALL = {status: pb.ExecutionStatus.Value(f"EXECUTION_STATUS_{status.name}") for status in OverallStatus}


def timestamp(time: datetime) -> Timestamp:
    """A time as a message."""
    message = Timestamp()
    message.FromDatetime(time)
    return message


def plan_from(message: pb.Plan) -> ExecutionPlan:
    """A client's plan. InvalidArgument, naming the fields, if it is none."""
    steps = [
        {
            "step_id": step.step_id,
            "action": _ACTIONS_BACK[step.action],
            "description": step.description,
            "query": step.query if step.HasField("query") else None,
            "collection": step.collection if step.HasField("collection") else None,
            "depends_on": tuple(step.depends_on),
            "expected_output": step.expected_output,
            "fallback": _ACTIONS_BACK.get(step.fallback),
            "timeout_seconds": step.timeout_seconds if step.HasField("timeout_seconds") else None,
        }
        for step in message.steps
    ]
    fields = {
        "original_query": message.original_query,
        "complexity": message.complexity,
        "estimated_steps": message.estimated_steps if message.HasField("estimated_steps") else None,
        "requires_confirmation": message.requires_confirmation,
        "steps": steps,
        "success_criteria": message.success_criteria,
        "plan_id": message.plan_id if message.HasField("plan_id") else None,
    }
    if message.HasField("created_at"):
        fields["created_at"] = message.created_at.ToDatetime(UTC)
    try:
        return ExecutionPlan.model_validate(fields)
    except ValidationError as error:
        violations = [
            Violation("plan." + ".".join(str(part) for part in item["loc"]), item["msg"], item["type"])
            for item in error.errors(include_url=False, include_input=False, include_context=False)[:50]
        ]
        text = "; ".join(f"{v.field}: {v.description}" for v in violations[:5])
        raise InvalidArgument(text, reason="INVALID_PLAN", violations=violations) from error


def plan_to(plan: ExecutionPlan) -> pb.Plan:
    """A plan as a message."""
    message = pb.Plan(
        original_query=plan.original_query,
        complexity=plan.complexity,
        estimated_steps=plan.estimated_steps,
        requires_confirmation=plan.requires_confirmation,
        success_criteria=plan.success_criteria,
        created_at=timestamp(plan.created_at),
        plan_id=plan.plan_id,
    )
    for step in plan.steps:
        message.steps.add(
            step_id=step.step_id,
            action=ACTIONS[step.action],
            description=step.description,
            query=step.query,
            collection=step.collection,
            depends_on=step.depends_on,
            expected_output=step.expected_output,
            fallback=ACTIONS[step.fallback] if step.fallback else pb.ACTION_UNSPECIFIED,
            timeout_seconds=step.timeout_seconds,
        )
    return message


def budget_from(message: pb.Budget, most: Budget) -> Budget:
    """A client's budget; where it says nothing, or more than the service's own limit, that limit."""
    wall = message.max_wall_time.seconds + message.max_wall_time.nanos / 1e9
    return Budget(
        max_tokens=_least(message.max_tokens, most.max_tokens),
        max_cost_micro_usd=_least(message.max_cost_micro_usd, most.max_cost_micro_usd),
        max_wall_seconds=_least(wall, most.max_wall_seconds),
        max_tool_calls=_least(message.max_tool_calls, most.max_tool_calls),
    )


N = TypeVar("N", int, float)


def _least(asked: N, most: N | None) -> N | None:
    if not asked:
        return most
    return asked if most is None else min(asked, most)


def budget_to(budget: Budget) -> pb.Budget:
    """A budget as a message; 0 where there is no limit."""
    message = pb.Budget(
        max_tokens=budget.max_tokens or 0,
        max_cost_micro_usd=budget.max_cost_micro_usd or 0,
        max_tool_calls=budget.max_tool_calls or 0,
    )
    if budget.max_wall_seconds is not None:
        message.max_wall_time.FromNanoseconds(round(budget.max_wall_seconds * 1e9))
    return message


def step_result_to(result: StepResult) -> pb.StepResult:
    """A step's result as a message."""
    return pb.StepResult(
        step_id=result.step_id,
        status=STEP_STATUSES[StepStatus(result.status)],
        output=result.output,
        confidence=result.confidence,
        sources=result.sources,
        error=result.error,
        execution_time_ms=result.execution_time_ms,
        token_usage=result.token_usage,
        created_at=timestamp(result.created_at),
    )


def result_to(result: ExecutionResult) -> pb.ExecutionResult:
    """An execution's result as a message."""
    return pb.ExecutionResult(
        plan_id=result.plan_id,
        original_query=result.original_query,
        final_answer=result.final_answer,
        step_results=[step_result_to(each) for each in result.step_results],
        overall_confidence=result.overall_confidence,
        overall_status=OVERALL[result.overall_status],
        replan_count=result.replan_count,
        total_execution_time_ms=result.total_execution_time_ms,
        total_token_usage=result.total_token_usage,
        total_cost_usd=result.total_cost_usd,
        created_at=timestamp(result.created_at),
    )


def score_to(score: ConfidenceScore, calibrated: float | None) -> pb.ConfidenceScore:
    """A confidence as a message."""
    return pb.ConfidenceScore(
        score=score.score,
        level=score.level,
        breakdown=score.breakdown,
        penalties_applied=score.penalties_applied,
        calibrated=calibrated,
    )


def thresholds_to(thresholds: Thresholds) -> pb.Thresholds:
    """Thresholds as a message."""
    return pb.Thresholds(silent=thresholds.silent, notify=thresholds.notify, confirm=thresholds.confirm)


def question_to(
    request: InterventionRequest, plan_version: int, expires_at: datetime, token: str
) -> pb.InterventionRequest:
    """A question as a message, with what its answer must carry."""
    return pb.InterventionRequest(
        level=LEVELS[request.level],
        step_id=request.step_id,
        message=request.message,
        question=request.question,
        reason=request.reason,
        options=request.options,
        timeout_seconds=request.timeout_seconds,
        is_blocking=request.is_blocking,
        confidence_score=request.confidence_score,
        plan=None if request.plan is None else plan_to(request.plan),
        created_at=timestamp(request.created_at),
        expires_at=timestamp(expires_at),
        plan_version=plan_version,
        answer_token=token,
    )


def answer_from(message: pb.InterventionResponse) -> InterventionResponse:
    """A person's answer; without an action it is read from its text (P-83). InvalidArgument if it says nothing."""
    text = message.user_input if message.HasField("user_input") else None
    option = message.selected_option if message.HasField("selected_option") else None
    plan = plan_from(message.modified_plan) if message.HasField("modified_plan") else None
    action = _ANSWERS_BACK.get(message.action)
    if action is None:
        said = option or text
        if not said:
            rule = "an answer needs an action, a text or an option"
            raise InvalidArgument(rule, reason="EMPTY_ANSWER", violations=[Violation("response", rule)])
        read = text_answer(said)
        return read.model_copy(update={"modified_plan": plan})
    return InterventionResponse(action=action, user_input=text, modified_plan=plan, selected_option=option)


def answer_to(response: InterventionResponse) -> pb.InterventionResponse:
    """An answer as a message."""
    return pb.InterventionResponse(
        action=ANSWERS[response.action],
        user_input=response.user_input,
        modified_plan=None if response.modified_plan is None else plan_to(response.modified_plan),
        selected_option=response.selected_option,
        timeout_reached=response.timeout_reached,
        response_time_ms=response.response_time_ms,
        created_at=timestamp(response.created_at),
    )
