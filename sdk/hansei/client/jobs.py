"""Jobs of many trajectories, which the server learns in the background."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence

from hansei.client.client import Client
from hansei.client.trajectories import TrajectoryRecord
from hansei.gateway.v1.bulk_pb2 import Job, QueuedTrajectory
from hansei.gateway.v1.bulk_service_pb2 import JobHead, SubmitTrajectoriesRequest, TrajectoryBatch

BATCH_BYTES = 4 * 1024 * 1024
BATCH_TRAJECTORIES = 500
_NAMESPACE = uuid.UUID("b6c0f7f1-3d3e-5a55-9f0b-6c8c1de02a4f")
"""The namespace of job ids. It must never change: otherwise submitted jobs would be submitted again."""


def submit_jobs(client: Client, records: Sequence[TrajectoryRecord]) -> list[Job]:
    """Submit trajectories as one job for each dataset. Submitting the same trajectories again queues nothing."""
    by_dataset: dict[str, list[TrajectoryRecord]] = defaultdict(list)
    for record in records:
        by_dataset[record.trajectory.dataset].append(record)
    return [
        client.jobs.submit(_iterate_requests(dataset, members)).job for dataset, members in sorted(by_dataset.items())
    ]


def create_job_id(dataset: str, records: Sequence[TrajectoryRecord]) -> str:
    """Return the id of a job, derived from the content and the order of its trajectories."""
    return str(uuid.uuid5(_NAMESPACE, "\n".join([dataset, *(record.request_id for record in records)])))


def _iterate_requests(dataset: str, records: Sequence[TrajectoryRecord]) -> Iterator[SubmitTrajectoriesRequest]:
    yield SubmitTrajectoriesRequest(head=JobHead(request_id=create_job_id(dataset, records), dataset=dataset))
    batch: list[QueuedTrajectory] = []
    size = 0
    for record in records:
        item = QueuedTrajectory(
            trajectory=record.trajectory,
            ground_truth=record.ground_truth,
            test_report=record.test_report,
            siblings=record.siblings,
            request_id=record.request_id,
        )
        if batch and (len(batch) >= BATCH_TRAJECTORIES or size + item.ByteSize() > BATCH_BYTES):
            yield SubmitTrajectoriesRequest(batch=TrajectoryBatch(trajectories=batch))
            batch, size = [], 0
        batch.append(item)
        size += item.ByteSize()
    if batch:
        yield SubmitTrajectoriesRequest(batch=TrajectoryBatch(trajectories=batch))
