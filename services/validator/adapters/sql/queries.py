"""SQL statements on entries, judgements and report kinds, and the conversion of rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, desc, distinct, func, insert, outerjoin, select, tuple_

from libs.storage.engines import get_insert
from services.validator.adapters.sql.schema import entry, judgement, kind
from services.validator.domain.errors import KindExists, KindNotFound
from services.validator.domain.evaluation import EvaluationResult, MetricScore
from services.validator.domain.findings import Severity
from services.validator.domain.kind_definition import (
    Check,
    Count,
    Expression,
    ForbiddenWords,
    KindDefinition,
    Reference,
    Required,
    Rule,
)
from services.validator.domain.leaderboard import (
    JudgementRecord,
    LeaderBoardEntry,
    LeaderboardSummary,
    RoundKey,
    Submission,
    TeamScores,
)

_ROUND = ("execution_id", "team_id", "round_number")
_WITH_JUDGEMENT = outerjoin(entry, judgement, and_(*(entry.c[name] == judgement.c[name] for name in _ROUND)))
_ENTRY = select(
    entry,
    judgement.c.team_id.label("judged"),
    judgement.c.should_continue,
    judgement.c.reasoning,
    judgement.c.confidence_score,
).select_from(_WITH_JUDGEMENT)

_CHECKS: dict[str, type[Check]] = {
    check.__name__: check for check in (Required, Reference, Count, ForbiddenWords, Expression)
}


def upsert_entry(connection: Connection, submission: Submission, now: datetime) -> LeaderBoardEntry:
    """Write the entry of a round; an existing one keeps `id` and `created_at` (V-68)."""
    values = {
        "team_name": submission.team_name,
        "submission_content": submission.submission_content,
        "submission_format": submission.submission_format,
        "score": submission.score,
        "score_details": _encode_details(submission.score_details),
        "final_submission": submission.final_submission,
        "exit_reason": submission.exit_reason,
        "updated_at": now,
    }
    row = get_insert(connection.dialect.name)(entry).values(**asdict(submission.key), **values, created_at=now)
    upsert = row.on_conflict_do_update(index_elements=_ROUND, set_=values).returning(entry.c.id, entry.c.created_at)
    written = connection.execute(upsert).one()
    return LeaderBoardEntry(written.id, submission, written.created_at, now)


def upsert_judgement(connection: Connection, key: RoundKey, record: JudgementRecord) -> None:
    """Write the judgement of a round."""
    values = asdict(record)
    row = get_insert(connection.dialect.name)(judgement).values(**asdict(key), **values)
    connection.execute(row.on_conflict_do_update(index_elements=_ROUND, set_=values))


def select_team_scores(connection: Connection, execution_id: str) -> list[TeamScores]:
    """Return the scores of an execution by team; a team has the name of its last round."""
    query = select(entry.c.team_id, entry.c.team_name, entry.c.score).where(entry.c.execution_id == execution_id)
    teams: dict[str, TeamScores] = {}
    for team_id, team_name, score in connection.execute(query.order_by(entry.c.team_id, entry.c.round_number)):
        earlier = teams[team_id].scores if team_id in teams else ()
        teams[team_id] = TeamScores(team_id, team_name, (*earlier, score))
    return list(teams.values())


def select_best_entry(connection: Connection, execution_id: str, team_id: str) -> LeaderBoardEntry | None:
    """Return the entry of a team with the highest score, of equal ones the later round."""
    query = _ENTRY.where(entry.c.execution_id == execution_id, entry.c.team_id == team_id)
    query = query.order_by(desc(entry.c.score), desc(entry.c.round_number)).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else _to_entry(row)


def select_entries(
    connection: Connection, execution_id: str, after: tuple[str, int] | None, limit: int
) -> list[LeaderBoardEntry]:
    """Return entries by team and round, those after a (team, round) pair."""
    query = _ENTRY.where(entry.c.execution_id == execution_id)
    if after is not None:
        query = query.where(tuple_(entry.c.team_id, entry.c.round_number) > after)
    query = query.order_by(entry.c.team_id, entry.c.round_number).limit(limit)
    return [_to_entry(row) for row in connection.execute(query)]


def select_summaries(connection: Connection, prefix: str, before: int | None, limit: int) -> list[LeaderboardSummary]:
    """Return executions by their newest entry, the newest first, those before an entry."""
    last_id = func.max(entry.c.id)
    query = select(
        entry.c.execution_id,
        func.count(distinct(entry.c.team_id)).label("teams"),
        func.count().label("entries"),
        func.max(entry.c.round_number).label("last_round"),
        func.min(entry.c.created_at, type_=entry.c.created_at.type).label("created_at"),
        func.max(entry.c.updated_at, type_=entry.c.updated_at.type).label("updated_at"),
        last_id.label("last_id"),
    )
    query = query.where(func.substr(entry.c.execution_id, 1, len(prefix)) == prefix).group_by(entry.c.execution_id)
    if before is not None:
        query = query.having(last_id < before)
    rows = connection.execute(query.order_by(last_id.desc()).limit(limit)).all()
    best = _select_best_teams(connection, [row.execution_id for row in rows])
    return [LeaderboardSummary(**row._mapping, **best[row.execution_id]) for row in rows]


def _select_best_teams(connection: Connection, execution_ids: list[str]) -> dict[str, dict[str, Any]]:
    """Return the best team of each execution: the highest score, of equal ones the first id, with its last name."""
    query = select(entry.c.execution_id, entry.c.team_id, func.max(entry.c.score).label("score"))
    query = query.where(entry.c.execution_id.in_(execution_ids)).group_by(entry.c.execution_id, entry.c.team_id)
    best: dict[str, Any] = {}
    # Ordered here, by code points: the collation of the server may order ids in another way.
    for row in sorted(connection.execute(query), key=lambda row: (-row.score, row.team_id)):
        best.setdefault(row.execution_id, row)
    keys = [(row.execution_id, row.team_id) for row in best.values()]
    names = select(entry.c.execution_id, entry.c.team_name).where(
        tuple_(entry.c.execution_id, entry.c.team_id).in_(keys)
    )
    rows = connection.execute(names.order_by(entry.c.round_number))
    last_names = {row.execution_id: row.team_name for row in rows}
    return {
        execution_id: {
            "best_team_id": row.team_id,
            "best_team_name": last_names[execution_id],
            "max_score": row.score,
        }
        for execution_id, row in best.items()
    }


def insert_kind(connection: Connection, definition: KindDefinition, now: datetime) -> None:
    """Insert a definition. Raises KindExists."""
    if connection.execute(select(kind.c.name).where(kind.c.name == definition.name)).one_or_none() is not None:
        raise KindExists(definition.name)
    values = {"name": definition.name, "definition": encode_definition(definition), "created_at": now}
    connection.execute(insert(kind).values(**values))


def delete_kind(connection: Connection, name: str) -> None:
    """Delete a definition. Raises KindNotFound."""
    if connection.execute(delete(kind).where(kind.c.name == name)).rowcount == 0:
        raise KindNotFound(name)


def _to_entry(row: Row[Any]) -> LeaderBoardEntry:
    submission = Submission(
        RoundKey(row.execution_id, row.team_id, row.round_number),
        row.team_name,
        row.submission_content,
        row.score,
        _decode_details(row.score_details),
        row.submission_format,
        row.final_submission,
        row.exit_reason,
    )
    record = JudgementRecord(row.should_continue, row.reasoning, row.confidence_score) if row.judged else None
    return LeaderBoardEntry(row.id, submission, row.created_at, row.updated_at, record)


def _encode_details(details: EvaluationResult | None) -> str | None:
    """Return the scores as JSON (V-69)."""
    if details is None:
        return None
    metrics = [
        {"metric_name": score.metric_name, "score": score.score, "evaluator_comment": score.evaluator_comment}
        for score in details.metrics
    ]
    return json.dumps({"overall_score": details.overall_score, "metrics": metrics}, ensure_ascii=False)


def _decode_details(text: str | None) -> EvaluationResult | None:
    if text is None:
        return None
    stored = json.loads(text)
    metrics = tuple(MetricScore(**score) for score in stored["metrics"])
    return EvaluationResult(metrics, stored["overall_score"])


def encode_definition(definition: KindDefinition) -> str:
    """Return a definition as JSON text."""
    rules = [
        {
            "code": rule.code,
            "severity": rule.severity.value,
            "message": rule.message,
            "kind": type(rule.check).__name__,
            "check": asdict(rule.check),
        }
        for rule in definition.rules
    ]
    fields = {
        "name": definition.name,
        "title": definition.title,
        "json_schema": definition.json_schema,
        "instructions": definition.instructions,
    }
    return json.dumps({**fields, "rules": rules}, ensure_ascii=False)


def decode_definition(text: str) -> KindDefinition:
    """Return the definition of a JSON text of `encode_definition`."""
    stored = json.loads(text)
    return KindDefinition(**{**stored, "rules": tuple(_decode_rule(rule) for rule in stored["rules"])})


def _decode_rule(stored: dict[str, Any]) -> Rule:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored["check"].items()
    }
    return Rule(stored["code"], _CHECKS[stored["kind"]](**fields), Severity(stored["severity"]), stored["message"])
