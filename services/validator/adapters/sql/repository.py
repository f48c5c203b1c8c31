"""The leaderboard (spec section 9) and the registered kinds in SQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, select

from chassis.errors import Aborted, ResourceExhausted, Unavailable
from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from libs.storage.database import Database
from libs.storage.idempotency import IdempotencyKey
from libs.storage.timestamps import from_microseconds, to_microseconds, utc_now
from services.validator.adapters.sql import queries
from services.validator.adapters.sql.schema import MIGRATIONS, kind, requests
from services.validator.domain.errors import KindNotFound
from services.validator.domain.kind_definition import KindDefinition
from services.validator.domain.leaderboard import (
    JudgementRecord,
    LeaderBoardEntry,
    LeaderboardSummary,
    RoundKey,
    Submission,
    TeamScores,
    rank_by_max_score,
)
from services.validator.usecases.ports import RegisteredKind

T = TypeVar("T")

RETRY = RetryPolicy(attempts=4, first_pause=1.0, is_exact=True)
LOCK_SECONDS = 5
STATEMENT_SECONDS = 10.0

log = get_logger("hansei.validator")


class ValidatorDatabase(Database):
    """The validator's database; failed writes are retried (V-72)."""

    def __init__(
        self,
        location: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        """Take a file name for SQLite or a database URL; SQLite waits `lock_seconds` for another writer."""
        self._sleep = sleep
        super().__init__(
            location,
            MIGRATIONS,
            service="validator",
            store="leaderboard",
            lock_seconds=lock_seconds,
            statement_seconds=STATEMENT_SECONDS,
        )

    async def write(
        self, work: Callable[[Connection], T], key: str = "", on_commit: Callable[[T], None] | None = None
    ) -> T:
        """Return the result of `work`, retried after 1, 2 and 4 seconds while the database fails (V-72)."""
        write = super().write
        result, _ = await RETRY.run(
            lambda: write(work, key, on_commit),
            lambda error: isinstance(error, Unavailable | Aborted | ResourceExhausted),
            before_pause=lambda attempt, pause, error: log.warning(
                "leaderboard write failed; trying again", pause_seconds=pause, error=str(error)
            ),
            sleep=self._sleep,
        )
        return result


class LeaderBoardStore:
    """Stores the submissions of teams with their scores and judgements."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def upsert(self, request: IdempotencyKey, submission: Submission) -> LeaderBoardEntry:
        """Write the entry of a round; an existing one keeps `id` and `created_at` (V-68). Raises RequestIdReused."""
        now = self._clock()

        def upsert(connection: Connection) -> tuple[int, int, int]:
            entry = queries.upsert_entry(connection, submission, now)
            return entry.id, to_microseconds(entry.created_at), to_microseconds(now)

        entry_id, created_at, updated_at = await requests.write_once(self._database, request, now, upsert)
        return LeaderBoardEntry(entry_id, submission, from_microseconds(created_at), from_microseconds(updated_at))

    async def record_judgement(self, request: IdempotencyKey, key: RoundKey, record: JudgementRecord) -> None:
        """Write the judgement of a round (V-71). Raises RequestIdReused."""
        await requests.write_once(
            self._database,
            request,
            self._clock(),
            lambda connection: queries.upsert_judgement(connection, key, record),
        )

    async def list_team_scores(self, execution_id: str) -> list[TeamScores]:
        """Return the scores of an execution by team; a team has the name of its last round."""
        return await self._database.read(queries.select_team_scores, execution_id)

    async def get_leader_board_ranking(self, execution_id: str) -> list[dict[str, Any]]:
        """Return the teams by maximum score, in the form that prompts take (V-70, B-17)."""
        names = ("team_id", "team_name", "max_score", "total_rounds")
        rows = rank_by_max_score(await self.list_team_scores(execution_id))
        return [{name: getattr(row, name) for name in names} for row in rows]

    async def find_best_entry(self, execution_id: str, team_id: str) -> LeaderBoardEntry | None:
        """Return the entry of a team with the highest score, of equal ones the later round."""
        return await self._database.read(queries.select_best_entry, execution_id, team_id)

    async def list_summaries(self, prefix: str, before: int | None, limit: int) -> list[LeaderboardSummary]:
        """Return executions whose ids have a prefix, the newest first, those before the one with this newest entry."""
        return await self._database.read(queries.select_summaries, prefix, before, limit)

    async def list_entries(
        self, execution_id: str, after: tuple[str, int] | None, limit: int
    ) -> list[LeaderBoardEntry]:
        """Return at most `limit` entries by team and round, those after a (team, round) pair."""
        return await self._database.read(queries.select_entries, execution_id, after, limit)


class SqlKindStore:
    """Stores registered kinds, their definitions as JSON text."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def add(self, request: IdempotencyKey, definition: KindDefinition) -> RegisteredKind:
        """Store a definition. Raises KindExists, RequestIdReused."""
        now = self._clock()

        def insert(connection: Connection) -> tuple[int]:
            queries.insert_kind(connection, definition, now)
            return (to_microseconds(now),)

        (created_at,) = await requests.write_once(self._database, request, now, insert)
        return RegisteredKind(definition, from_microseconds(created_at))

    async def remove(self, request: IdempotencyKey, name: str) -> None:
        """Remove a definition. Raises KindNotFound, RequestIdReused."""
        await requests.write_once(
            self._database, request, self._clock(), lambda connection: queries.delete_kind(connection, name)
        )

    async def get(self, name: str) -> RegisteredKind:
        """Return the definition of this name. Raises KindNotFound."""
        query = select(kind).where(kind.c.name == name)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise KindNotFound(name)
        return RegisteredKind(queries.decode_definition(row.definition), row.created_at)

    async def page(self, after: str, limit: int) -> list[RegisteredKind]:
        """Return at most `limit` definitions by name, those after a name."""
        query = select(kind).where(kind.c.name > after).order_by(kind.c.name).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [RegisteredKind(queries.decode_definition(row.definition), row.created_at) for row in rows]
