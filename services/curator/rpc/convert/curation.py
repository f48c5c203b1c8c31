"""Convert reflections and curations from and to messages."""

from __future__ import annotations

from hansei.curator.v1 import curator_service_pb2 as curator_pb
from hansei.reflector.v1 import trajectory_pb2
from services.curator.domain.curation import Evaluation, Lesson, Reflection
from services.curator.rpc.convert import playbook as convert
from services.curator.usecases.curate import Curation


def reflection_from(message: trajectory_pb2.ReflectionResult) -> Reflection:
    """Return the reflection of a request."""
    return Reflection(
        insights=tuple(
            Lesson(
                insight.reasoning,
                insight.error_identification,
                insight.root_cause_analysis,
                insight.correct_approach,
                insight.key_insight,
                tuple(insight.steps),
                insight.section,
            )
            for insight in message.insights
        ),
        evaluations=tuple(
            Evaluation(vote.bullet_id, convert.tag_from(vote.tag), vote.reason) for vote in message.bullet_evaluations
        ),
        trajectory_id=message.trajectory_id,
        query=message.trajectory_query,
        signal=_signal_from(message.signal),
        model=message.model,
        served=frozenset(message.used_bullet_ids),
    )


def _signal_from(signal: trajectory_pb2.SignalStrength.ValueType) -> str:
    """Return the name of a signal, empty when none is set."""
    return trajectory_pb2.SignalStrength.Name(signal).removeprefix("SIGNAL_STRENGTH_").lower() if signal else ""


def curation_message(curation: Curation) -> curator_pb.CurateResponse:
    """Return the response of Curate."""
    result = curation.result
    return curator_pb.CurateResponse(
        result=curator_pb.CurationResult(
            deltas=[convert.delta_message(operation.proposal) for operation in curation.operations],
            bullets_before=result.bullets_before,
            bullets_after=result.bullets_after,
            summary=result.summary,
        ),
        saved=curation.saved,
        error=curation.error,
        revision=curation.revision,
        operations=[convert.operation_message(operation) for operation in curation.operations],
        votes=[convert.vote_message(vote) for vote in curation.votes],
        conflicts=convert.conflict_messages(curation.operations),
        pending=[convert.pending_message(change) for change in curation.pending],
        model=curation.model,
    )
