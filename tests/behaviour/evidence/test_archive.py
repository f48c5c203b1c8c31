"""The archive of trajectories against a running hansei: learned and reported trajectories are stored whole and once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from hansei.client import Client
from hansei.client.errors import HanseiError, InvalidArgument, NotFound
from hansei.client.jobs import submit_jobs
from hansei.client.trajectories import TrajectoryRecord
from hansei.evidence.v1 import archive_pb2
from hansei.playbook.v1 import playbook_pb2
from hansei.reflector.v1 import trajectory_pb2
from tests.support import systems

T = TypeVar("T")

WAIT_SECONDS = 120


@pytest.fixture
def client(system: systems.System) -> Iterator[Client]:
    with Client(system.address) as client:
        yield client


@pytest.fixture
def dataset() -> str:
    return f"archive-{uuid.uuid4().hex[:12]}"


def make_trajectory(dataset: str, trajectory_id: str, **fields: Any) -> trajectory_pb2.Trajectory:
    call = trajectory_pb2.ToolCall(id="1", name="bash", arguments='{"command": "git commit -m Done"}')
    error = "fatal: no email was given and auto-detection is disabled"
    repair = trajectory_pb2.ToolCall(
        id="2", name="bash", arguments='{"command": "git -c user.email=a@example.com commit -m Done"}'
    )
    steps = [
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_USER, content="Commit the change."),
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, name="coder", tool_calls=[call]),
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_TOOL, tool_call_id="1", content=error),
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, name="coder", tool_calls=[repair]),
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_TOOL, tool_call_id="2", content="[main 1a2b3c] Done"),
    ]
    values: dict[str, Any] = {
        "id": trajectory_id,
        "dataset": dataset,
        "query": f"Commit the change of {trajectory_id}.",
        "status": trajectory_pb2.TRAJECTORY_STATUS_SUCCESS,
        "steps": steps,
    }
    return trajectory_pb2.Trajectory(**(values | fields))


def wait_for(probe: Callable[[], T | None]) -> T:
    """Return the first result of a probe that is true; an archive gets trajectories a moment after they are learned."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            found = probe()
        except NotFound:
            found = None
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("nothing was found in time")


def list_ids(client: Client, dataset: str, **filters: Any) -> list[str]:
    response = client.archive.list_trajectories(dataset=dataset, **filters)
    return [summary.trajectory_id for summary in response.trajectories]


def test_a_learned_trajectory_can_be_read_from_the_source_of_a_bullet(client: Client, dataset: str) -> None:
    trajectory = make_trajectory(dataset, "t-1")
    client.learn(trajectory, ground_truth="committed")
    archived = wait_for(lambda: client.archive.get_trajectory(dataset=dataset, trajectory_id="t-1"))
    assert archived.trajectory == trajectory
    assert archived.ground_truth == "committed"
    (bullet,) = client.playbooks.get(dataset=dataset).playbook.bullets
    assert [source.trajectory_id for source in bullet.sources] == ["t-1"]
    texts = [archived.trajectory.steps[step].content for step in bullet.sources[0].steps]
    assert any("no email was given" in text for text in texts)
    assert list_ids(client, dataset, learned_bullet_id=bullet.id) == ["t-1"]
    (error,) = archived.summary.errors
    assert (error.operation, error.step) == ("git commit", 2)
    assert list_ids(client, dataset, error="NO EMAIL was given") == ["t-1"]
    # The same trajectory is not stored twice; the later one comes after it.
    client.learn(trajectory, ground_truth="committed")
    client.learn(make_trajectory(dataset, "t-2"))
    wait_for(lambda: list_ids(client, dataset) == ["t-2", "t-1"])


def test_a_learned_trajectory_may_contain_u0000_in_its_texts(client: Client, dataset: str) -> None:
    trajectory = make_trajectory(dataset, "binary", generated_answer="\0", reasoning_steps=["\0"], error_message="\0")
    trajectory.query += "\0"
    trajectory.steps[1].tool_calls[0].arguments = r'{"command": "git commit -m \u0000"}'
    trajectory.steps[2].content += "\0"
    trajectory.steps[3].tool_calls[0].arguments = "git commit\0"
    learned = client.learn(trajectory, ground_truth="\0", test_report="\0")
    assert learned.curation.saved, learned.curation.error
    archived = wait_for(lambda: client.archive.get_trajectory(dataset=dataset, trajectory_id="binary"))
    assert archived.trajectory == trajectory
    assert (archived.ground_truth, archived.test_report) == ("\0", "\0")
    (revision,) = client.playbooks.get_history(dataset=dataset).revisions
    assert revision.reason == "Commit the change of binary.\ufffd"


def test_the_trajectories_of_a_job_are_archived(client: Client, dataset: str) -> None:
    records = [TrajectoryRecord("test", make_trajectory(dataset, f"t-{number}")) for number in range(5)]
    submit_jobs(client, records)
    wait_for(lambda: len(list_ids(client, dataset)) == 5)


