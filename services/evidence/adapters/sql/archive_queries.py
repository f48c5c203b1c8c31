"""SQL statements on archived trajectories, and the conversion of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, or_, select, update
from sqlalchemy.sql import ColumnElement

from libs.storage.engines import get_insert
from services.evidence.adapters.sql import archive_days as days
from services.evidence.adapters.sql.archive_schema import (
    archive_dataset,
    archive_mark,
    archive_object,
    archive_pack,
    archive_trajectory,
)
from services.evidence.domain.archive import (
    ArchivedTrajectory,
    MarkKind,
    StoredUsage,
    ToolErrorSignature,
    TrajectoryKey,
    TrajectorySummary,
)
from services.evidence.usecases.archive_ports import NewTrajectory, TrajectoryFilter

_WITHOUT_BODY = [column for column in archive_trajectory.c if column.name != "body"]
_MANY = 500
"""Rows that one statement names."""
# Statements that run for every trajectory are built once; each execution only binds values.
_DATASET = select(archive_dataset).where(archive_dataset.c.dataset == bindparam("of_dataset"))
_LOCKED_DATASET = _DATASET.with_for_update()
_TOTAL_BYTES = select(func.coalesce(func.sum(archive_dataset.c.bytes), 0))
_ADD_TO_TOTALS = (
    update(archive_dataset)
    .where(archive_dataset.c.id == bindparam("of_id"))
    .values(
        trajectories=archive_dataset.c.trajectories + bindparam("added_trajectories"),
        bytes=archive_dataset.c.bytes + bindparam("added_bytes"),
    )
)
_BY_CONTENT = select(*_WITHOUT_BODY).where(
    archive_trajectory.c.dataset_id == bindparam("of_dataset"),
    archive_trajectory.c.trajectory_id == bindparam("of_trajectory"),
    archive_trajectory.c.content_hash == bindparam("of_content"),
)


def select_dataset(connection: Connection, dataset: str, *, lock: bool = False) -> Row[Any] | None:
    """Return the row of an archive; with `lock` nobody else changes the archive in the meantime."""
    return connection.execute(_LOCKED_DATASET if lock else _DATASET, {"of_dataset": dataset}).one_or_none()


def lock_dataset(connection: Connection, dataset: str) -> Row[Any]:
    """Return the locked row of an archive, which is created if it is not there."""
    locked = select_dataset(connection, dataset, lock=True)
    if locked is not None:
        return locked
    values = {"dataset": dataset, "max_age_days": 0, "max_bytes": 0, "trajectories": 0, "bytes": 0}
    row = get_insert(connection.dialect.name)(archive_dataset).values(values)
    connection.execute(row.on_conflict_do_nothing(index_elements=["dataset"]))
    locked = select_dataset(connection, dataset, lock=True)
    assert locked is not None
    return locked


def update_dataset(connection: Connection, dataset_id: int, **values: Any) -> None:
    """Change the row of an archive."""
    connection.execute(update(archive_dataset).where(archive_dataset.c.id == dataset_id).values(values))


def add_to_totals(connection: Connection, dataset_id: int, trajectories: int, size: int) -> None:
    """Add to the size of an archive."""
    added = {"added_trajectories": trajectories, "added_bytes": size}
    connection.execute(_ADD_TO_TOTALS, {"of_id": dataset_id, **added})


def sum_bytes(connection: Connection) -> int:
    """Return the bytes of all bodies."""
    return int(connection.execute(_TOTAL_BYTES).scalar_one())


def select_by_content(connection: Connection, dataset_id: int, key: TrajectoryKey) -> Row[Any] | None:
    """Return a trajectory or its tombstone by id and content, without its body."""
    content = bytes.fromhex(key.content_hash)
    named = {"of_dataset": dataset_id, "of_trajectory": key.trajectory_id, "of_content": content}
    return connection.execute(_BY_CONTENT, named).one_or_none()


def select_by_id(
    connection: Connection, dataset_id: int, trajectory_id: str, content_hash: str = "", *, body: bool = False
) -> list[Row[Any]]:
    """Return the trajectories and tombstones with an id: the readable ones first, the last stored first."""
    columns = archive_trajectory.c
    query = select(*(archive_trajectory.c if body else _WITHOUT_BODY))
    query = query.where(columns.dataset_id == dataset_id, columns.trajectory_id == trajectory_id)
    if content_hash:
        query = query.where(columns.content_hash == bytes.fromhex(content_hash))
    query = query.order_by(columns.deleted_at.is_not(None), columns.number.desc())
    return list(connection.execute(query.limit(1) if body else query))


def insert_trajectory(connection: Connection, dataset_id: int, new: NewTrajectory, now: datetime) -> bool:
    """Insert a trajectory with its marks, and add it to the sums of its day; return False if it is there already."""
    repeats_error = days.has_known_error(connection, dataset_id, new.summary)
    row = {
        "dataset_id": dataset_id,
        "trajectory_id": new.key.trajectory_id,
        "content_hash": bytes.fromhex(new.key.content_hash),
        "status": new.summary.status,
        "created_at": new.created_at,
        "learned_at": new.learned_at,
        "stored_at": now,
        "bytes": new.size,
        "summary": dump_summary(new.summary),
        "repeats_error": repeats_error,
        "object_key": new.object_key,
        "body": new.body,
    }
    number = connection.execute(_build_insert(connection.dialect.name), row).scalar_one_or_none()
    if number is None:
        return False
    days.add_trajectory(connection, dataset_id, new.created_at, new.summary, repeats_error=repeats_error)
    insert_marks(connection, dataset_id, number, new.summary.list_marks())
    return True


@cache
def _build_insert(dialect: str) -> Any:
    return get_insert(dialect)(archive_trajectory).on_conflict_do_nothing().returning(archive_trajectory.c.number)


def insert_marks(connection: Connection, dataset_id: int, number: int, marks: Iterable[tuple[MarkKind, str]]) -> None:
    """Insert marks of a trajectory; those that are there stay."""
    rows = [{"dataset_id": dataset_id, "kind": int(kind), "value": value, "number": number} for kind, value in marks]
    if rows:
        connection.execute(_build_insert_of_marks(connection.dialect.name), rows)


@cache
def _build_insert_of_marks(dialect: str) -> Any:
    return get_insert(dialect)(archive_mark).on_conflict_do_nothing()


def set_summary(
    connection: Connection, dataset_id: int, row: Row[Any], summary: TrajectorySummary, learned_at: datetime
) -> None:
    """Replace summary and time of a trajectory, add its new marks, and correct the sums of its day."""
    columns = archive_trajectory.c
    query = update(archive_trajectory).where(columns.dataset_id == dataset_id, columns.number == row.number)
    connection.execute(query.values(summary=dump_summary(summary), learned_at=learned_at))
    insert_marks(connection, dataset_id, row.number, summary.list_marks())
    for counted, sign in ((load_summary(row.summary), -1), (summary, 1)):
        days.add_trajectory(
            connection, dataset_id, row.created_at, counted, repeats_error=bool(row.repeats_error), sign=sign
        )


def select_page(
    connection: Connection, dataset_id: int, filters: TrajectoryFilter, before: int | None, limit: int
) -> list[Row[Any]]:
    """Return at most `limit` trajectories without bodies, the last stored first."""
    columns, conditions = archive_trajectory.c, [archive_trajectory.c.dataset_id == dataset_id]
    conditions.append(columns.deleted_at.is_not(None) if filters.deleted else columns.deleted_at.is_(None))
    if before is not None:
        conditions.append(columns.number < before)
    if filters.status:
        conditions.append(columns.status == filters.status)
    if filters.created_from is not None:
        conditions.append(columns.created_at >= filters.created_from)
    if filters.created_before is not None:
        conditions.append(columns.created_at < filters.created_before)
    for kind, value in filters.marks:
        conditions.append(_has_mark(dataset_id, kind, archive_mark.c.value == value))
    if filters.error_text:
        # The database lowers both: its rules may differ from Python's.
        pattern = func.lower(f"%{_escape_pattern(filters.error_text)}%")
        contains = func.lower(archive_mark.c.value).like(pattern, escape="/")
        conditions.append(_has_mark(dataset_id, MarkKind.ERROR, contains))
    query = select(*_WITHOUT_BODY).where(*conditions).order_by(columns.number.desc()).limit(limit)
    return list(connection.execute(query))


def _escape_pattern(text: str) -> str:
    return text.replace("/", "//").replace("%", "/%").replace("_", "/_")


def _has_mark(dataset_id: int, kind: MarkKind, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    mark = archive_mark.c
    numbers = select(mark.number).where(mark.dataset_id == dataset_id, mark.kind == int(kind), condition)
    return archive_trajectory.c.number.in_(numbers)


def select_oldest(
    connection: Connection, dataset_id: int, limit: int, *, stored_before: datetime | None = None
) -> list[Row[Any]]:
    """Return the trajectories that can be read, without bodies: the first ones, or those stored before a time.

    A clock that was wrong may have given a trajectory a later time than the next ones.
    """
    columns = archive_trajectory.c
    query = select(*_WITHOUT_BODY).where(columns.dataset_id == dataset_id, columns.deleted_at.is_(None))
    if stored_before is None:
        query = query.order_by(columns.number)
    else:
        query = query.where(columns.stored_at < stored_before).order_by(columns.stored_at)
    return list(connection.execute(query.limit(limit)))


def select_newest_number(connection: Connection, dataset_id: int) -> int:
    """Return the number of the last stored trajectory or tombstone, 0 for none."""
    columns = archive_trajectory.c
    query = select(func.coalesce(func.max(columns.number), 0)).where(columns.dataset_id == dataset_id)
    return int(connection.execute(query).scalar_one())


def select_until(
    connection: Connection, dataset_id: int, learned_until: datetime, limit: int, newest: int = 0
) -> list[Row[Any]]:
    """Return trajectories and tombstones that were learned until a time, or have no number after `newest`.

    They have no bodies.
    """
    columns = archive_trajectory.c
    is_old = or_(columns.learned_at <= learned_until, columns.number <= newest)
    query = select(*_WITHOUT_BODY).where(columns.dataset_id == dataset_id, is_old)
    return list(connection.execute(query.order_by(columns.number).limit(limit)))


def delete_rows(connection: Connection, dataset_id: int, rows: Sequence[Row[Any]], now: datetime) -> None:
    """Delete trajectories, their marks and, later, their objects."""
    _detach(connection, dataset_id, rows, now)
    columns = archive_trajectory.c
    for start in range(0, len(rows), _MANY):
        numbers = [row.number for row in rows[start : start + _MANY]]
        is_listed = (columns.dataset_id == dataset_id, columns.number.in_(numbers))
        connection.execute(delete(archive_trajectory).where(*is_listed))


def replace_by_tombstones(connection: Connection, dataset_id: int, rows: Sequence[Row[Any]], now: datetime) -> None:
    """Turn trajectories into tombstones."""
    _detach(connection, dataset_id, rows, now)
    names = ("summary", "object_key", "body", "pack_number", "pack_start", "pack_length")
    empty = {**dict.fromkeys(names), "bytes": 0}
    columns = archive_trajectory.c
    for row in rows:
        query = update(archive_trajectory).where(columns.dataset_id == dataset_id, columns.number == row.number)
        connection.execute(query.values(deleted_at=now, **empty))


def _detach(connection: Connection, dataset_id: int, rows: Sequence[Row[Any]], now: datetime) -> None:
    """Delete marks, free the objects, mark the packs as stale, and subtract from the totals and the sums of days.

    Tombstones among the rows have none of it.
    """
    readable = [row for row in rows if row.deleted_at is None]
    summaries = [(row, load_summary(row.summary)) for row in readable]
    days.subtract_rows(connection, dataset_id, summaries)
    mark = archive_mark.c
    for row, summary in summaries:
        for kind, value in summary.list_marks():
            connection.execute(
                delete(archive_mark).where(
                    mark.dataset_id == dataset_id,
                    mark.kind == int(kind),
                    mark.value == value,
                    mark.number == row.number,
                )
            )
        if row.object_key is not None:
            upsert_object(connection, row.object_key, now)
    numbers = sorted({row.pack_number for row in readable if row.pack_number is not None})
    for start in range(0, len(numbers), _MANY):
        is_listed = archive_pack.c.number.in_(numbers[start : start + _MANY])
        query = update(archive_pack).where(archive_pack.c.dataset_id == dataset_id, is_listed)
        connection.execute(query.values(is_stale=True))
    if readable:
        add_to_totals(connection, dataset_id, -len(readable), -sum(row.bytes for row in readable))


def upsert_object(connection: Connection, object_key: str, unused_from: datetime) -> None:
    """Note when an object belongs to no trajectory any more."""
    row = get_insert(connection.dialect.name)(archive_object).values(object_key=object_key, unused_from=unused_from)
    connection.execute(row.on_conflict_do_update(index_elements=["object_key"], set_={"unused_from": unused_from}))


def delete_objects(connection: Connection, object_keys: Sequence[str]) -> None:
    """Delete the entries of objects."""
    connection.execute(delete(archive_object).where(archive_object.c.object_key.in_(object_keys)))


def select_unused_objects(connection: Connection, now: datetime, limit: int) -> list[str]:
    """Return the keys of objects that belong to no trajectory."""
    query = select(archive_object.c.object_key).where(archive_object.c.unused_from <= now).limit(limit)
    return list(connection.scalars(query))


def to_trajectory(dataset: str, row: Row[Any]) -> ArchivedTrajectory:
    """Return the trajectory of a row."""
    return ArchivedTrajectory(
        row.number,
        TrajectoryKey(dataset, row.trajectory_id, bytes(row.content_hash).hex()),
        None if row.summary is None else load_summary(row.summary),
        row.bytes,
        row.created_at,
        row.learned_at,
        row.stored_at,
        row.deleted_at,
    )


def dump_summary(summary: TrajectorySummary) -> str:
    """Return a summary as compact JSON, without empty fields."""
    fields = ((name, getattr(summary, name)) for name in TrajectorySummary.__dataclass_fields__)
    values = {name: value for name, value in fields if value not in (None, ())}
    if summary.usage is not None:
        values["usage"] = asdict(summary.usage)
    if summary.errors:
        values["errors"] = [(error.operation, error.message, error.step) for error in summary.errors]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def load_summary(text: str) -> TrajectorySummary:
    """Return the summary of a JSON text."""
    values = json.loads(text)
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    if "errors" in lists:
        lists["errors"] = tuple(ToolErrorSignature(*error) for error in lists["errors"])
    usage = StoredUsage(**values["usage"]) if "usage" in values else None
    return TrajectorySummary(**{**values, **lists, "usage": usage})
