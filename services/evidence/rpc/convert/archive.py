"""Conversion between the messages of the archive and the domain; secrets are masked here."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from chassis.errors import InvalidArgument, Violation
from chassis.secrets import remove_secrets
from chassis.server.messages import decode, decode_enum
from hansei.evidence.v1 import archive_pb2
from hansei.evidence.v1 import archive_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2
from libs.guards.guard_trajectory import GuardTrajectory
from libs.trajectories.content import reduce_to_content
from libs.trajectories.events import list_events
from services.evidence.domain.archive import (
    ArchivedTrajectory,
    MarkKind,
    StoredUsage,
    TrajectoryKey,
    TrajectorySummary,
)
from services.evidence.domain.summarize import StoredCall, StoredStep, summarize_steps
from services.evidence.usecases.archive_ports import IncomingTrajectory, PreparedTrajectory, TrajectoryFilter

MAX_QUERY_CHARS = 200
_OUTCOMES = {trajectory_pb2.TRAJECTORY_STATUS_SUCCESS: 1.0, trajectory_pb2.TRAJECTORY_STATUS_FAILURE: 0.0}


def decode_request(request: pb.StoreTrajectoryRequest) -> IncomingTrajectory:
    """Return the trajectory to store. Raises InvalidArgument if it belongs to another dataset."""
    trajectory = request.trajectory
    if trajectory.dataset != request.dataset:
        rule = f"is {trajectory.dataset!r}, but the request is for {request.dataset!r}"
        raise InvalidArgument("dataset mismatch", violations=[Violation("trajectory.dataset", rule)])
    content = pb.GetTrajectoryResponse(
        trajectory=trajectory, ground_truth=request.ground_truth, test_report=request.test_report
    )
    content_hash = _hash_content(content)
    content.trajectory.id = trajectory.id or f"t-{content_hash[:32]}"
    # It is in the summary, so that a later call can add it.
    content.trajectory.ClearField("usage")
    learned = tuple(dict.fromkeys(request.learned_bullet_ids))
    usage = StoredUsage(**decode(trajectory.usage)) if trajectory.HasField("usage") else None
    return IncomingTrajectory(
        TrajectoryKey(request.dataset, content.trajectory.id, content_hash),
        lambda: _prepare(content, learned, usage),
        len(trajectory.steps) or len(trajectory.reasoning_steps),
        content.ByteSize(),
        _decode_time(trajectory.created_at, "trajectory.created_at") if trajectory.HasField("created_at") else None,
        _decode_time(request.learned_at, "learned_at") if request.HasField("learned_at") else None,
        learned,
        usage,
    )


def decode_outcome(request: pb.StoreTrajectoryRequest | pb.GetTrajectoryResponse) -> float | None:
    """Return the outcome of a trajectory, 0 to 1; None if it is unknown or rests on the agent's own word alone."""
    trajectory = request.trajectory
    if trajectory.HasField("reward"):
        return min(max(trajectory.reward, 0.0), 1.0)
    signal = trajectory.signal
    if signal == trajectory_pb2.SIGNAL_STRENGTH_UNSPECIFIED and not (request.test_report or request.ground_truth):
        signal = trajectory_pb2.SIGNAL_STRENGTH_SELF_REPORT
    return None if signal == trajectory_pb2.SIGNAL_STRENGTH_SELF_REPORT else _OUTCOMES.get(trajectory.status)


def decode_body(body: bytes, trajectory: ArchivedTrajectory) -> pb.GetTrajectoryResponse:
    """Return a stored trajectory."""
    response = pb.GetTrajectoryResponse.FromString(body)
    response.summary.CopyFrom(encode_trajectory(trajectory))
    if response.summary.HasField("usage"):
        response.trajectory.usage.CopyFrom(response.summary.usage)
    return response


def decode_archived_trajectory(trajectory: ArchivedTrajectory, body: bytes) -> GuardTrajectory | None:
    """Return a stored trajectory for backtests; None if its outcome is unknown or rests on the agent's own word."""
    return build_guard_trajectory(pb.GetTrajectoryResponse.FromString(body), trajectory.key.content_hash)


def build_guard_trajectory(content: pb.GetTrajectoryResponse, content_hash: str) -> GuardTrajectory | None:
    """Return a trajectory of the archive for backtests, as `decode_archived_trajectory` does."""
    if decode_outcome(content) is None:
        return None
    recorded = content.trajectory
    return GuardTrajectory(
        recorded.id,
        recorded.task_id or recorded.id,
        recorded.status == trajectory_pb2.TRAJECTORY_STATUS_SUCCESS,
        list_events(_build_steps(recorded)),
        content_hash=content_hash,
    )


