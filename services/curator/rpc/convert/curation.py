"""Convert reflections and curations from and to messages."""

from __future__ import annotations

from chassis.server.messages import decode_enum
from hansei.curator.v1 import curator_service_pb2 as curator_pb
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.reflector.v1 import trajectory_pb2
from services.curator.domain.curation import Evaluation, EvidenceCall, Lesson, Reflection
from services.curator.domain.playbook import validate_target
from services.curator.rpc.convert import playbook as convert
from services.curator.usecases.curate import Curation


def decode_reflection(message: trajectory_pb2.ReflectionResult) -> Reflection:
    """Return the reflection of a request. Raises InvalidTarget."""
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
                decode_enum(trajectory_pb2.InsightKind.DESCRIPTOR, insight.kind) or "",
                insight.confirms,
                insight.contradicts,
                _decode_target(insight.target, f"reflection.insights[{index}].target"),
            )
            for index, insight in enumerate(message.insights)
        ),
        evaluations=tuple(
            Evaluation(vote.bullet_id, convert.decode_tag(vote.tag), vote.reason) for vote in message.bullet_evaluations
        ),
        trajectory_id=message.trajectory_id,
        query=message.trajectory_query,
        signal=decode_enum(trajectory_pb2.SignalStrength.DESCRIPTOR, message.signal) or "",
        model=message.model,
        served=frozenset(message.used_bullet_ids),
        calls=tuple(
            EvidenceCall(
                call.operation,
                call.arguments,
                call.error,
                call.repaired_by if call.HasField("repaired_by") else None,
                call.step,
                call.tool,
            )
            for call in message.calls
        ),
        task_id=message.task_id,
        is_success=message.status == trajectory_pb2.TRAJECTORY_STATUS_SUCCESS,
    )


def _decode_target(expression: str, field: str) -> str:
    if expression:
        validate_target(expression, field)
    return expression


def encode_curation(curation: Curation, usage: ModelUsage) -> curator_pb.CurateResponse:
    """Return the response of Curate with the usage of its model calls."""
    result = curation.result
    return curator_pb.CurateResponse(
        result=curator_pb.CurationResult(
            deltas=[convert.encode_delta(operation.proposal) for operation in curation.operations],
            bullets_before=result.bullets_before,
            bullets_after=result.bullets_after,
            summary=result.summary,
        ),
        saved=curation.saved,
        error=curation.error,
        revision=curation.revision,
        operations=[convert.encode_operation(operation) for operation in curation.operations],
        votes=[convert.encode_vote(vote) for vote in curation.votes],
        conflicts=convert.encode_conflicts(curation.operations),
        pending=[convert.encode_pending_change(change) for change in curation.pending],
        model=curation.model,
        usage=usage,
    )
