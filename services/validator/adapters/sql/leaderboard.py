"""LeaderBoardStore: entries and judgements of rounds in SQL (spec section 9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, desc, insert, outerjoin, select, tuple_, update

from services.validator.adapters.sql.database import Database
from services.validator.adapters.sql.requests import Answer, once
from services.validator.adapters.sql.schema import entry, judgement
from services.validator.adapters.sql.times import moment_of, utc_microseconds, utc_now
from services.validator.domain.evaluation import EvaluationResult, MetricScore
from services.validator.domain.leaderboard import (
    JudgementRecord,
    LeaderBoardEntry,
    RoundKey,
    Submission,
    TeamScores,
    ranked_by_max_score,
)
from services.validator.domain.requests import RequestKey

_WITH_JUDGEMENT = outerjoin(
    entry,
    judgement,
    and_(
        entry.c.execution_id == judgement.c.execution_id,
        entry.c.team_id == judgement.c.team_id,
        entry.c.round_number == judgement.c.round_number,
    ),
)
_ENTRY = select(
    entry,
    judgement.c.team_id.label("judged"),
    judgement.c.should_continue,
    judgement.c.reasoning,
    judgement.c.confidence_score,
).select_from(_WITH_JUDGEMENT)


class LeaderBoardStore:
    """Keeps what teams submitted, how it was scored and judged."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def upsert(self, request: RequestKey, submission: Submission) -> LeaderBoardEntry:
        """Writes the entry of a round; an existing one keeps `id` and `created_at` (V-68). Raises RequestIdReused."""
        now = utc_microseconds(self._clock())

        def work(connection: Connection) -> LeaderBoardEntry:
            answer = once(connection, request, now, lambda: _upserted(connection, submission, now))
            return LeaderBoardEntry(
                answer["id"], submission, moment_of(answer["created"]), moment_of(answer["updated"])
            )

        return await self._database.write(work)

    async def record_judgement(self, request: RequestKey, key: RoundKey, record: JudgementRecord) -> None:
        """Writes the judgement of a round (V-71). Raises RequestIdReused."""
        now = utc_microseconds(self._clock())
        await self._database.write(
            lambda connection: once(connection, request, now, lambda: _judged(connection, key, record))
        )

    async def team_scores(self, execution_id: str) -> list[TeamScores]:
        """All scores of an execution by team; a team is named as in its last round."""
        columns = (entry.c.team_id, entry.c.team_name, entry.c.score)
        query = select(*columns).where(entry.c.execution_id == execution_id)
        query = query.order_by(entry.c.team_id, entry.c.round_number)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        teams: dict[str, TeamScores] = {}
        for team_id, team_name, score in rows:
            earlier = teams[team_id].scores if team_id in teams else ()
            teams[team_id] = TeamScores(team_id, team_name, (*earlier, score))
        return list(teams.values())

    async def get_leader_board_ranking(self, execution_id: str) -> list[dict[str, Any]]:
        """Teams by maximum score as prompts take them (V-70, B-17)."""
        return [
            {
                "team_id": row.team_id,
                "team_name": row.team_name,
                "max_score": row.max_score,
                "total_rounds": row.total_rounds,
            }
            for row in ranked_by_max_score(await self.team_scores(execution_id))
        ]

    async def best_entry(self, execution_id: str, team_id: str) -> LeaderBoardEntry | None:
        """The entry of a team with the highest score, of equal ones the later round."""
        query = _ENTRY.where(entry.c.execution_id == execution_id, entry.c.team_id == team_id)
        query = query.order_by(desc(entry.c.score), desc(entry.c.round_number)).limit(1)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else _entry_of(row)

    async def entries(self, execution_id: str, after: tuple[str, int] | None, limit: int) -> list[LeaderBoardEntry]:
        """At most `limit` entries by team and round, those after a (team, round) pair."""
        query = _ENTRY.where(entry.c.execution_id == execution_id)
        if after is not None:
            query = query.where(tuple_(entry.c.team_id, entry.c.round_number) > after)
        query = query.order_by(entry.c.team_id, entry.c.round_number).limit(limit)
        rows: Sequence[Row[Any]] = await self._database.read(lambda connection: connection.execute(query).all())
        return [_entry_of(row) for row in rows]


def _upserted(connection: Connection, submission: Submission, now: int) -> Answer:
    key = submission.key
    mine = and_(
        entry.c.execution_id == key.execution_id,
        entry.c.team_id == key.team_id,
        entry.c.round_number == key.round_number,
    )
    values = {
        "team_name": submission.team_name,
        "submission_content": submission.submission_content,
        "submission_format": submission.submission_format,
        "score": submission.score,
        "score_details": _details_text(submission.score_details),
        "final_submission": submission.final_submission,
        "exit_reason": submission.exit_reason,
        "updated_at": now,
    }
    row = connection.execute(select(entry.c.id, entry.c.created_at).where(mine).with_for_update()).one_or_none()
    if row is not None:
        connection.execute(update(entry).where(mine).values(**values))
        return {"id": row.id, "created": row.created_at, "updated": now}
    given = {"execution_id": key.execution_id, "team_id": key.team_id, "round_number": key.round_number}
    inserted = connection.execute(insert(entry).values(**given, **values, created_at=now).returning(entry.c.id))
    return {"id": inserted.scalar_one(), "created": now, "updated": now}


def _judged(connection: Connection, key: RoundKey, record: JudgementRecord) -> Answer:
    given = {"execution_id": key.execution_id, "team_id": key.team_id, "round_number": key.round_number}
    values = {
        "should_continue": record.should_continue,
        "reasoning": record.reasoning,
        "confidence_score": record.confidence_score,
    }
    mine = and_(*(judgement.c[name] == value for name, value in given.items()))
    if connection.execute(update(judgement).where(mine).values(**values)).rowcount == 0:
        connection.execute(insert(judgement).values(**given, **values))
    return {}


def _entry_of(row: Row[Any]) -> LeaderBoardEntry:
    submission = Submission(
        RoundKey(row.execution_id, row.team_id, row.round_number),
        row.team_name,
        row.submission_content,
        row.score,
        _details_of(row.score_details),
        row.submission_format,
        row.final_submission,
        row.exit_reason,
    )
    record = JudgementRecord(row.should_continue, row.reasoning, row.confidence_score) if row.judged else None
    return LeaderBoardEntry(row.id, submission, moment_of(row.created_at), moment_of(row.updated_at), record)


def _details_text(details: EvaluationResult | None) -> str | None:
    """The scores as V-69 writes them."""
    if details is None:
        return None
    metrics = [
        {"metric_name": score.metric_name, "score": score.score, "evaluator_comment": score.evaluator_comment}
        for score in details.metrics
    ]
    return json.dumps({"overall_score": details.overall_score, "metrics": metrics}, ensure_ascii=False)


def _details_of(text: str | None) -> EvaluationResult | None:
    if text is None:
        return None
    stored = json.loads(text)
    metrics = tuple(MetricScore(**score) for score in stored["metrics"])
    return EvaluationResult(metrics, stored["overall_score"])
