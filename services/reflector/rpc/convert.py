"""Converts between the messages of ReflectorService and the domain types."""

from __future__ import annotations

from typing import cast

from pydantic import ValidationError

from chassis.errors import InvalidArgument
from chassis.field_errors import describe_rule
from chassis.server.messages import decode, decode_enum, encode
from hansei.reflector.v1 import reflector_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2 as tpb
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import Format, TrajectoryFile
from services.reflector.domain.reflection import ReflectionResult, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory

MAX_ERROR_CHARS = 20_000


def parse_request(message: pb.ReflectRequest) -> ReflectionRequest:
    """Return the request. Raise InvalidArgument with the field (R-33)."""
    return ReflectionRequest(
        trajectory=parse_trajectory(message.trajectory, "trajectory"),
        dataset=message.dataset,
        ground_truth=message.ground_truth,
        test_report=message.test_report,
        max_iterations=message.max_iterations if message.HasField("max_iterations") else 1,
        bullets=tuple(UsedBullet.model_validate(item, from_attributes=True) for item in message.bullets),
        siblings=tuple(parse_trajectory(item, f"siblings[{index}]") for index, item in enumerate(message.siblings)),
    )


def parse_format(format_: pb.TrajectoryFormat.ValueType) -> Format | None:
    """Return the requested format, None to detect it."""
    return cast("Format | None", decode_enum(pb.TrajectoryFormat.DESCRIPTOR, format_))


def parse_trajectory(message: tpb.Trajectory, field: str) -> Trajectory:
    """Return the trajectory in `message`, with an id if it has none. Raise MalformedTrajectory with the field."""
    try:
        fields = decode(message)
        steps = [{**step, "index": index} for index, step in enumerate(fields["steps"])]
        trajectory = Trajectory.model_validate({**fields, "steps": steps})
    except InvalidArgument as error:
        raise MalformedTrajectory(f"{field}.created_at", message.created_at.seconds, "must be a time") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join([field, *map(str, first["loc"])])
        raise MalformedTrajectory(path, first.get("input"), describe_rule(first)) from error
    return trajectory if trajectory.id else trajectory.model_copy(update={"id": trajectory.content_id})


def encode_result(result: ReflectionResult) -> tpb.ReflectionResult:
    """Return the message of a reflection result."""
    status = "success" if result.is_success else "failure"
    return encode(result, tpb.ReflectionResult, status=status, error=result.error[:MAX_ERROR_CHARS])


def encode_file(file: TrajectoryFile) -> pb.ParseTrajectoriesResponse:
    """Return the message of a trajectory file."""
    return encode(file, pb.ParseTrajectoriesResponse)
