"""Writes rounds to the leaderboard and ranks teams."""

from __future__ import annotations

from enum import Enum

from libs.storage.idempotency import IdempotencyKey
from services.validator.domain.errors import SubmissionNotFound
from services.validator.domain.leaderboard import (
    LeaderBoardEntry,
    RankingRow,
    Submission,
    rank_by_max_score,
    rank_by_shrunken_score,
)
from services.validator.usecases.ports import LeaderboardStore


class Order(Enum):
    """The order of the teams in a ranking."""

    MAX_SCORE = "max_score"
    SHRUNKEN = "shrunken"


class Leaderboard:
    """The leaderboard of all executions."""

    def __init__(self, store: LeaderboardStore) -> None:
        self.store = store

    async def upsert(self, request: IdempotencyKey, submission: Submission) -> tuple[LeaderBoardEntry, int]:
        """Write the entry of a round; return it with the number of the team's best round by now (G-61)."""
        entry = await self.store.upsert(request, submission)
        best = await self.find_best_submission(submission.key.execution_id, submission.key.team_id)
        return entry, best.submission.key.round_number

    async def compute_ranking(self, execution_id: str, order: Order = Order.MAX_SCORE) -> list[RankingRow]:
        """Return the teams, best first; none for an unknown execution (V-70)."""
        teams = await self.store.list_team_scores(execution_id)
        return rank_by_max_score(teams) if order is Order.MAX_SCORE else rank_by_shrunken_score(teams)

    async def find_best_submission(self, execution_id: str, team_id: str | None = None) -> LeaderBoardEntry:
        """Return the best entry of a team, by default of the best team (V-71). Raises SubmissionNotFound."""
        if team_id is None:
            rows = await self.compute_ranking(execution_id)
            if not rows:
                raise SubmissionNotFound(f"execution '{execution_id}' has no entries")
            team_id = rows[0].team_id
        entry = await self.store.find_best_entry(execution_id, team_id)
        if entry is None:
            raise SubmissionNotFound(f"team '{team_id}' has no entries in execution '{execution_id}'")
        return entry
