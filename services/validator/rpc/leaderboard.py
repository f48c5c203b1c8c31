"""LeaderboardService: what teams submitted, how it was scored, and who leads."""

from __future__ import annotations

from typing import Any

from chassis.errors import Unimplemented
from hansei.validator.v1 import leaderboard_service_pb2 as pb
from hansei.validator.v1 import leaderboard_service_pb2_grpc as rpc


class LeaderboardServicer(rpc.LeaderboardServiceServicer):
    """LeaderboardService: what teams submitted, how it was scored, and who leads."""

    async def UpsertLeaderboardEntry(
        self, request: pb.UpsertLeaderboardEntryRequest, context: Any
    ) -> pb.UpsertLeaderboardEntryResponse:
        """Not in this build yet."""
        raise Unimplemented("UpsertLeaderboardEntry is not in this build")

    async def RecordJudgement(self, request: pb.RecordJudgementRequest, context: Any) -> pb.RecordJudgementResponse:
        """Not in this build yet."""
        raise Unimplemented("RecordJudgement is not in this build")

    async def GetRanking(self, request: pb.GetRankingRequest, context: Any) -> pb.GetRankingResponse:
        """Not in this build yet."""
        raise Unimplemented("GetRanking is not in this build")

    async def GetBestSubmission(
        self, request: pb.GetBestSubmissionRequest, context: Any
    ) -> pb.GetBestSubmissionResponse:
        """Not in this build yet."""
        raise Unimplemented("GetBestSubmission is not in this build")

    async def ListLeaderboardEntries(
        self, request: pb.ListLeaderboardEntriesRequest, context: Any
    ) -> pb.ListLeaderboardEntriesResponse:
        """Not in this build yet."""
        raise Unimplemented("ListLeaderboardEntries is not in this build")
