"""Read the trajectories that guards are mined from and tested on, from files and from the archive."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chassis.targets.session import MAX_MESSAGE_CHARS, encode_arguments, shorten_result
from hansei.evidence.v1 import guard_service_pb2 as pb
from hansei.evidence.v1.archive_service_pb2 import GetTrajectoryResponse
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall
from libs.trajectories.events import list_events
from services.evidence.rpc.convert.archive import build_guard_trajectory
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.adapters.importers.labels import read_wrong_steps

_DATASET = "guards"
MAX_MESSAGES = 100


def read_guard_trajectories(file: Path) -> list[GuardTrajectory]:
    """Return the trajectories of a file of any format, for guards. Raises MalformedTrajectory, UnknownFormat."""
    content = file.read_bytes()
    trajectories = read_trajectories(content, _DATASET).trajectories
    wrong_steps = read_wrong_steps(content)
    if len(wrong_steps) != len(trajectories):
        wrong_steps = (None,) * len(trajectories)
    return [
        GuardTrajectory(
            id=recorded.trajectory.id,
            task_id=recorded.trajectory.task_id or recorded.trajectory.id,
            is_success=recorded.trajectory.status == "success",
            events=list_events(recorded.trajectory.transcript),
            domain=recorded.domain,
            wrong_step=wrong_step,
        )
        for recorded, wrong_step in zip(trajectories, wrong_steps, strict=True)
    ]


def load_guard_trajectories(source: Path | Iterable[GetTrajectoryResponse]) -> list[GuardTrajectory]:
    """Return the trajectories of a file, or those of the archive that have an outcome.

    Raises MalformedTrajectory, UnknownFormat.
    """
    return read_guard_trajectories(source) if isinstance(source, Path) else decode_archived_trajectories(source)


def decode_archived_trajectories(archived: Iterable[GetTrajectoryResponse]) -> list[GuardTrajectory]:
    """Return the trajectories of responses of the archive; those without an outcome are left out."""
    decoded = (build_guard_trajectory(content, content.summary.content_hash) for content in archived)
    return [trajectory for trajectory in decoded if trajectory is not None]


def encode_guard_trajectory(trajectory: GuardTrajectory) -> pb.GuardTrajectory:
    """Return the message of a trajectory; texts above the limits of the contract are cut, arguments are left out."""
    message = pb.GuardTrajectory(id=trajectory.id, succeeded=trajectory.is_success)
    texts: list[pb.SessionMessage] = []
    for event in trajectory.events:
        if isinstance(event, TrajectoryCall):
            message.calls.add(
                messages=texts[-MAX_MESSAGES:],
                call=pb.GuardedCall(tool=event.request.tool, arguments=encode_arguments(event.request.args)),
                result=shorten_result(event.result),
                failed=bool(event.error),
            )
            texts = []
        elif event.role != "assistant":
            texts.append(pb.SessionMessage(text=event.text[:MAX_MESSAGE_CHARS], is_instruction=event.role == "system"))
    return message
