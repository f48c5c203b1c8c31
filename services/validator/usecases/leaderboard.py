"""Writes rounds to the leaderboard and ranks teams."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from services.validator.domain.errors import SubmissionNotFound
from services.validator.domain.leaderboard import (
    JudgementRecord,
    LeaderBoardEntry,
    RankingRow,
    RoundKey,
    Submission,
    TeamScores,
    ranked_by_max_score,
    ranked_by_shrunken_score,
)
from services.validator.domain.requests import RequestKey


class Store(Protocol):
    """Where entries and judgements are kept."""

    async def upsert(self, request: RequestKey, submission: Submission) -> LeaderBoardEntry:
        """Writes the entry of a round."""
        ...

    async def record_judgement(self, request: RequestKey, key: RoundKey, record: JudgementRecord) -> None:
        """Writes the judgement of a round."""
        ...

    async def team_scores(self, execution_id: str) -> list[TeamScores]:
        """All scores of an execution by team."""
        ...

    async def best_entry(self, execution_id: str, team_id: str) -> LeaderBoardEntry | None:
        """The entry of a team with the highest score, of equal ones the later round."""
        ...

    async def entries(self, execution_id: str, after: tuple[str, int] | None, limit: int) -> list[LeaderBoardEntry]:
        """Entries by team and round, those after a (team, round) pair."""
        ...


class Order(Enum):
    """How teams are ordered."""

    MAX_SCORE = "max_score"
    SHRUNKEN = "shrunken"


class Leaderboard:
    """The leaderboard of all executions."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def ranking(self, execution_id: str, order: Order = Order.MAX_SCORE) -> list[RankingRow]:
        """Teams, best first; none for an unknown execution (V-70)."""
        teams = await self.store.team_scores(execution_id)
        return ranked_by_max_score(teams) if order is Order.MAX_SCORE else ranked_by_shrunken_score(teams)

    async def best_submission(self, execution_id: str, team_id: str | None = None) -> LeaderBoardEntry:
        """The best entry of a team, of the first of the ranking if none is given (V-71). Raises SubmissionNotFound."""
        if team_id is None:
            rows = await self.ranking(execution_id)
            if not rows:
                raise SubmissionNotFound(f"execution '{execution_id}' has no entries")
            team_id = rows[0].team_id
        entry = await self.store.best_entry(execution_id, team_id)
        if entry is None:
            raise SubmissionNotFound(f"team '{team_id}' has no entries in execution '{execution_id}'")
        return entry
