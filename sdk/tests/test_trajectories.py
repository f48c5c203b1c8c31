"""Test records of trajectories: ids depend on the content alone, siblings are bounded."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansei.client import trajectories as module
from hansei.client.trajectories import TrajectoryRecord, add_siblings
from hansei.reflector.v1.trajectory_pb2 import TRAJECTORY_STATUS_FAILURE, TRAJECTORY_STATUS_SUCCESS, Trajectory

texts = st.text(max_size=20)
trajectories = st.builds(Trajectory, id=texts, query=texts, dataset=texts, generated_answer=texts, task_id=texts)


@given(trajectories, texts, texts)
def test_the_request_id_is_a_uuid_that_only_content_changes(trajectory: Trajectory, truth: str, report: str) -> None:
    later = Trajectory()
    later.CopyFrom(trajectory)
    later.created_at.GetCurrentTime()
    later.usage.input_tokens = 5
    trajectory.steps.add(content="a")
    later.steps.add(content="a", source="messages[0]")
    first = TrajectoryRecord("a.json", trajectory, truth, report)
    assert uuid.UUID(first.request_id).version == 5
    assert TrajectoryRecord("b.json#2", later, truth, report, [trajectory]).request_id == first.request_id
    assert TrajectoryRecord("a.json", trajectory, truth + "!", report).request_id != first.request_id
    assert TrajectoryRecord("a.json", trajectory, truth, report + "!").request_id != first.request_id
    changed = Trajectory()
    changed.CopyFrom(trajectory)
    changed.query += "!"
    assert TrajectoryRecord("a.json", changed, truth, report).request_id != first.request_id


def test_the_request_id_of_a_trajectory_never_changes_between_versions() -> None:
    # A changed id would make hansei learn old trajectories again.
    trajectory = Trajectory(id="r", query="q", dataset="d", status=TRAJECTORY_STATUS_FAILURE)
    assert TrajectoryRecord("", trajectory, "truth", "report").request_id == "536a9351-2a69-5fb7-9735-0df6fc50b093"


def record(task: str, number: int, *, good: bool = True, dataset: str = "d") -> TrajectoryRecord:
    status = TRAJECTORY_STATUS_SUCCESS if good else TRAJECTORY_STATUS_FAILURE
    return TrajectoryRecord("f", Trajectory(id=f"{task}-{number}", task_id=task, dataset=dataset, status=status))


def test_siblings_with_the_other_outcome_are_first() -> None:
    records = [
        record("a", 1, good=False),
        record("a", 2, good=False),
        record("a", 3),
        record("b", 1),
        record("a", 4, dataset="e"),
    ]
    first, _, third, other_task, other_dataset = add_siblings(records)
    assert [sibling.id for sibling in first.siblings] == ["a-3", "a-2"]
    assert [sibling.id for sibling in third.siblings] == ["a-1", "a-2"]
    assert list(other_task.siblings) == []
    assert list(other_dataset.siblings) == []


def test_trajectories_without_a_task_have_no_siblings() -> None:
    assert all(not trajectory.siblings for trajectory in add_siblings([record("", 1), record("", 2, good=False)]))


def test_siblings_stay_within_the_size_limit_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    many = add_siblings([record("a", number) for number in range(50)])
    assert {len(trajectory.siblings) for trajectory in many} == {module.MAX_SIBLINGS}
    monkeypatch.setattr(module, "MAX_SIBLING_BYTES", 40)
    few = add_siblings([record("a", number) for number in range(50)])
    assert all(sum(sibling.ByteSize() for sibling in trajectory.siblings) <= 40 for trajectory in few)
    assert all(trajectory.siblings for trajectory in few)
