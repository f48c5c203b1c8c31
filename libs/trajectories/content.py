"""The content of a trajectory message: what identifies it."""

from __future__ import annotations

from hansei.reflector.v1.trajectory_pb2 import Trajectory


def reduce_to_content(trajectory: Trajectory) -> None:
    """Clear what readers of files fill in: the time, the usage, and the position of each step in its file.

    So a conversation has the same content in files of several formats, and whenever it is read (ADR 229).
    """
    trajectory.ClearField("created_at")
    trajectory.ClearField("usage")
    for step in trajectory.steps:
        step.ClearField("source")
