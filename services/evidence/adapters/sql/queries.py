"""SQL statements on trials, servings and decisions, and the conversion of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from libs.storage.engines import insert_for
from services.evidence.adapters.sql.schema import bullet_trial, dataset_trials, decision, serving
from services.evidence.domain.discoveries import Block
from services.evidence.domain.drift import DriftStatistics
from services.evidence.domain.effects import EffectStatistics
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.trials import (
    ArmCounts,
    BulletDecision,
    BulletState,
    BulletTrial,
    DatasetTrials,
    Exposure,
    pack_exposures,
    unpack_exposures,
)

_UPDATE_TRIAL = update(bullet_trial).where(bullet_trial.c.id == bindparam("key"))


def select_trials(connection: Connection, dataset: str, *, lock: bool = False) -> DatasetTrials | None:
    """Return the trials of a dataset; with `lock` nobody else changes anything of the dataset in the meantime."""
    query = select(dataset_trials).where(dataset_trials.c.dataset == dataset)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        return None
    return DatasetTrials(
        dataset,
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
    )


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
    }
    row = insert_for(connection.dialect.name)(dataset_trials).values(dataset=trials.dataset, **values)
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
    query = select(bullet_trial).where(bullet_trial.c.dataset == dataset, bullet_trial.c.bullet_id.in_(bullet_ids))
    return [_to_trial(row) for row in connection.execute(query)]


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
    row = insert(bullet_trial).values(**values, **_trial_values(trial)).returning(bullet_trial.c.id)
    return int(connection.execute(row).scalar_one())


def update_bullet_trials(connection: Connection, trials: Iterable[BulletTrial]) -> None:
    """Write the measurements of trials."""
    rows = [{"key": trial.id, **_trial_values(trial)} for trial in trials]
    if rows:
        connection.execute(_UPDATE_TRIAL.values({name: bindparam(name) for name in rows[0] if name != "key"}), rows)


def delete_bullet_trials(connection: Connection, dataset: str) -> None:
    """Delete the measurements of all bullets of a dataset."""
    connection.execute(delete(bullet_trial).where(bullet_trial.c.dataset == dataset))


def select_serving(connection: Connection, dataset: str, serving_id: str) -> Row[Any] | None:
    """Return the row of a serving."""
    query = select(serving).where(serving.c.dataset == dataset, serving.c.serving_id == serving_id)
    return connection.execute(query).one_or_none()


def upsert_serving(
    connection: Connection,
    trials: DatasetTrials,
    serving_id: str,
    has_playbook: bool,
    exposures: Iterable[Exposure],
    now: datetime,
) -> None:
    """Write a serving with all its exposures."""
    content = pack_exposures(exposures)
    row = insert_for(connection.dialect.name)(serving).values(
        dataset=trials.dataset,
        serving_id=serving_id,
        generation=trials.generation,
        has_playbook=has_playbook,
        exposures=content,
        created_at=now,
    )
    connection.execute(row.on_conflict_do_update(index_elements=["dataset", "serving_id"], set_={"exposures": content}))


def set_outcome(
    connection: Connection, dataset: str, serving_id: str, outcome: float, number: int, now: datetime
) -> None:
    """Write the outcome of a serving, the `number`-th report of its dataset."""
    query = update(serving).where(serving.c.dataset == dataset, serving.c.serving_id == serving_id)
    connection.execute(query.values(outcome=outcome, report_number=number, reported_at=now))


def select_reports(
    connection: Connection, dataset: str, generation: int
) -> Iterator[tuple[bool, list[Exposure], float, datetime]]:
    """Yield playbook, exposures, outcome and time of the reported servings, in the order of the reports."""
    query = select(serving.c.has_playbook, serving.c.exposures, serving.c.outcome, serving.c.reported_at).where(
        serving.c.dataset == dataset, serving.c.generation == generation, serving.c.outcome.is_not(None)
    )
    for row in connection.execute(query.order_by(serving.c.report_number)):
        yield row.has_playbook, unpack_exposures(row.exposures), row.outcome, row.reported_at


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
        )
    )


def select_decisions(
    connection: Connection, dataset: str, before: int | None, limit: int
) -> list[tuple[int, BulletDecision]]:
    """Return at most `limit` decisions with their numbers, the newest first."""
    query = select(decision).where(decision.c.dataset == dataset)
    if before is not None:
        query = query.where(decision.c.number < before)
    rows = connection.execute(query.order_by(decision.c.number.desc()).limit(limit))
    return [
        (
            row.number,
            BulletDecision(
                row.bullet_id,
                row.text_version,
                BulletState(row.before),
                BulletState(row.after),
                _parse_statistics(row.statistics),
                row.time,
            ),
        )
        for row in rows
    ]


def _trial_values(trial: BulletTrial) -> dict[str, Any]:
    return {
        "position": trial.position,
        "state": trial.state.value,
        "since": trial.since,
        "statistics": _dump(trial.statistics),
        "drift": _dump(trial.drift),
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
    )


def _dump(statistics: EffectStatistics | DriftStatistics) -> str:
    return json.dumps([float(value) for value in statistics])


def _parse_statistics(text: str) -> EffectStatistics:
    return EffectStatistics(*json.loads(text))
