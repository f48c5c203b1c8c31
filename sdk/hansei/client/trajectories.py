"""Trajectories with the evidence of their outcome and their siblings; their ids make learning repeatable."""

from __future__ import annotations

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hansei.reflector.v1.trajectory_pb2 import Trajectory

MAX_SIBLINGS = 20
MAX_SIBLING_BYTES = 8 * 1024 * 1024

_NAMESPACE = uuid.UUID("6f2c1d3e-9a54-5b0c-8f77-2d0b6a1c4e90")
"""The namespace of the ids below. It must never change: otherwise everything would be learned again."""


@dataclass(frozen=True, slots=True)
class TrajectoryRecord:
    """A trajectory with the evidence of its outcome, and the place in a file where it was read."""

    source: str
    trajectory: Trajectory
    ground_truth: str = ""
    test_report: str = ""
    siblings: Sequence[Trajectory] = field(default=(), repr=False)
    note: str = ""
    """A remark on the parts that were left out to read it. Empty: it is whole."""
    file: str = ""
    """The file, if the command that reads it needs to know."""

    @property
    def request_id(self) -> str:
        """Return the idempotency key: the same for the same content, so that a file that is read again is learned once.

        The content excludes what a reader sets (the time, the usage, the positions in the file), and the siblings,
        which grow with the file.
        """
        content = Trajectory()
        content.CopyFrom(self.trajectory)
        content.ClearField("created_at")
        content.ClearField("usage")
        for step in content.steps:
            step.ClearField("source")
        digest = hashlib.sha256()
        for part in (
            content.SerializeToString(deterministic=True),
            self.ground_truth.encode(),
            self.test_report.encode(),
        ):
            digest.update(len(part).to_bytes(8, "big") + part)
        return str(uuid.uuid5(_NAMESPACE, digest.hexdigest()))

    @property
    def learn_options(self) -> dict[str, Any]:
        """Return the options of `learn`."""
        return {
            "ground_truth": self.ground_truth,
            "test_report": self.test_report,
            "siblings": self.siblings,
            "request_id": self.request_id,
        }


def add_siblings(records: Iterable[TrajectoryRecord]) -> list[TrajectoryRecord]:
    """Return the records with the other trajectories of their tasks, so that failures are compared with successes."""
    records = list(records)
    by_task: dict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    for record in records:
        if record.trajectory.task_id:
            by_task[_compute_task_key(record)].append(record.trajectory)
    return [
        replace(record, siblings=_find_siblings(record, by_task.get(_compute_task_key(record), [])))
        for record in records
    ]


def _compute_task_key(record: TrajectoryRecord) -> tuple[str, str]:
    return record.trajectory.dataset, record.trajectory.task_id


def _find_siblings(record: TrajectoryRecord, of_task: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the other trajectories of a task that fit into one request, those with another outcome first."""
    others = sorted(
        (other for other in of_task if other is not record.trajectory),
        key=lambda other: other.status == record.trajectory.status,
    )
    siblings: list[Trajectory] = []
    size = 0
    for other in others[:MAX_SIBLINGS]:
        size += other.ByteSize()
        if size > MAX_SIBLING_BYTES:
            break
        siblings.append(other)
    return siblings
