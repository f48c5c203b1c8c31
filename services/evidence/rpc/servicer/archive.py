"""ArchiveService: store, find and delete trajectories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from chassis.server.messages import encode
from hansei.evidence.v1 import archive_pb2, archive_service_pb2_grpc
from hansei.evidence.v1 import archive_service_pb2 as pb
from libs.storage.idempotency import IdempotencyKey, find_scope
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.evidence.domain.archive import Retention
from services.evidence.domain.archive_errors import ArchiveNotFound
from services.evidence.rpc.convert import archive as convert
from services.evidence.usecases.archive import Archive

DEFAULT_PAGE_SIZE = 100


class ArchiveServicer(archive_service_pb2_grpc.ArchiveServiceServicer):
    """Serves the archive of trajectories."""

    def __init__(
        self,
        archive: Archive,
        report_servings: Callable[[str, Sequence[str], float], Awaitable[None]],
        *,
        count_stored: Callable[[bool], None],
    ) -> None:
        self._archive = archive
        self._report_servings = report_servings
        self._count_stored = count_stored

    async def StoreTrajectory(self, request: pb.StoreTrajectoryRequest, context: Any) -> pb.StoreTrajectoryResponse:
        """Store a trajectory once, and report its outcome for the servings that it names."""
        incoming = convert.decode_request(request)
        stored = await self._archive.add(incoming)
        self._count_stored(stored)
        if request.trajectory.serving_ids and (outcome := convert.decode_outcome(request)) is not None:
            await self._report_servings(request.dataset, request.trajectory.serving_ids, outcome)
        return pb.StoreTrajectoryResponse(
            trajectory_id=incoming.key.trajectory_id, content_hash=incoming.key.content_hash, stored=stored
        )

    async def GetTrajectory(self, request: pb.GetTrajectoryRequest, context: Any) -> pb.GetTrajectoryResponse:
        """Return a trajectory."""
        trajectory, body = await self._archive.read(request.dataset, request.trajectory_id, request.content_hash)
        return convert.decode_body(body, trajectory)

    async def ListTrajectories(self, request: pb.ListTrajectoriesRequest, context: Any) -> pb.ListTrajectoriesResponse:
        """List summaries, the last stored first."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        (before,) = decode_page_token(request, int) or (None,)
        filters = convert.decode_filter(request)
        found = await self._archive.store.list_trajectories(request.dataset, filters, before, size + 1)
        if found is None:
            raise ArchiveNotFound(request.dataset)
        return pb.ListTrajectoriesResponse(
            trajectories=[convert.encode_trajectory(trajectory) for trajectory in found[:size]],
            next_page_token=encode_page_token(request, found[size - 1].number) if len(found) > size else "",
        )

    async def DeleteTrajectory(self, request: pb.DeleteTrajectoryRequest, context: Any) -> pb.DeleteTrajectoryResponse:
        """Delete a trajectory."""
        response = pb.DeleteTrajectoryResponse()
        response.deleted_at.FromDatetime(await self._archive.delete(request.dataset, request.trajectory_id))
        return response

    async def GetRetention(self, request: pb.GetRetentionRequest, context: Any) -> pb.GetRetentionResponse:
        """Return the retention of a dataset and the size of its archive."""
        totals = await self._archive.find_totals(request.dataset)
        policy = encode(totals.retention, archive_pb2.RetentionPolicy)
        return pb.GetRetentionResponse(policy=policy, trajectories=totals.trajectories, bytes=totals.size)

    async def SetRetention(self, request: pb.SetRetentionRequest, context: Any) -> pb.SetRetentionResponse:
        """Set the retention of a dataset."""
        retention = Retention(request.policy.max_age_days, request.policy.max_bytes)
        key = IdempotencyKey.for_message(request, scope=find_scope(request.dataset))
        await self._archive.store.set_retention(key, request.dataset, retention)
        applied = retention.fill(self._archive.limits.retention)
        return pb.SetRetentionResponse(policy=encode(applied, archive_pb2.RetentionPolicy))

    async def DeleteArchive(self, request: pb.DeleteArchiveRequest, context: Any) -> pb.DeleteArchiveResponse:
        """Delete all trajectories of a dataset."""
        return pb.DeleteArchiveResponse(trajectories=await self._archive.delete_archive(request.dataset))

    async def DeleteArchives(self, request: pb.DeleteArchivesRequest, context: Any) -> pb.DeleteArchivesResponse:
        """Delete all trajectories of the datasets with a prefix."""
        datasets, trajectories = await self._archive.delete_archives(request.prefix)
        return pb.DeleteArchivesResponse(datasets=datasets, trajectories=trajectories)