def test_a_reported_trajectory_is_archived_with_its_serving(client: Client, dataset: str) -> None:
    delta = playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="git", content="Set user.email first.")
    revision = client.playbooks.apply_deltas(dataset=dataset, deltas=[delta]).revision
    client.evidence.start_trials(dataset=dataset)
    served = client.recall(dataset, "session-1", "a commit", min_revision=revision)
    trajectory = make_trajectory(dataset, "t-1", serving_ids=[served.serving_id])
    for _ in range(2):
        report = client.evidence.report_outcome(
            dataset=dataset, serving_id=served.serving_id, succeeded=True, trajectory=trajectory
        )
        assert report.counted
    archived = client.archive.get_trajectory(dataset=dataset, trajectory_id="t-1")
    assert (archived.trajectory, list(archived.summary.serving_ids)) == (trajectory, [served.serving_id])
    assert client.archive.get_retention(dataset=dataset).trajectories == 1


def test_a_deleted_dataset_has_no_archive_and_no_trials(client: Client, dataset: str) -> None:
    client.evidence.start_trials(dataset=dataset)
    client.learn(make_trajectory(dataset, "t-1"))
    wait_for(lambda: list_ids(client, dataset))
    client.playbooks.delete_dataset(dataset=dataset)
    wait_for(lambda: not list_ids(client, dataset))
    wait_for(lambda: not client.evidence.get_trials(dataset=dataset).running)
    # A new dataset of the name has an archive of its own.
    client.learn(make_trajectory(dataset, "t-2"))
    wait_for(lambda: list_ids(client, dataset) == ["t-2"])


def test_trajectories_are_deleted_and_listed_in_pages(client: Client, dataset: str) -> None:
    for number in range(4):
        stored = client.archive.store_trajectory(dataset=dataset, trajectory=make_trajectory(dataset, f"t-{number}"))
        assert stored.stored
    first = client.archive.list_trajectories(dataset=dataset, page_size=3)
    second = client.archive.list_trajectories(dataset=dataset, page_size=3, page_token=first.next_page_token)
    assert [len(first.trajectories), len(second.trajectories), second.next_page_token] == [3, 1, ""]
    client.archive.delete_trajectory(dataset=dataset, trajectory_id="t-1")
    with pytest.raises(HanseiError, match="was deleted at") as deleted:
        client.archive.get_trajectory(dataset=dataset, trajectory_id="t-1")
    assert deleted.value.reason == "TRAJECTORY_DELETED"
    assert not client.archive.store_trajectory(dataset=dataset, trajectory=make_trajectory(dataset, "t-1")).stored
    assert list_ids(client, dataset, deleted=True) == ["t-1"]
    policy = archive_pb2.RetentionPolicy(max_age_days=30)
    assert client.archive.set_retention(dataset=dataset, policy=policy).policy.max_age_days == 30
    assert client.archive.get_retention(dataset=dataset).policy.max_age_days == 30
    assert client.archive.delete_archive(dataset=dataset).trajectories == 3
    assert list_ids(client, dataset) == []


def test_archives_of_a_prefix_are_deleted(client: Client, dataset: str) -> None:
    for name in (f"{dataset}--a", f"{dataset}--b", f"{dataset}-c"):
        client.archive.store_trajectory(dataset=name, trajectory=make_trajectory(name, "t-1"))
    deleted = client.archive.delete_archives(prefix=f"{dataset}--")
    assert (deleted.datasets, deleted.trajectories) == (2, 2)
    assert list_ids(client, f"{dataset}-c") == ["t-1"]


def test_invalid_trajectories_are_refused(client: Client, dataset: str) -> None:
    future = make_trajectory(dataset, "future")
    future.created_at.FromDatetime(datetime.now(UTC) + timedelta(days=1))
    large = [trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_USER, content="x" * 3_400_000) for _ in range(3)]
    for trajectory, field, message in (
        (future, "trajectory.created_at", "trajectory.created_at is .* in the future"),
        (make_trajectory(dataset, "none", steps=[]), "trajectory.steps", "trajectory.steps is empty"),
        (
            make_trajectory(dataset, "large", steps=large),
            "trajectory",
            r"has 10,200,\d+ bytes: .* at most 8,388,608 \(HANSEI_EVIDENCE_TRAJECTORY_MAX_BYTES\)",
        ),
        (make_trajectory("other", "other"), "trajectory.dataset", "dataset mismatch"),
        (make_trajectory(dataset, "x" * 300), "trajectory.id", "trajectory.id must be at most"),
        (make_trajectory(dataset, "\0"), "trajectory.id", r"trajectory.id must not contain the character U\+0000"),
        (
            make_trajectory(dataset, "no-end", status=trajectory_pb2.TRAJECTORY_STATUS_UNSPECIFIED),
            "trajectory.status",
            "trajectory.status is required",
        ),
    ):
        with pytest.raises(InvalidArgument, match=message) as refused:
            client.archive.store_trajectory(dataset=dataset, trajectory=trajectory)
        assert [violation.field for violation in refused.value.violations] == [field]
    with pytest.raises(HanseiError, match="has no archived trajectories") as missing:
        client.archive.list_trajectories(dataset=dataset)
    assert missing.value.reason == "ARCHIVE_NOT_FOUND"
    with pytest.raises(HanseiError, match="page_token"):
        client.archive.list_trajectories(dataset=dataset, page_token="nonsense")
