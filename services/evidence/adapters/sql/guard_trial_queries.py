"""Queries for the measurements of guards and the decisions about their modes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from chassis.targets.guard import GuardMode
from services.evidence.adapters.sql.guard_schema import (
    digest_text,
    guard_dataset,
    guard_decision,
    guard_event,
    guard_firing,
    guard_session,
    guard_trial,
)
from services.evidence.domain.effects import EffectStatistics
from services.evidence.domain.guard_sessions import SessionCall, decode_event
from services.evidence.domain.guard_trials import FiredSession, GuardTrial, ModeDecision
from services.evidence.usecases.guard_trial_ports import NumberedDecision


def lock_dataset(connection: Connection, dataset: str) -> Row[Any] | None:
    """Return the counters of a dataset, which no other transaction can change; None without sessions."""
    return connection.execute(select(guard_dataset).where(guard_dataset.c.dataset == dataset).with_for_update()).first()


def select_dataset(connection: Connection, dataset: str) -> Row[Any] | None:
    """Return the counters of a dataset; None without sessions."""
    return connection.execute(select(guard_dataset).where(guard_dataset.c.dataset == dataset)).first()


def update_dataset(connection: Connection, dataset: str, **values: int) -> None:
    """Set counters of a dataset."""
    connection.execute(update(guard_dataset).where(guard_dataset.c.dataset == dataset).values(values))


def select_changed(connection: Connection) -> list[str]:
    """Return the datasets with sessions that ended since the last evaluation of their guards."""
    table = guard_dataset.c
    return list(connection.scalars(select(table.dataset).where(table.sessions > table.evaluated)))


def insert_session(connection: Connection, dataset: str, session_id: str, succeeded: bool, now: datetime) -> bool:
    """Insert the outcome of a session of a locked dataset; return whether it had none."""
    table = guard_session.c
    query = select(table.session_id).where(table.dataset == dataset, table.session_id == session_id)
    if connection.execute(query).first() is not None:
        return False
    row = {"dataset": dataset, "session_id": session_id, "succeeded": succeeded, "created_at": now}
    connection.execute(insert(guard_session).values(row))
    return True


def select_firings(connection: Connection, dataset: str, session_id: str) -> list[Row[Any]]:
    """Return the first firing of each guard in a session."""
    table = guard_firing.c
    query = (
        select(guard_firing)
        .where(table.dataset == dataset, table.session_id == session_id)
        .order_by(table.step, table.created_at)
    )
    first: dict[str, Row[Any]] = {}
    for row in connection.execute(query):
        first.setdefault(row.bullet_id, row)
    return list(first.values())


def select_calls(connection: Connection, dataset: str, session_id: str, after: int) -> list[tuple[int, SessionCall]]:
    """Return the calls that a session reported after the first `after` events, with their numbers."""
    table = guard_event.c
    query = (
        select(table.number, table.body)
        .where(table.dataset == dataset, table.session_id == session_id, table.number > after)
        .order_by(table.number)
    )
    events = [(row.number, decode_event(row.body)) for row in connection.execute(query)]
    return [(number, event) for number, event in events if isinstance(event, SessionCall)]


def select_trials(connection: Connection, dataset: str) -> dict[str, GuardTrial]:
    """Return the measurements of a dataset by bullet."""
    rows = connection.execute(select(guard_trial).where(guard_trial.c.dataset == dataset))
    return {row.bullet_id: _to_trial(row) for row in rows}


def put_trial(connection: Connection, dataset: str, trial: GuardTrial) -> None:
    """Insert or replace the measurements of a guard."""
    table = guard_trial.c
    connection.execute(delete(guard_trial).where(table.dataset == dataset, table.bullet_id == trial.bullet_id))
    row = {
        "dataset": dataset,
        "bullet_id": trial.bullet_id,
        "target": trial.target,
        "mode": int(trial.mode),
        "position": trial.position,
        "since": trial.since,
        "passed_before": trial.passed_before,
        "alarms": trial.alarms,
        "hits": trial.hits,
        "effect": json.dumps(list(trial.effect)),
        "is_proven": trial.is_proven,
        "earned": int(trial.earned),
        "cap": int(trial.cap),
    }
    connection.execute(insert(guard_trial).values(row))


def insert_decision(connection: Connection, dataset: str, number: int, decision: ModeDecision) -> None:
    """Insert a decision, which is not in the playbook yet."""
    row = {
        "dataset": dataset,
        "number": number,
        "bullet_id": decision.bullet_id,
        "target": decision.target,
        "before": int(decision.before),
        "after": int(decision.after),
        "reason": decision.reason,
        "author": decision.author,
        "created_at": decision.time,
        "undone": False,
        "revision": 0,
    }
    connection.execute(insert(guard_decision).values(row))


def select_decisions(connection: Connection, dataset: str, before: int | None, limit: int) -> list[NumberedDecision]:
    """Return at most `limit` decisions, the newest first, from before a number."""
    table = guard_decision.c
    query = select(guard_decision).where(table.dataset == dataset).order_by(table.number.desc()).limit(limit)
    if before is not None:
        query = query.where(table.number < before)
    return [_to_decision(row) for row in connection.execute(query)]


def select_decision(connection: Connection, dataset: str, number: int) -> NumberedDecision | None:
    """Return a decision."""
    table = guard_decision.c
    row = connection.execute(select(guard_decision).where(table.dataset == dataset, table.number == number)).first()
    return None if row is None else _to_decision(row)


def select_newest_number(connection: Connection, dataset: str, bullet_id: str) -> int:
    """Return the number of the newest decision about a guard, 0 without one."""
    table = guard_decision.c
    query = select(func.max(table.number)).where(table.dataset == dataset, table.bullet_id == bullet_id)
    return int(connection.execute(query).scalar() or 0)


def select_unpublished(
    connection: Connection, limit: int, dataset: str, skipped: int
) -> list[tuple[str, NumberedDecision]]:
    """Return the decisions that are not in their playbooks yet, the oldest first; all datasets, or one."""
    table = guard_decision.c
    query = select(guard_decision).where(table.published_at.is_(None))
    if dataset:
        query = query.where(table.dataset == dataset)
    rows = connection.execute(query.order_by(table.created_at, table.number).limit(limit).offset(skipped))
    return [(row.dataset, _to_decision(row)) for row in rows]


def select_unpublished_bullets(connection: Connection, dataset: str) -> set[str]:
    """Return the bullets with a decision that is not in the playbook yet."""
    table = guard_decision.c
    query = select(table.bullet_id).where(table.dataset == dataset, table.published_at.is_(None))
    return set(connection.scalars(query))


def update_decision(connection: Connection, dataset: str, number: int, **values: Any) -> None:
    """Set columns of a decision."""
    table = guard_decision.c
    connection.execute(update(guard_decision).where(table.dataset == dataset, table.number == number).values(values))


def find_outcome(firing: Row[Any], calls: Sequence[tuple[int, SessionCall]], passed: bool) -> FiredSession:
    """Return what followed a firing: whether the same call was made afterwards, and whether it failed."""
    digest = bytes(firing.call_digest)
    made = [call for number, call in calls if number > firing.step and digest_text(call.request.key) == digest]
    return FiredSession(passed, firing.is_withheld, bool(made), any(call.failed for call in made))


def _to_trial(row: Row[Any]) -> GuardTrial:
    return GuardTrial(
        row.bullet_id,
        row.target,
        GuardMode(row.mode),
        row.position,
        row.since,
        row.passed_before,
        row.alarms,
        row.hits,
        EffectStatistics(*json.loads(row.effect)),
        row.is_proven,
        GuardMode(row.earned),
        GuardMode(row.cap),
    )


def _to_decision(row: Row[Any]) -> NumberedDecision:
    decision = ModeDecision(
        row.bullet_id,
        row.target,
        GuardMode(row.before),
        GuardMode(row.after),
        row.reason,
        row.created_at,
        row.author,
        row.revision,
        row.undone,
    )
    return NumberedDecision(row.number, decision)
