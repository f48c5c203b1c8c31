"""LeaderboardService: submissions of teams, their scores, and rankings."""

from __future__ import annotations

from typing import Any

from chassis.server.messages import decode, encode
from hansei.validator.v1 import leaderboard_service_pb2 as pb
from hansei.validator.v1 import leaderboard_service_pb2_grpc as rpc
from libs.storage.idempotency import IdempotencyKey, find_scope
from libs.storage.page_tokens import decode_page_token, encode_page_token
from services.validator.domain.leaderboard import JudgementRecord, RoundKey
from services.validator.rpc.convert.leaderboard import decode_submission, encode_entry, encode_summary
from services.validator.usecases.leaderboard import Leaderboard, Order

DEFAULT_PAGE_SIZE = 20


class LeaderboardServicer(rpc.LeaderboardServiceServicer):
    """Stores the rounds of teams and ranks the teams of an execution."""

    def __init__(self, leaderboard: Leaderboard) -> None:
        self._leaderboard = leaderboard

    async def UpsertLeaderboardEntry(
        self, request: pb.UpsertLeaderboardEntryRequest, context: Any
    ) -> pb.UpsertLeaderboardEntryResponse:
        """Write the entry of one round."""
        key = IdempotencyKey.for_message(request, scope=find_scope(request.entry.key.execution_id))
        entry, best_round = await self._leaderboard.upsert(key, decode_submission(request.entry))
        return pb.UpsertLeaderboardEntryResponse(entry=encode_entry(entry), best_round_number=best_round)

    async def RecordJudgement(self, request: pb.RecordJudgementRequest, context: Any) -> pb.RecordJudgementResponse:
        """Write the judgement of one round."""
        key = IdempotencyKey.for_message(request, scope=find_scope(request.key.execution_id))
        round_key, record = RoundKey(**decode(request.key)), JudgementRecord(**decode(request.judgement))
        await self._leaderboard.store.record_judgement(key, round_key, record)
        return pb.RecordJudgementResponse()

    async def GetRanking(self, request: pb.GetRankingRequest, context: Any) -> pb.GetRankingResponse:
        """Rank the teams of an execution."""
        order = Order.SHRUNKEN if request.order == pb.RANKING_ORDER_SHRUNKEN else Order.MAX_SCORE
        rows = await self._leaderboard.compute_ranking(request.execution_id, order)
        return pb.GetRankingResponse(rows=[encode(row, pb.RankingRow, rank=rank) for rank, row in enumerate(rows, 1)])

    async def GetBestSubmission(
        self, request: pb.GetBestSubmissionRequest, context: Any
    ) -> pb.GetBestSubmissionResponse:
        """Return the best entry of one team, by default of the best team."""
        team_id = request.team_id if request.HasField("team_id") else None
        entry = await self._leaderboard.find_best_submission(request.execution_id, team_id)
        return pb.GetBestSubmissionResponse(entry=encode_entry(entry))

    async def ListLeaderboards(self, request: pb.ListLeaderboardsRequest, context: Any) -> pb.ListLeaderboardsResponse:
        """List the executions, the newest first."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        token = decode_page_token(request, int)
        found = await self._leaderboard.store.list_summaries(request.prefix, token[0] if token else None, size + 1)
        more = encode_page_token(request, found[size - 1].last_id) if len(found) > size else ""
        return pb.ListLeaderboardsResponse(leaderboards=map(encode_summary, found[:size]), next_page_token=more)

    async def ListLeaderboardEntries(
        self, request: pb.ListLeaderboardEntriesRequest, context: Any
    ) -> pb.ListLeaderboardEntriesResponse:
        """List the entries of an execution."""
        size = request.page_size or DEFAULT_PAGE_SIZE
        after = decode_page_token(request, str, int)
        entries = await self._leaderboard.store.list_entries(request.execution_id, after, size + 1)
        token = ""
        if len(entries) > size:
            last = entries[size - 1].submission.key
            token = encode_page_token(request, last.team_id, last.round_number)
        return pb.ListLeaderboardEntriesResponse(entries=map(encode_entry, entries[:size]), next_page_token=token)
