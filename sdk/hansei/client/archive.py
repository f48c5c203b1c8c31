"""Read trajectories from the archive, to learn from them again or to write them into a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hansei.client.pages import iterate_items
from hansei.client.trajectories import TrajectoryRecord

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.evidence.v1.archive_pb2 import ArchivedTrajectory
    from hansei.evidence.v1.archive_service_pb2 import GetTrajectoryResponse

PAGE_SIZE = 1000


def list_trajectories(client: Client, dataset: str, **filters: Any) -> Iterator[ArchivedTrajectory]:
    """Yield the summaries of archived trajectories, the last stored first. The filters are those of the contract."""
    yield from iterate_items(
        client.archive.list_trajectories, "trajectories", dataset=dataset, page_size=PAGE_SIZE, **filters
    )


def read_archive(client: Client, dataset: str, **filters: Any) -> Iterator[GetTrajectoryResponse]:
    """Yield archived trajectories, the first stored first; of several contents with one id, the last one."""
    newest = {
        summary.trajectory_id: summary for summary in reversed(list(list_trajectories(client, dataset, **filters)))
    }
    for summary in newest.values():
        yield client.archive.get_trajectory(
            dataset=dataset, trajectory_id=summary.trajectory_id, content_hash=summary.content_hash
        )


def to_record(archived: GetTrajectoryResponse, dataset: str) -> TrajectoryRecord:
    """Return an archived trajectory as one to learn into `dataset`.

    It names no bullets and no servings: those that it had belong to another dataset.
    """
    trajectory = type(archived.trajectory)()
    trajectory.CopyFrom(archived.trajectory)
    trajectory.dataset = dataset
    for field in ("used_bullet_ids", "cited_bullet_ids", "serving_ids"):
        trajectory.ClearField(field)
    return TrajectoryRecord(trajectory.id, trajectory, archived.ground_truth, archived.test_report)
