"""Between the messages of GeneratorService and the generator's own types."""

from __future__ import annotations

from hansei.planner.v1 import generator_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2
from services.planner.domain.generation import (
    AnswerStatus,
    AnswerStyle,
    GenerationOutcome,
    Question,
    RetrievedBullet,
    TokenUse,
)

_STYLES = {
    pb.GENERATE_STYLE_UNSPECIFIED: AnswerStyle.CITED,
    pb.GENERATE_STYLE_CITED: AnswerStyle.CITED,
    pb.GENERATE_STYLE_PLAIN: AnswerStyle.PLAIN,
}
_STATUSES = {
    AnswerStatus.SUCCESS: trajectory_pb2.TRAJECTORY_STATUS_SUCCESS,
    AnswerStatus.FAILURE: trajectory_pb2.TRAJECTORY_STATUS_FAILURE,
}


def question_of(request: pb.GenerateRequest) -> Question:
    """What is asked."""
    return Question(
        query=request.query,
        dataset=request.dataset,
        bullets=tuple(RetrievedBullet(bullet.id, bullet.section, bullet.content) for bullet in request.bullets),
        style=_STYLES[request.style],
        instruction=request.instruction,
    )


def response_of(outcome: GenerationOutcome) -> pb.GenerateResponse:
    """The attempt as a trajectory, with the model and what it took."""
    trajectory = trajectory_pb2.Trajectory(
        query=outcome.query,
        dataset=outcome.dataset,
        generated_answer=outcome.generated_answer,
        reasoning_steps=outcome.reasoning_steps,
        used_bullet_ids=outcome.used_bullet_ids,
        cited_bullet_ids=outcome.cited_bullet_ids,
        status=_STATUSES[outcome.status],
        error_message=outcome.error_message,
    )
    trajectory.created_at.FromDatetime(outcome.created_at)
    usage = None if outcome.usage is None else _usage(outcome.usage)
    return pb.GenerateResponse(trajectory=trajectory, model=outcome.model, usage=usage)


def _usage(usage: TokenUse) -> pb.TokenUsage:
    return pb.TokenUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost_usd=usage.cost_usd)
