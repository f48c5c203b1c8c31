"""SQL statements on trials, servings and decisions, and the conversion of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, insert, select, update

from libs.storage.engines import get_insert
from services.evidence.adapters.sql.schema import bullet_trial, dataset_trials, decision, effect_point, serving
from services.evidence.domain.discoveries import Block
from services.evidence.domain.drift import DriftStatistics
from services.evidence.domain.effects import EffectStatistics
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.recount import StoredReport
from services.evidence.domain.trials import (
    ArmCounts,
    BulletDecision,
    BulletState,
    BulletTrial,
    DatasetTrials,
    EffectPoint,
    EnrolledBullet,
    Exposure,
    pack_exposures,
    unpack_exposures,
)

# The statements of every serving and report are built once: building one takes longer than SQLite takes to run it.
_SELECT_TRIALS = select(dataset_trials).where(dataset_trials.c.dataset == bindparam("of_dataset"))
_LOCK_TRIALS = _SELECT_TRIALS.with_for_update()
_SELECT_BY_BULLET_ID = select(bullet_trial).where(
    bullet_trial.c.dataset == bindparam("of_dataset"), bullet_trial.c.bullet_id.in_(bindparam("ids", expanding=True))
)
_SELECT_ENROLLED = _SELECT_BY_BULLET_ID.with_only_columns(
    bullet_trial.c.id, bullet_trial.c.bullet_id, bullet_trial.c.text_version, bullet_trial.c.state
)
_SELECT_SERVING = select(serving).where(
    serving.c.dataset == bindparam("of_dataset"), serving.c.serving_id == bindparam("id")
)
_INSERT_SERVING = insert(serving)
_UPDATE_SERVING = update(serving).where(
    serving.c.dataset == bindparam("of_dataset"), serving.c.serving_id == bindparam("id")
)
_SET_COUNTS = update(dataset_trials).where(dataset_trials.c.dataset == bindparam("of_dataset"))
_UPDATE_TRIAL = update(bullet_trial).where(bullet_trial.c.id == bindparam("key"))


def select_trials(connection: Connection, dataset: str, *, lock: bool = False) -> DatasetTrials | None:
    """Return the trials of a dataset; with `lock` nobody else changes anything of the dataset in the meantime."""
    row = connection.execute(_LOCK_TRIALS if lock else _SELECT_TRIALS, {"of_dataset": dataset}).one_or_none()
    return None if row is None else _to_trials(row)


def upsert_trials(connection: Connection, trials: DatasetTrials) -> None:
    """Write the trials of a dataset."""
    values = {
        "assignment_key": trials.key,
        "policy": json.dumps(asdict(trials.policy)),
        "is_running": trials.is_running,
        "generation": trials.generation,
        "began_at": trials.began_at,
        "lift": _dump(trials.lift),
        "servings_served": trials.servings.served,
        "servings_withheld": trials.servings.withheld,
        "reports_served": trials.reports.served,
        "reports_withheld": trials.reports.withheld,
        "enrolled": trials.enrolled,
        "decisions": trials.decisions,
        "corrections": trials.corrections,
    }
    row = get_insert(connection.dialect.name)(dataset_trials).values(dataset=trials.dataset, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["dataset"], set_=values))


def select_bullet_trials(connection: Connection, dataset: str) -> list[BulletTrial]:
    """Return all bullets of a dataset that are, or were, on trial, in the order of their first serving."""
    query = select(bullet_trial).where(bullet_trial.c.dataset == dataset).order_by(bullet_trial.c.id)
    return [_to_trial(row) for row in connection.execute(query)]


def select_bullet_trials_by_id(connection: Connection, ids: Iterable[int]) -> list[BulletTrial]:
    """Return the bullet trials with these ids."""
    query = select(bullet_trial).where(bullet_trial.c.id.in_(list(ids)))
    return [_to_trial(row) for row in connection.execute(query)]


def select_trials_by_bullet_id(connection: Connection, dataset: str, bullet_ids: Sequence[str]) -> list[BulletTrial]:
    """Return the trials of these bullets, of all their texts."""
    rows = connection.execute(_SELECT_BY_BULLET_ID, {"of_dataset": dataset, "ids": bullet_ids})
    return [_to_trial(row) for row in rows]


def select_enrolled_bullets(connection: Connection, dataset: str, bullet_ids: Sequence[str]) -> list[EnrolledBullet]:
    """Return these bullets that are on trial, with all their texts: a serving needs no measurements."""
    rows = connection.execute(_SELECT_ENROLLED, {"of_dataset": dataset, "ids": bullet_ids})
    return [EnrolledBullet(*row[:3], BulletState(row.state)) for row in rows]


def select_block(connection: Connection, dataset: str, block: Block) -> list[BulletTrial]:
    """Return the bullets that are tested together."""
    positions = block.positions
    query = select(bullet_trial).where(
        bullet_trial.c.dataset == dataset, bullet_trial.c.position.between(positions.start, positions.stop - 1)
    )
    return [_to_trial(row) for row in connection.execute(query)]


def insert_bullet_trial(connection: Connection, dataset: str, trial: BulletTrial) -> int:
    """Insert a trial; return its id."""
    values = {"dataset": dataset, "bullet_id": trial.bullet_id, "text_version": trial.text_version}
    row = insert(bullet_trial).values(**values, **_build_trial_row(trial)).returning(bullet_trial.c.id)
    return int(connection.execute(row).scalar_one())


def update_bullet_trials(connection: Connection, trials: Iterable[BulletTrial]) -> None:
    """Write the measurements of trials."""
    rows = [{"key": trial.id, **_build_trial_row(trial)} for trial in trials]
    if rows:
        connection.execute(_UPDATE_TRIAL.values({name: bindparam(name) for name in rows[0] if name != "key"}), rows)


def delete_measurements(connection: Connection, dataset: str) -> None:
    """Delete the measurements of all bullets of a dataset, and the history of its effects."""
    connection.execute(delete(bullet_trial).where(bullet_trial.c.dataset == dataset))
    delete_points(connection, dataset)


def add_points(connection: Connection, dataset: str, points: Sequence[EffectPoint]) -> None:
    """Add points to the history. A point without sessions deletes the history of its trial; an existing point stays."""
    for point in points:
        if not point.sessions:
            delete_points(connection, dataset, point.trial_id)
    rows = [_build_point_row(dataset, point) for point in points if point.sessions]
    if rows:
        connection.execute(get_insert(connection.dialect.name)(effect_point).on_conflict_do_nothing(), rows)


def replace_points(connection: Connection, dataset: str, points: Iterable[EffectPoint]) -> None:
    """Make these points the whole history of a dataset; only the rows that differ are written."""
    columns = effect_point.c
    rows = connection.execute(select(effect_point).where(columns.dataset == dataset)).mappings()
    present = {(row["trial_id"], row["sessions"]): dict(row) for row in rows}
    wanted = {(point.trial_id, point.sessions): _build_point_row(dataset, point) for point in points}
    outdated = [key for key, row in present.items() if wanted.get(key) != row]
    missing = [row for key, row in wanted.items() if present.get(key) != row]
    if outdated:
        is_outdated = (columns.trial_id == bindparam("of_trial"), columns.sessions == bindparam("of_sessions"))
        keys = [{"of_trial": trial_id, "of_sessions": sessions} for trial_id, sessions in outdated]
        connection.execute(delete(effect_point).where(columns.dataset == dataset, *is_outdated), keys)
    if missing:
        connection.execute(insert(effect_point), missing)


def select_points(connection: Connection, dataset: str, trial_id: int) -> list[EffectPoint]:
    """Return the history of a trial, or of the whole playbook, oldest first."""
    query = select(effect_point).where(effect_point.c.dataset == dataset, effect_point.c.trial_id == trial_id)
    rows = connection.execute(query.order_by(effect_point.c.sessions))
    return [EffectPoint(row.trial_id, _parse_statistics(row.statistics), row.time) for row in rows]


def delete_points(connection: Connection, dataset: str, trial_id: int | None = None) -> None:
    """Delete the history of all effects of a dataset, or of one trial."""
    query = delete(effect_point).where(effect_point.c.dataset == dataset)
    connection.execute(query if trial_id is None else query.where(effect_point.c.trial_id == trial_id))


def delete_trials(connection: Connection, dataset: str) -> None:
    """Delete the trials of a dataset with their history, servings and decisions."""
    for table in (bullet_trial, effect_point, serving, decision, dataset_trials):
        connection.execute(delete(table).where(table.c.dataset == dataset))


def select_serving(connection: Connection, dataset: str, serving_id: str) -> Row[Any] | None:
    """Return the row of a serving."""
    return connection.execute(_SELECT_SERVING, {"of_dataset": dataset, "id": serving_id}).one_or_none()


def insert_serving(
    connection: Connection,
    trials: DatasetTrials,
    serving_id: str,
    has_playbook: bool,
    exposures: Iterable[Exposure],
    now: datetime,
) -> None:
    """Insert a serving with its exposures."""
    row = {
        "dataset": trials.dataset,
        "serving_id": serving_id,
        "generation": trials.generation,
        "has_playbook": has_playbook,
        "exposures": pack_exposures(exposures),
        "created_at": now,
    }
    connection.execute(_INSERT_SERVING, row)


def set_exposures(connection: Connection, dataset: str, serving_id: str, exposures: Iterable[Exposure]) -> None:
    """Write all exposures of a serving."""
    update_serving(connection, dataset, serving_id, exposures=pack_exposures(exposures))


def update_serving(connection: Connection, dataset: str, serving_id: str, **values: Any) -> None:
    """Set columns of a serving."""
    connection.execute(_UPDATE_SERVING, {"of_dataset": dataset, "id": serving_id, **values})


def set_serving_counts(connection: Connection, trials: DatasetTrials) -> None:
    """Write how many sessions were served and how many bullets are on trial."""
    changed = {
        "of_dataset": trials.dataset,
        "servings_served": trials.servings.served,
        "servings_withheld": trials.servings.withheld,
        "enrolled": trials.enrolled,
    }
    connection.execute(_SET_COUNTS, changed)


def select_reports(connection: Connection, trials: DatasetTrials, after: int, limit: int) -> list[StoredReport]:
    """Return at most `limit` reports of the present generation after a number, in their order."""
    columns = serving.c
    query = select(serving).where(
        columns.dataset == trials.dataset, columns.generation == trials.generation, columns.report_number > after
    )
    return [
        StoredReport(
            row.report_number,
            row.serving_id,
            row.has_playbook,
            unpack_exposures(row.exposures),
            row.outcome,
            row.reported_at,
        )
        for row in connection.execute(query.order_by(columns.report_number).limit(limit))
    ]


def add_decisions(
    connection: Connection, trials: DatasetTrials, decisions: Sequence[BulletDecision]
) -> list[tuple[int, BulletDecision]]:
    """Write the trials with their last decisions, which they count; return these with their numbers."""
    numbered = list(enumerate(decisions, trials.decisions - len(decisions) + 1))
    for number, made in numbered:
        insert_decision(connection, trials.dataset, number, made)
    upsert_trials(connection, trials)
    return numbered


def insert_decision(connection: Connection, dataset: str, number: int, made: BulletDecision) -> None:
    """Insert a decision."""
    connection.execute(
        insert(decision).values(
            dataset=dataset,
            number=number,
            bullet_id=made.bullet_id,
            text_version=made.text_version,
            before=made.before.value,
            after=made.after.value,
            statistics=_dump(made.statistics),
            time=made.time,
            undone=False,
            revision=0,
        )
    )


def select_decisions(
    connection: Connection, dataset: str, before: int | None, limit: int
) -> list[tuple[int, BulletDecision]]:
    """Return at most `limit` decisions with their numbers, the newest first."""
    query = select(decision).where(decision.c.dataset == dataset)
    if before is not None:
        query = query.where(decision.c.number < before)
    return _read_decisions(connection, query.order_by(decision.c.number.desc()).limit(limit))


def select_later_decisions(
    connection: Connection, dataset: str, after: int, limit: int
) -> list[tuple[int, BulletDecision]]:
    """Return at most `limit` decisions after a number, the oldest first."""
    query = select(decision).where(decision.c.dataset == dataset, decision.c.number > after)
    return _read_decisions(connection, query.order_by(decision.c.number).limit(limit))


def select_unpublished_removals(
    connection: Connection, limit: int, skipped: int
) -> list[tuple[str, int, BulletDecision]]:
    """Return dataset, number and decision of harmful bullets that the playbook still has, the oldest first.

    A correction of an outcome, or a new holdout, may have ended the state since the decision.
    """
    trial = bullet_trial.c
    is_harmful = select(trial.id).where(
        trial.dataset == decision.c.dataset,
        trial.bullet_id == decision.c.bullet_id,
        trial.text_version == decision.c.text_version,
        trial.state == BulletState.HARMFUL.value,
    )
    query = select(decision).where(
        decision.c.after == BulletState.HARMFUL.value,
        decision.c.published_at.is_(None),
        decision.c.undone.is_(False),
        is_harmful.exists(),
    )
    rows = connection.execute(query.order_by(decision.c.time, decision.c.dataset).limit(limit).offset(skipped))
    return [(row.dataset, row.number, _to_decision(row)) for row in rows]


def update_decision(connection: Connection, dataset: str, number: int, **values: Any) -> None:
    """Set columns of a decision."""
    query = update(decision).where(decision.c.dataset == dataset, decision.c.number == number)
    connection.execute(query.values(values))


def select_decision(connection: Connection, dataset: str, number: int) -> BulletDecision | None:
    """Return a decision."""
    query = select(decision).where(decision.c.dataset == dataset, decision.c.number == number)
    row = connection.execute(query).one_or_none()
    return None if row is None else _to_decision(row)


def select_running_trials(connection: Connection) -> list[DatasetTrials]:
    """Return all trials that are running."""
    return [_to_trials(row) for row in connection.execute(select(dataset_trials).where(dataset_trials.c.is_running))]


def _read_decisions(connection: Connection, query: Select[Any]) -> list[tuple[int, BulletDecision]]:
    return [(row.number, _to_decision(row)) for row in connection.execute(query)]


def _to_decision(row: Row[Any]) -> BulletDecision:
    return BulletDecision(
        row.bullet_id,
        row.text_version,
        BulletState(row.before),
        BulletState(row.after),
        _parse_statistics(row.statistics),
        row.time,
        row.revision,
        row.undone,
        row.published_at is not None,
    )


def _to_trials(row: Row[Any]) -> DatasetTrials:
    return DatasetTrials(
        row.dataset,
        bytes(row.assignment_key),
        TrialPolicy(**json.loads(row.policy)),
        row.is_running,
        row.generation,
        row.began_at,
        _parse_statistics(row.lift),
        ArmCounts(row.servings_served, row.servings_withheld),
        ArmCounts(row.reports_served, row.reports_withheld),
        row.enrolled,
        row.decisions,
        row.corrections,
    )


def _build_trial_row(trial: BulletTrial) -> dict[str, Any]:
    return {
        "position": trial.position,
        "state": trial.state.value,
        "since": trial.since,
        "statistics": _dump(trial.statistics),
        "drift": _dump(trial.drift),
        "measured_after": trial.measured_after,
    }


def _to_trial(row: Row[Any]) -> BulletTrial:
    return BulletTrial(
        row.id,
        row.bullet_id,
        row.text_version,
        row.position,
        BulletState(row.state),
        row.since,
        _parse_statistics(row.statistics),
        DriftStatistics(*json.loads(row.drift)),
        row.measured_after,
    )


def _build_point_row(dataset: str, point: EffectPoint) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "trial_id": point.trial_id,
        "sessions": point.sessions,
        "statistics": _dump(point.statistics),
        "time": point.time,
    }


def _dump(statistics: EffectStatistics | DriftStatistics) -> str:
    return json.dumps([float(value) for value in statistics])


def _parse_statistics(text: str) -> EffectStatistics:
    return EffectStatistics(*json.loads(text))
