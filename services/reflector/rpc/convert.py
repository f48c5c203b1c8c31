"""Converts between the messages of ReflectorService and the domain types."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from pydantic import ValidationError

from chassis.field_errors import describe_rule
from chassis.server.messages import decode
from hansei.playbook.v1 import playbook_pb2
from hansei.reflector.v1 import reflector_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2 as tpb
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import Format, RecordedTrajectory, TrajectoryFile
from services.reflector.domain.reflection import Insight, Kind, ReflectionResult, Signal, Tag, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Role, Status, Step, ToolCall, Trajectory
from services.reflector.domain.usage import TrajectoryUsage

MAX_ERROR_CHARS = 20_000


def _map_enum_names(enum: Any, prefix: str) -> dict[Any, Any]:
    """Return the domain's name of each value of an enum: `success` for `TRAJECTORY_STATUS_SUCCESS`."""
    return {number: name.removeprefix(prefix).lower() for name, number in enum.items() if number}


_STATUSES: Mapping[tpb.TrajectoryStatus.ValueType, Status] = _map_enum_names(tpb.TrajectoryStatus, "TRAJECTORY_STATUS_")
_ROLES: Mapping[tpb.StepRole.ValueType, Role] = _map_enum_names(tpb.StepRole, "STEP_ROLE_")
_SIGNALS: Mapping[tpb.SignalStrength.ValueType, Signal] = _map_enum_names(tpb.SignalStrength, "SIGNAL_STRENGTH_")
_FORMATS: Mapping[pb.TrajectoryFormat.ValueType, Format] = _map_enum_names(pb.TrajectoryFormat, "TRAJECTORY_FORMAT_")
_TAGS: Mapping[playbook_pb2.VoteTag.ValueType, Tag] = _map_enum_names(playbook_pb2.VoteTag, "VOTE_TAG_")
_STATUS_MESSAGES = {status: number for number, status in _STATUSES.items()}
_ROLE_MESSAGES = {role: number for number, role in _ROLES.items()}
_SIGNAL_MESSAGES = {signal: number for number, signal in _SIGNALS.items()}
_TAG_MESSAGES = {tag: number for number, tag in _TAGS.items()}
_KIND_MESSAGES: Mapping[Kind, tpb.InsightKind.ValueType] = {
    "mistake": tpb.INSIGHT_KIND_MISTAKE,
    "strategy": tpb.INSIGHT_KIND_STRATEGY,
    "tool_fact": tpb.INSIGHT_KIND_TOOL_FACT,
}
_FORMAT_MESSAGES = {format_: number for number, format_ in _FORMATS.items()}


def parse_request(message: pb.ReflectRequest) -> ReflectionRequest:
    """Return the request. Raise InvalidArgument with the field (R-33)."""
    return ReflectionRequest(
        trajectory=parse_trajectory(message.trajectory, "trajectory"),
        dataset=message.dataset,
        ground_truth=message.ground_truth,
        test_report=message.test_report,
        max_iterations=message.max_iterations if message.HasField("max_iterations") else 1,
        bullets=tuple(_parse_bullet(item) for item in message.bullets),
        siblings=tuple(parse_trajectory(item, f"siblings[{index}]") for index, item in enumerate(message.siblings)),
    )


def _parse_bullet(message: playbook_pb2.Bullet) -> UsedBullet:
    return UsedBullet(
        id=message.id,
        section=message.section,
        content=message.content,
        helpful=message.helpful,
        harmful=message.harmful,
    )


def parse_format(format_: pb.TrajectoryFormat.ValueType) -> Format | None:
    """Return the requested format, None to detect it."""
    return _FORMATS.get(format_)


