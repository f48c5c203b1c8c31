"""The sums of archived trajectories by day and agent, which each change of the archive updates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, select

from libs.storage.database import Database
from libs.storage.engines import get_insert
from services.evidence.adapters.sql.archive_schema import archive_dataset, archive_day, archive_mark
from services.evidence.domain.archive import MarkKind, TrajectorySummary
from services.evidence.domain.overview import ALL_AGENTS, DayKey, TrajectoryCounts, count_trajectory, list_groups

_COUNTS = tuple(TrajectoryCounts.__dataclass_fields__)
# Statements that run for every trajectory are built once; each execution only binds values.
_KNOWN_ERROR = (
    select(archive_mark.c.number)
    .where(
        archive_mark.c.dataset_id == bindparam("of_dataset"),
        archive_mark.c.kind == int(MarkKind.ERROR),
        archive_mark.c.value.in_(bindparam("signatures", expanding=True)),
    )
    .limit(1)
)


def has_known_error(connection: Connection, dataset_id: int, summary: TrajectorySummary) -> bool:
    """Return whether a stored trajectory has one of the errors of the summary."""
    signatures = [value for kind, value in summary.list_marks() if kind is MarkKind.ERROR]
    if not signatures:
        return False
    named = {"of_dataset": dataset_id, "signatures": signatures}
    return connection.execute(_KNOWN_ERROR, named).first() is not None


def add_trajectory(
    connection: Connection,
    dataset_id: int,
    created_at: datetime,
    summary: TrajectorySummary,
    *,
    repeats_error: bool,
    sign: int = 1,
) -> None:
    """Add a trajectory to the sums, or with `sign=-1` subtract it."""
    counted = count_trajectory(summary, repeats_error=repeats_error)
    counts = {name: sign * getattr(counted, name) for name in _COUNTS}
    rows = [
        {"dataset_id": dataset_id, "day": key.day, "has_bullets": key.has_bullets, "agent": key.agent, **counts}
        for key in list_groups(created_at, summary)
    ]
    connection.execute(_build_addition(connection.dialect.name), rows)


@cache
def _build_addition(dialect: str) -> Any:
    """Return the statement that inserts the counts of a group, or adds them to those it has."""
    statement = get_insert(dialect)(archive_day)
    added = {name: archive_day.c[name] + statement.excluded[name] for name in _COUNTS}
    return statement.on_conflict_do_update(index_elements=["dataset_id", "day", "has_bullets", "agent"], set_=added)


def subtract_rows(connection: Connection, dataset_id: int, rows: Sequence[tuple[Row[Any], TrajectorySummary]]) -> None:
    """Subtract deleted trajectories, and drop the groups that are empty then."""
    for row, summary in rows:
        add_trajectory(connection, dataset_id, row.created_at, summary, repeats_error=bool(row.repeats_error), sign=-1)
    if rows:
        day = archive_day.c
        connection.execute(delete(archive_day).where(day.dataset_id == dataset_id, day.trajectories <= 0))


class OverviewRepository:
    """Implements `OverviewStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_groups(self, dataset: str, days: int) -> list[tuple[DayKey, TrajectoryCounts]]:
        """Return the sums of the newest days with trajectories."""
        day = archive_day.c

        def work(connection: Connection) -> list[tuple[DayKey, TrajectoryCounts]]:
            dataset_id = connection.scalar(select(archive_dataset.c.id).where(archive_dataset.c.dataset == dataset))
            if dataset_id is None:
                return []
            newest = select(day.day).where(day.dataset_id == dataset_id, day.agent == ALL_AGENTS).distinct()
            oldest = connection.scalars(newest.order_by(day.day.desc()).limit(days)).all()
            if not oldest:
                return []
            rows = connection.execute(select(archive_day).where(day.dataset_id == dataset_id, day.day >= oldest[-1]))
            return [
                (
                    DayKey(row.day, bool(row.has_bullets), row.agent),
                    TrajectoryCounts(*(getattr(row, name) for name in _COUNTS)),
                )
                for row in rows
            ]

        return await self._database.read(work)
