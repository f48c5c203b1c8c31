"""An archive in a folder, and trajectories to store in it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hansei.evidence.v1 import archive_service_pb2 as pb
from hansei.reflector.v1 import trajectory_pb2
from services.evidence.adapters.bodies import ObjectStore, compress, compress_pack, decompress
from services.evidence.adapters.sql.archive_repository import ArchiveRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.archive import Retention
from services.evidence.rpc.servicer.archive import ArchiveServicer
from services.evidence.usecases.archive import Archive, ArchiveLimits
from services.evidence.usecases.report_servings import ReportServings

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
DATASET = "devtools"
LIMITS = ArchiveLimits(1_000_000, 10_000_000, 10_000, Retention(365, 5_000_000))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@asynccontextmanager
async def open_archive(
    location: Path | EvidenceRepository, limits: ArchiveLimits = LIMITS, objects: Path | str | None = None
) -> AsyncIterator[tuple[ArchiveServicer, Archive, Clock]]:
    """Open an archive in a folder, or in the database of the evidence service."""
    clock = Clock()
    evidence = EvidenceRepository(str(location / "evidence.db")) if isinstance(location, Path) else location
    database = evidence.database
    await database.open()
    archive = Archive(
        ArchiveRepository(database, clock),
        ObjectStore(objects.as_uri() if isinstance(objects, Path) else objects) if objects else None,
        limits,
        compress=compress,
        compress_pack=compress_pack,
        decompress=decompress,
        now=clock,
    )
    try:
        report_servings = ReportServings(evidence, count_report=lambda is_counted, decisions: None)
        yield ArchiveServicer(archive, report_servings, count_stored=lambda is_new: None), archive, clock
    finally:
        await database.close()


def make_trajectory(trajectory_id: str = "t-1", **fields: Any) -> trajectory_pb2.Trajectory:
    call = trajectory_pb2.ToolCall(id="1", name="bash", arguments=json.dumps({"command": "git push origin main"}))
    steps = [
        trajectory_pb2.Step(role=trajectory_pb2.STEP_ROLE_ASSISTANT, name="coder", tool_calls=[call]),
        trajectory_pb2.Step(
            role=trajectory_pb2.STEP_ROLE_TOOL,
            tool_call_id="1",
            content="error: failed to push some refs to 'https://x/1'",
        ),
    ]
    values: dict[str, Any] = {
        "id": trajectory_id,
        "dataset": DATASET,
        "query": "push the branch",
        "status": trajectory_pb2.TRAJECTORY_STATUS_FAILURE,
        "steps": steps,
        "used_bullet_ids": ["b-1"],
        "cited_bullet_ids": ["b-2"],
        "serving_ids": ["s-1"],
    }
    return trajectory_pb2.Trajectory(**(values | fields))


async def store(servicer: ArchiveServicer, trajectory_id: str = "t-1", **fields: Any) -> pb.StoreTrajectoryResponse:
    request = pb.StoreTrajectoryRequest(
        dataset=DATASET, trajectory=make_trajectory(trajectory_id, **fields), ground_truth="done"
    )
    return await servicer.StoreTrajectory(request, None)


async def read(servicer: ArchiveServicer, trajectory_id: str = "t-1", **fields: Any) -> pb.GetTrajectoryResponse:
    return await servicer.GetTrajectory(
        pb.GetTrajectoryRequest(dataset=DATASET, trajectory_id=trajectory_id, **fields), None
    )


async def list_ids(servicer: ArchiveServicer, **fields: Any) -> list[str]:
    response = await servicer.ListTrajectories(pb.ListTrajectoriesRequest(dataset=DATASET, **fields), None)
    return [trajectory.trajectory_id for trajectory in response.trajectories]