def parse_trajectory(message: tpb.Trajectory, field: str) -> Trajectory:
    """Return the trajectory in `message`, with an id if it has none. Raise MalformedTrajectory with the field."""
    try:
        trajectory = Trajectory(
            id=message.id,
            task_id=message.task_id,
            query=message.query,
            dataset=message.dataset,
            generated_answer=message.generated_answer,
            reasoning_steps=tuple(message.reasoning_steps),
            used_bullet_ids=tuple(message.used_bullet_ids),
            cited_bullet_ids=tuple(message.cited_bullet_ids),
            serving_ids=tuple(message.serving_ids),
            status=_STATUSES[message.status],
            error_message=message.error_message if message.HasField("error_message") else None,
            reward=message.reward if message.HasField("reward") else None,
            signal=_SIGNALS.get(message.signal),
            steps=tuple(_step_from(index, step) for index, step in enumerate(message.steps)),
            usage=TrajectoryUsage(**decode(message.usage)) if message.HasField("usage") else None,
            **_decode_created_at(message),
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join([field, *map(str, first["loc"])])
        raise MalformedTrajectory(path, first.get("input"), describe_rule(first)) from error
    return trajectory if trajectory.id else trajectory.model_copy(update={"id": trajectory.content_id})


def _decode_created_at(message: tpb.Trajectory) -> dict[str, object]:
    if not message.HasField("created_at"):
        return {}
    try:
        return {"created_at": message.created_at.ToDatetime(UTC)}
    except (ValueError, OverflowError) as error:
        raise MalformedTrajectory("trajectory.created_at", message.created_at.seconds, "must be a time") from error


def _step_from(index: int, message: tpb.Step) -> Step:
    calls = (ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in message.tool_calls)
    return Step(
        index=index,
        role=_ROLES[message.role],
        name=message.name,
        content=message.content,
        tool_calls=tuple(calls),
        tool_call_id=message.tool_call_id,
        source=message.source,
    )


def encode_result(result: ReflectionResult) -> tpb.ReflectionResult:
    """Return the message of a reflection result."""
    message = tpb.ReflectionResult(
        insights=[_build_insight_message(insight) for insight in result.insights],
        bullet_evaluations=[
            tpb.BulletEvaluation(bullet_id=vote.bullet_id, tag=_TAG_MESSAGES[vote.tag], reason=vote.reason)
            for vote in result.bullet_evaluations
        ],
        trajectory_query=result.trajectory_query,
        trajectory_dataset=result.trajectory_dataset,
        iteration_count=result.iteration_count,
        trajectory_id=result.trajectory_id,
        signal=_SIGNAL_MESSAGES[result.signal],
        model=result.model,
        status=_STATUS_MESSAGES["success" if result.is_success else "failure"],
        used_bullet_ids=result.used_bullet_ids,
        calls=[tpb.ObservedCall(**call.model_dump()) for call in result.calls],
        task_id=result.task_id,
        error=result.error[:MAX_ERROR_CHARS],
    )
    if result.attribution is not None:
        blamed = result.attribution
        alternatives = [tpb.BlameCandidate(**candidate.model_dump()) for candidate in blamed.alternatives]
        fields = blamed.model_dump(exclude={"alternatives"})
        message.attribution.CopyFrom(tpb.Attribution(**fields, alternatives=alternatives))
    return message


def _build_insight_message(insight: Insight) -> tpb.Insight:
    return tpb.Insight(
        reasoning=insight.reasoning,
        error_identification=insight.error_identification,
        root_cause_analysis=insight.root_cause_analysis,
        correct_approach=insight.correct_approach,
        key_insight=insight.key_insight,
        steps=insight.steps,
        section=insight.section,
        kind=_KIND_MESSAGES[insight.kind] if insight.kind else tpb.INSIGHT_KIND_UNSPECIFIED,
        confirms=insight.confirms,
        contradicts=insight.contradicts,
        target=insight.target,
    )


def encode_file(file: TrajectoryFile) -> pb.ParseTrajectoriesResponse:
    """Return the message of a trajectory file."""
    return pb.ParseTrajectoriesResponse(
        trajectories=[_build_recorded_message(recorded) for recorded in file.trajectories],
        format=_FORMAT_MESSAGES[file.format],
    )


def _build_recorded_message(recorded: RecordedTrajectory) -> pb.ParsedTrajectory:
    return pb.ParsedTrajectory(
        trajectory=_build_trajectory_message(recorded.trajectory),
        ground_truth=recorded.ground_truth,
        test_report=recorded.test_report,
    )


def _build_trajectory_message(trajectory: Trajectory) -> tpb.Trajectory:
    message = tpb.Trajectory(
        id=trajectory.id,
        task_id=trajectory.task_id,
        query=trajectory.query,
        dataset=trajectory.dataset,
        generated_answer=trajectory.generated_answer,
        reasoning_steps=trajectory.reasoning_steps,
        used_bullet_ids=trajectory.used_bullet_ids,
        cited_bullet_ids=trajectory.cited_bullet_ids,
        serving_ids=trajectory.serving_ids,
        status=_STATUS_MESSAGES[trajectory.status],
        error_message=trajectory.error_message,
        reward=trajectory.reward,
        signal=_SIGNAL_MESSAGES[trajectory.signal] if trajectory.signal else tpb.SIGNAL_STRENGTH_UNSPECIFIED,
        steps=[_step_message(step) for step in trajectory.steps],
        usage=tpb.TrajectoryUsage(**trajectory.usage.model_dump()) if trajectory.usage else None,
    )
    message.created_at.FromDatetime(trajectory.created_at)
    return message


def _step_message(step: Step) -> tpb.Step:
    return tpb.Step(
        role=_ROLE_MESSAGES[step.role],
        name=step.name,
        content=step.content,
        tool_calls=[tpb.ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in step.tool_calls],
        tool_call_id=step.tool_call_id,
        source=step.source,
    )
