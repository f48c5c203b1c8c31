"""The content of a trajectory is what identifies it."""

from __future__ import annotations

from hansei.reflector.v1.trajectory_pb2 import Step, Trajectory
from libs.trajectories.content import reduce_to_content


def test_the_same_conversation_has_the_same_content_in_every_file() -> None:
    plain = Trajectory(id="t-1", query="Push.", steps=[Step(content="done"), Step(content="bye")])
    read = Trajectory()
    read.CopyFrom(plain)
    read.created_at.GetCurrentTime()
    read.usage.input_tokens = 5
    for number, step in enumerate(read.steps):
        step.source = f"messages[{number}]"
    assert read != plain
    reduce_to_content(read)
    assert read == plain
