"""Convert the messages of GeneratorService."""

from __future__ import annotations

from chassis.server.messages import decode_enum, encode
from hansei.planner.v1 import generator_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2
from libs.llm.usage import UsageTotal, encode_usage
from services.planner.domain.generation import AnswerStyle, GenerationOutcome, Question, RetrievedBullet


def decode_question(request: pb.GenerateRequest) -> Question:
    """Return the question of a request."""
    return Question(
        query=request.query,
        dataset=request.dataset,
        bullets=tuple(RetrievedBullet(bullet.id, bullet.section, bullet.content) for bullet in request.bullets),
        style=AnswerStyle(decode_enum(pb.GenerateStyle.DESCRIPTOR, request.style) or AnswerStyle.CITED),
        instruction=request.instruction,
    )


def encode_outcome(outcome: GenerationOutcome, usage: UsageTotal) -> pb.GenerateResponse:
    """Return an outcome as a trajectory with the model and its usage, also in the former form."""
    response = pb.GenerateResponse(
        trajectory=encode(outcome, trajectory_pb2.Trajectory), model=outcome.model, model_usage=encode_usage(usage)
    )
    if usage.calls and usage.input_tokens is not None:
        response.usage.CopyFrom(encode(usage, pb.TokenUsage))
    return response
