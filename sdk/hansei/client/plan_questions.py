"""The questions of paused plans, and answers to them, for servers of other protocols."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from chassis.errors import shorten
from hansei.planner.v1.planner_pb2 import Execution, InterventionRequest, InterventionResponse, StepResult


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


def format_question(question: InterventionRequest, results: Sequence[StepResult] = ()) -> str:
    """Return a question as text: its cause, the result of its step, its reason, the question and the offered answers.

    The cause names the step, and its confidence if this is low; `results` has the result.
    """
    lines = [question.message]
    shown = [result for result in results if question.HasField("step_id") and result.step_id == question.step_id]
    lines += [
        f"Result of step {result.step_id}: {shorten(text, 400)}" for result in shown if (text := _get_text(result))
    ]
    if question.HasField("reason"):
        lines.append(question.reason)
    if question.HasField("question") and question.question != question.message:
        lines.append(question.question)
    if question.options:
        lines.append("Options: " + " | ".join(question.options))
    return "\n".join(lines)


def _get_text(result: StepResult) -> str:
    """Return the error or the output of a step on one line."""
    return " ".join((result.error or result.output).split())


def build_response(question: InterventionRequest, answer: str) -> InterventionResponse:
    """Return the response for the words of a person: an offered answer, or free text."""
    if answer in question.options:
        return InterventionResponse(selected_option=answer)
    return InterventionResponse(user_input=answer)


def build_resumption(question: PlanQuestion, response: InterventionResponse) -> dict[str, Any]:
    """Return the fields of a ResumePlan request. The same answer to the same question has the same request id."""
    request_id = str(uuid.uuid5(uuid.NAMESPACE_OID, question.answer_token + response.SerializeToString().hex()))
    return {**question.model_dump(exclude_none=True), "response": response, "request_id": request_id}