def decode_filter(request: pb.ListTrajectoriesRequest) -> TrajectoryFilter:
    """Return the filters of a request."""
    values = {
        MarkKind.TOOL: request.tool,
        MarkKind.SERVED: request.served_bullet_id,
        MarkKind.CITED: request.cited_bullet_id,
        MarkKind.LEARNED: request.learned_bullet_id,
        MarkKind.AGENT: request.agent,
    }
    return TrajectoryFilter(
        status=request.status,
        marks=tuple((kind, value) for kind, value in values.items() if value),
        error_text=request.error,
        created_from=_decode_time(request.created_from, "created_from") if request.HasField("created_from") else None,
        created_before=(
            _decode_time(request.created_before, "created_before") if request.HasField("created_before") else None
        ),
        deleted=request.deleted,
    )


def encode_trajectory(trajectory: ArchivedTrajectory) -> archive_pb2.ArchivedTrajectory:
    """Return the summary of a stored trajectory, or its tombstone."""
    message = archive_pb2.ArchivedTrajectory(
        trajectory_id=trajectory.key.trajectory_id, content_hash=trajectory.key.content_hash, bytes=trajectory.size
    )
    message.created_at.FromDatetime(trajectory.created_at)
    message.stored_at.FromDatetime(trajectory.stored_at)
    if trajectory.deleted_at is not None:
        message.deleted_at.FromDatetime(trajectory.deleted_at)
    summary = trajectory.summary
    if summary is None:
        return message
    message.MergeFrom(
        archive_pb2.ArchivedTrajectory(
            status=trajectory_pb2.TrajectoryStatus.ValueType(summary.status),
            reward=summary.reward,
            query=summary.query,
            steps=summary.steps,
            agents=summary.agents,
            tools=summary.tools,
            errors=[
                archive_pb2.ToolErrorSignature(operation=error.operation, message=error.message, step=error.step)
                for error in summary.errors
            ],
            served_bullet_ids=summary.served,
            cited_bullet_ids=summary.cited,
            learned_bullet_ids=summary.learned,
            serving_ids=summary.servings,
            usage=trajectory_pb2.TrajectoryUsage(**asdict(summary.usage)) if summary.usage else None,
        )
    )
    return message


def _hash_content(content: pb.GetTrajectoryResponse) -> str:
    copy = pb.GetTrajectoryResponse()
    copy.CopyFrom(content)
    reduce_to_content(copy.trajectory)
    return hashlib.sha256(copy.SerializeToString(deterministic=True)).hexdigest()


def _prepare(
    content: pb.GetTrajectoryResponse, learned: tuple[str, ...], usage: StoredUsage | None
) -> PreparedTrajectory:
    mask_secrets(content)
    trajectory = content.trajectory
    steps = _build_steps(trajectory)
    facts = summarize_steps(steps)
    summary = TrajectorySummary(
        query=trajectory.query[:MAX_QUERY_CHARS],
        status=trajectory.status,
        steps=len(trajectory.steps) or len(trajectory.reasoning_steps),
        reward=trajectory.reward if trajectory.HasField("reward") else None,
        agents=facts.agents,
        tools=facts.tools,
        errors=facts.errors,
        served=tuple(dict.fromkeys(trajectory.used_bullet_ids)),
        cited=tuple(dict.fromkeys(trajectory.cited_bullet_ids)),
        learned=learned,
        servings=tuple(trajectory.serving_ids),
        usage=usage,
    )
    return PreparedTrajectory(summary, content.SerializeToString())


def mask_secrets(content: pb.GetTrajectoryResponse) -> None:
    """Mask the secrets in all texts of a trajectory, by the rules that also mask them in logs."""
    trajectory = content.trajectory
    for message, names in (
        (content, ("ground_truth", "test_report")),
        (trajectory, ("query", "generated_answer", "error_message")),
        *((step, ("content",)) for step in trajectory.steps),
        *((call, ("arguments",)) for step in trajectory.steps for call in step.tool_calls),
    ):
        for name in names:
            text = getattr(message, name)
            masked = remove_secrets(text)
            if masked != text:
                setattr(message, name, masked)
    for position, thought in enumerate(trajectory.reasoning_steps):
        trajectory.reasoning_steps[position] = remove_secrets(thought)


def _decode_time(time: Timestamp, field: str) -> datetime:
    try:
        return time.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        rule = "must be a time between the years 1 and 9999"
        raise InvalidArgument(f"{field} {rule}", violations=[Violation(field, rule)]) from None


def _build_steps(trajectory: trajectory_pb2.Trajectory) -> list[StoredStep]:
    return [
        StoredStep(
            index,
            decode_enum(trajectory_pb2.StepRole.DESCRIPTOR, step.role) or "user",
            step.name,
            step.content,
            [StoredCall(call.id, call.name, call.arguments) for call in step.tool_calls],
            step.tool_call_id,
        )
        for index, step in enumerate(trajectory.steps)
    ]
