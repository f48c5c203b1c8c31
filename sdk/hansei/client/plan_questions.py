"""The questions of paused plans, and answers to them, for servers of other protocols."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import BaseModel

from hansei.planner.v1.planner_pb2 import Execution, InterventionRequest, InterventionResponse


class PlanQuestion(BaseModel):
    """The question that an answer belongs to."""

    execution_id: str
    plan_version: int
    step_id: int | None
    answer_token: str

    @classmethod
    def from_execution(cls, execution: Execution) -> PlanQuestion:
        """Return the open question of a paused execution."""
        question = execution.intervention_request
        return cls(
            execution_id=execution.execution_id,
            plan_version=question.plan_version,
            step_id=question.step_id if question.HasField("step_id") else None,
            answer_token=question.answer_token,
        )


def format_question(question: InterventionRequest) -> str:
    """Return a question as text: the question, its reason and the offered answers."""
    lines = [question.question or question.message]
    if question.HasField("reason"):
        lines.append(question.reason)
    if question.options:
        lines.append("Options: " + " | ".join(question.options))
    return "\n".join(lines)


def build_response(question: InterventionRequest, answer: str) -> InterventionResponse:
    """Return the response for the words of a person: an offered answer, or free text."""
    if answer in question.options:
        return InterventionResponse(selected_option=answer)
    return InterventionResponse(user_input=answer)


def build_resumption(question: PlanQuestion, response: InterventionResponse) -> dict[str, Any]:
    """Return the fields of a ResumePlan request. The same answer to the same question has the same request id."""
    request_id = str(uuid.uuid5(uuid.NAMESPACE_OID, question.answer_token + response.SerializeToString().hex()))
    return {**question.model_dump(exclude_none=True), "response": response, "request_id": request_id}
