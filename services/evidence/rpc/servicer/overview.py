"""OverviewService: the counts of the archived trajectories of a dataset."""

from __future__ import annotations

from typing import Any

from hansei.evidence.v1 import overview_service_pb2 as pb
from hansei.evidence.v1 import overview_service_pb2_grpc
from services.evidence.domain.overview import DEFAULT_DAYS, summarize_groups
from services.evidence.rpc.convert import overview as convert
from services.evidence.usecases.archive_ports import OverviewStore


class OverviewServicer(overview_service_pb2_grpc.OverviewServiceServicer):
    """Serves the overview of datasets."""

    def __init__(self, store: OverviewStore) -> None:
        self._store = store

    async def GetOverview(self, request: pb.GetOverviewRequest, context: Any) -> pb.GetOverviewResponse:
        """Return the counts by day and agent, with the shares that follow from them."""
        groups = await self._store.list_groups(request.dataset, request.days or DEFAULT_DAYS)
        return convert.encode_overview(summarize_groups(groups))
