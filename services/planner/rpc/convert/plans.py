"""Convert messages about plans, budgets, questions and answers."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from chassis.errors import InvalidArgument, Violation
from chassis.field_errors import describe_rule
from chassis.server.messages import decode, encode
from hansei.planner.v1 import planner_pb2 as pb
from services.planner.domain.events import Budget
from services.planner.domain.interventions import InterventionResponse, parse_answer
from services.planner.domain.plans import ExecutionPlan

N = TypeVar("N", int, float)


def decode_plan(message: pb.Plan) -> ExecutionPlan:
    """Return the plan of a client. Raises InvalidArgument, which names the invalid fields."""
    try:
        return ExecutionPlan.model_validate(decode(message))
    except ValidationError as error:
        violations = [
            Violation("plan." + ".".join(str(part) for part in item["loc"]), describe_rule(item), item["type"])
            for item in error.errors(include_url=False, include_input=False)[:50]
        ]
        text = "; ".join(f"{v.field}: {v.description}" for v in violations[:5])
        raise InvalidArgument(text, reason="INVALID_PLAN", violations=violations) from error


def decode_budget(message: pb.Budget, limits: Budget) -> Budget:
    """Return the budget of a client; `limits` apply where the client sets none, or a higher one.

    A client may choose any time for answers, because an execution that waits uses no memory and no thread.
    """
    return Budget(
        max_tokens=_lower_limit(message.max_tokens, limits.max_tokens),
        max_cost_micro_usd=_lower_limit(message.max_cost_micro_usd, limits.max_cost_micro_usd),
        max_wall_seconds=_lower_limit(message.max_wall_time.ToNanoseconds() / 1e9, limits.max_wall_seconds),
        max_tool_calls=_lower_limit(message.max_tool_calls, limits.max_tool_calls),
        max_answer_seconds=message.max_answer_time.ToNanoseconds() / 1e9 or limits.max_answer_seconds,
    )


def _lower_limit(value: N, limit: N | None) -> N | None:
    return min(value, limit) if value and limit is not None else value or limit


def encode_budget(budget: Budget) -> pb.Budget:
    """Return a budget as a message; a field without a limit is unset."""
    message = encode(budget, pb.Budget)
    if budget.max_wall_seconds is not None:
        message.max_wall_time.FromNanoseconds(round(budget.max_wall_seconds * 1e9))
    if budget.max_answer_seconds is not None:
        message.max_answer_time.FromNanoseconds(round(budget.max_answer_seconds * 1e9))
    return message


def decode_response(message: pb.InterventionResponse) -> InterventionResponse:
    """Return the answer of a person; without an action it is parsed from its text (P-83).

    Raises InvalidArgument if the message has neither an action nor a text nor an option.
    """
    plan = decode_plan(message.modified_plan) if message.HasField("modified_plan") else None
    fields = decode(message)
    if fields["action"] is None:
        text = fields["selected_option"] or fields["user_input"]
        if not text:
            rule = "an answer needs an action, a text or an option"
            raise InvalidArgument(rule, reason="EMPTY_ANSWER", violations=[Violation("response", rule)])
        return parse_answer(text).model_copy(update={"modified_plan": plan})
    return InterventionResponse(
        action=fields["action"],
        user_input=fields["user_input"],
        modified_plan=plan,
        selected_option=fields["selected_option"],
        remove_step=message.remove_step,
    )
