"""Read the store; every function runs in one transaction and sees one state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
)

from libs.storage.idempotency import TENANT_SEPARATOR
from services.curator.adapters.sql import schema
from services.curator.domain.errors import DatasetNotFound, RevisionAhead
from services.curator.domain.evidence import Evidence
from services.curator.domain.log import (
    Origin,
    Revision,
    RevisionKind,
    SlotChange,
    Stamp,
    StoredBullet,
    fold,
    require_revision,
)
from services.curator.domain.policy import Policy
from services.curator.domain.review import PendingChange, PendingState, build_evidence_id
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.ports import Dataset, DatasetHead, LogPosition

AnyRow = Row[tuple[object, ...]]

COMPARED_NAMES = 1_000
"""Names that are compared with an unknown one."""

_REVISIONS_READ_AT_LEAST = 100
"""A cached snapshot that is behind by this many revisions more than there are bullets is read again, not advanced."""

# Queries of every curation: compiled once, so that only values are bound.
_DATASET = bindparam("of_dataset", type_=Text)
_HEAD = select(schema.dataset).where(schema.dataset.c.name == _DATASET, schema.dataset.c.revision > 0)
_PENDING_CHANGES = (
    select(func.count())
    .select_from(schema.pending)
    .where(schema.pending.c.dataset == schema.dataset.c.name, schema.pending.c.state == PendingState.WAITING.value)
    .correlate(schema.dataset)
    .scalar_subquery()
)
_DATASETS = select(schema.dataset, _PENDING_CHANGES.label("pending_changes"))
_earlier = schema.change.alias("earlier")
# Both changes name the dataset by the parameter, so that PostgreSQL reads one partition.
_BEFORE = (
    select(_earlier.c.after)
    .where(
        _earlier.c.dataset == _DATASET,
        _earlier.c.slot == schema.change.c.slot,
        _earlier.c.revision < schema.change.c.revision,
    )
    .order_by(_earlier.c.revision.desc())
    .limit(1)
    .correlate(schema.change)
    .scalar_subquery()
)
_CHANGES = (
    select(schema.change, _BEFORE.label("before"))
    .where(schema.change.c.dataset == _DATASET)
    .order_by(schema.change.c.revision, schema.change.c.slot)
)
_CHANGES_BETWEEN = _CHANGES.where(
    schema.change.c.revision > bindparam("low", type_=BigInteger),
    schema.change.c.revision <= bindparam("high", type_=BigInteger),
)
_EVIDENCE = select(schema.pending.c.body).where(
    schema.pending.c.dataset == _DATASET, schema.pending.c.state == PendingState.EVIDENCE.value
)
_EVIDENCE_OF_OPERATIONS = _EVIDENCE.where(schema.pending.c.id.in_(bindparam("ids", expanding=True)))


def select_head(connection: Connection, dataset: str) -> AnyRow | None:
    """Return the row of a dataset that has a revision."""
    return connection.execute(_HEAD, {"of_dataset": dataset}).first()


def select_heads(connection: Connection) -> dict[str, int]:
    """Return the newest revision of every dataset."""
    table = schema.dataset
    rows = connection.execute(select(table.c.name, table.c.revision).where(table.c.revision > 0))
    return {row.name: row.revision for row in rows}


def read_snapshot(connection: Connection, dataset: str, revision: int | None, cached: Snapshot | None) -> Snapshot:
    """Return the bullets as of `revision`; only changes since the `cached` snapshot are read."""
    head = select_head(connection, dataset)
    newest = head.revision if head else 0
    wanted = newest if revision is None else revision
    if wanted > newest:
        raise RevisionAhead(dataset, wanted, newest)
    if head is None or wanted == 0:
        return Snapshot(dataset)
    require_revision(dataset, wanted, head.deleted_revision, head.first_revision)
    if cached is not None and (
        cached.revision < head.deleted_revision or wanted - cached.revision > head.bullets + _REVISIONS_READ_AT_LEAST
    ):
        cached = None
    if cached is not None and cached.revision == wanted:
        return cached
    created_at = datetime.fromisoformat(head.created_at)
    if wanted == newest:
        committed_at: datetime | None = head.committed
        updated_at: datetime | None = datetime.fromisoformat(head.updated_at)
        stored = _advance_cached(connection, cached, wanted) if cached else _fold(connection, dataset)
    else:
        updated_at = committed_at = _read_committed_at(connection, dataset, wanted)
        stored = _select_past(connection, dataset, wanted)
    return Snapshot(
        dataset,
        wanted,
        stored,
        created_at=created_at,
        updated_at=updated_at,
        committed_at=committed_at,
        deleted_revision=head.deleted_revision,
        first_revision=head.first_revision,
    )


def find_position(connection: Connection, dataset: str, revision: int) -> LogPosition:
    """Return the ends of the log of a dataset, and when `revision` was committed."""
    head = select_head(connection, dataset)
    if head is None:
        return LogPosition()
    committed_at = _read_committed_at(connection, dataset, revision)
    return LogPosition(head.revision, head.deleted_revision, head.first_revision, committed_at)


def find_first_revisions(connection: Connection, committed_before: datetime) -> list[tuple[str, int]]:
    """Return the datasets whose log has revisions of before this time, and the first revision to keep of each.

    The newest revision is always kept.
    """
    table, heads = schema.revision, schema.dataset
    newest_old = (
        select(table.c.dataset, func.max(table.c.number).label("number"))
        .where(table.c.committed < committed_before)
        .group_by(table.c.dataset)
        .subquery()
    )
    query = select(heads.c.name, newest_old.c.number).join(newest_old, newest_old.c.dataset == heads.c.name)
    rows = connection.execute(query.where(newest_old.c.number > heads.c.first_revision)).all()
    return [(name, number) for name, number in rows]


def drop_revisions(connection: Connection, dataset: str, first_revision: int) -> int:
    """Drop the revisions before this one, but the changes that later snapshots need; return the number of revisions."""
    table, revision, heads = schema.change, schema.revision, schema.dataset
    later = table.alias("later")
    is_superseded = exists().where(
        later.c.dataset == dataset,
        later.c.slot == table.c.slot,
        later.c.revision > table.c.revision,
        later.c.revision < first_revision,
    )
    old = (table.c.dataset == dataset, table.c.revision < first_revision)
    values = {"first_revision": first_revision}
    connection.execute(heads.update().where(heads.c.name == dataset).values(**values))  # locks the dataset
    connection.execute(delete(table).where(*old, or_(table.c.after.is_(None), is_superseded)))
    query = delete(revision).where(revision.c.dataset == dataset, revision.c.number < first_revision)
    return connection.execute(query).rowcount


def _advance_cached(connection: Connection, cached: Snapshot, revision: int) -> Mapping[int, StoredBullet]:
    """Return the bullets of a cached snapshot by slot, with the changes since."""
    changes = select_changes_between(connection, cached.dataset, cached.revision, revision)
    return fold(changes, cached.slots)


def _fold(connection: Connection, dataset: str) -> Sequence[StoredBullet]:
    table = schema.bullet
    return _read_scalars(connection, select(table.c.body).where(table.c.dataset == dataset).order_by(table.c.slot))


def _select_past(connection: Connection, dataset: str, revision: int) -> Sequence[StoredBullet]:
    table = schema.change
    last = (
        select(table.c.slot, func.max(table.c.revision).label("revision"))
        .where(table.c.dataset == dataset, table.c.revision <= revision)
        .group_by(table.c.slot)
        .subquery()
    )
    query = (
        select(table.c.after)
        .join(last, and_(table.c.slot == last.c.slot, table.c.revision == last.c.revision))
        .where(table.c.dataset == dataset, table.c.after.is_not(None))
        .order_by(table.c.slot)
    )
    return _read_scalars(connection, query)


def _read_committed_at(connection: Connection, dataset: str, revision: int) -> datetime | None:
    """Return the time of the commit of a revision; None if the log does not have it."""
    table = schema.revision
    query = select(table.c.committed).where(table.c.dataset == dataset, table.c.number == revision)
    committed: datetime | None = connection.execute(query).scalar_one_or_none()
    return committed


def find_revision(connection: Connection, dataset: str, at: datetime) -> int:
    """Return the newest revision committed at or before `at`, 0 if none."""
    table = schema.revision
    query = select(func.max(table.c.number)).where(table.c.dataset == dataset, table.c.committed <= at)
    return connection.execute(query).scalar() or 0


def list_datasets(connection: Connection, after: str, limit: int, *, deleted: bool) -> list[Dataset]:
    """Return datasets with a revision or a pending change, or those that were deleted, whose name sorts after `after`.

    They are sorted by name.
    """
    table = schema.dataset
    has_content = or_(table.c.revision > table.c.deleted_revision, _PENDING_CHANGES > 0)
    query = _DATASETS.where(table.c.deleted_revision > 0 if deleted else has_content)
    # Order by code points, independently of the collation of the server.
    name = table.c.name.collate("C") if connection.dialect.name == "postgresql" else table.c.name
    rows = connection.execute(query.where(name > after).order_by(name).limit(limit))
    return [_read_dataset(row) for row in rows]


def require_datasets(connection: Connection, names: Sequence[str]) -> None:
    """Raise DatasetNotFound for the first of the datasets that does not exist."""
    table, pending = schema.dataset.c, schema.pending.c
    has_revision = table.revision > table.deleted_revision
    has_content = or_(has_revision, table.policy.is_not(None), exists().where(pending.dataset == table.name))
    found = set(connection.execute(select(table.name).where(table.name.in_(names), has_content)).scalars())
    for name in names:
        if name not in found:
            raise DatasetNotFound(name, _select_similar_names(connection, name))


def _select_similar_names(connection: Connection, name: str) -> list[str]:
    """Return up to three similar names of datasets of the same tenant, that is, with the same prefix."""
    head, separator, rest = name.partition(TENANT_SEPARATOR)
    prefix = head + separator if separator else ""
    names = select(schema.dataset.c.name).where(
        schema.dataset.c.revision > schema.dataset.c.deleted_revision,
        schema.dataset.c.name.startswith(prefix, autoescape=True),
    )
    if not prefix:
        names = names.where(~schema.dataset.c.name.contains(TENANT_SEPARATOR))
    listed = connection.execute(names.order_by(schema.dataset.c.name).limit(COMPARED_NAMES)).scalars()
    matches = get_close_matches(rest or name, [listed_name.removeprefix(prefix) for listed_name in listed])
    return [prefix + match for match in matches]


def read_dataset_head(connection: Connection, dataset: str, default: Policy) -> DatasetHead:
    """Return the newest state of a dataset; `default` is the policy of one without its own."""
    row = connection.execute(_DATASETS.where(schema.dataset.c.name == dataset)).first()
    if row is None:
        return DatasetHead(Dataset(dataset), default)
    return DatasetHead(_read_dataset(row), row.policy or default, row.retired)


def _read_dataset(row: AnyRow) -> Dataset:
    updated_at = row.committed if row.revision else None
    return Dataset(
        row.name, row.revision, row.bullets, updated_at, row.deleted_at, row.deleted_revision, row.pending_changes
    )


def select_changes_between(connection: Connection, dataset: str, low: int, high: int) -> list[SlotChange]:
    """Return the changes of the revisions in (low, high], in log order."""
    rows = connection.execute(_CHANGES_BETWEEN, {"of_dataset": dataset, "low": low, "high": high})
    return [_build_change(row) for row in rows]


def select_changes(connection: Connection, dataset: str, *conditions: ColumnElement[bool]) -> list[SlotChange]:
    """Return the changes of a dataset under these conditions, in log order."""
    rows = connection.execute(_CHANGES.where(*conditions), {"of_dataset": dataset})
    return [_build_change(row) for row in rows]


def _build_change(row: AnyRow) -> SlotChange:
    """Return the change of a row of the table `change`."""
    return SlotChange(row.slot, row.before, row.after, row.position)


def select_revisions_after(connection: Connection, dataset: str, revision: int, limit: int) -> list[Revision]:
    """Return revisions after `revision`, oldest first."""
    table = schema.revision
    query = select(table).where(table.c.dataset == dataset, table.c.number > revision)
    return _read_revisions(connection, dataset, connection.execute(query.order_by(table.c.number).limit(limit)).all())


def select_history(connection: Connection, dataset: str, before: int | None, limit: int) -> list[Revision]:
    """Return revisions below `before` (None = all), newest first."""
    table = schema.revision
    query = select(table).where(table.c.dataset == dataset)
    if before is not None:
        query = query.where(table.c.number < before)
    rows = connection.execute(query.order_by(table.c.number.desc()).limit(limit)).all()
    return _read_revisions(connection, dataset, rows)


def select_bullet_history(connection: Connection, dataset: str, bullet_id: str) -> list[Revision]:
    """Return the revisions that changed a bullet, oldest first, each with only that bullet's changes."""
    table = schema.change
    its = (table.c.dataset == dataset, table.c.bullet_id == bullet_id)
    numbers = select(table.c.revision).where(*its)
    rows = connection.execute(
        select(schema.revision)
        .where(schema.revision.c.dataset == dataset, schema.revision.c.number.in_(numbers))
        .order_by(schema.revision.c.number)
    ).all()
    return _read_revisions(connection, dataset, rows, table.c.bullet_id == bullet_id)


def _read_scalars(connection: Connection, query: Select[Any]) -> Sequence[StoredBullet]:
    return connection.execute(query).scalars().all()


def _read_revisions(
    connection: Connection, dataset: str, rows: Sequence[AnyRow], *only: ColumnElement[bool]
) -> list[Revision]:
    if not rows:
        return []
    table = schema.change
    numbers = [row.number for row in rows]
    query = _CHANGES.where(table.c.revision.between(min(numbers), max(numbers)), *only)
    changes: dict[int, list[SlotChange]] = {number: [] for number in numbers}
    for row in connection.execute(query, {"of_dataset": dataset}):
        if row.revision in changes:
            changes[row.revision].append(_build_change(row))
    return [_read_revision(row, changes[row.number]) for row in rows]


def _read_revision(row: AnyRow, changes: Sequence[SlotChange]) -> Revision:
    report: schema.BatchReport = row.report
    return Revision(
        dataset=row.dataset,
        stamp=Stamp(row.number, row.committed),
        origin=Origin(
            RevisionKind(row.kind),
            row.author,
            row.reason,
            row.request_id,
            row.source_trajectory,
            row.model,
            report.signal,
        ),
        summary=row.summary,
        bullets_before=row.bullets_before,
        bullets_after=row.bullets_after,
        operations=report.operations,
        votes=report.votes,
        changes=tuple(changes),
    )


def read_policy(connection: Connection, dataset: str) -> Policy | None:
    """Return the policy of a dataset, None if it has none."""
    table = schema.dataset
    policy: Policy | None = connection.execute(select(table.c.policy).where(table.c.name == dataset)).scalar()
    return policy


def select_pending(
    connection: Connection, dataset: str, states: Sequence[PendingState], after: str, limit: int
) -> list[PendingChange]:
    """Return pending changes in these states, oldest first, after the one with id `after` (empty = all)."""
    table = schema.pending
    query = select(table.c.body).where(table.c.dataset == dataset, table.c.state.in_([state.value for state in states]))
    if after:
        last = select(table.c.proposed).where(table.c.id == after).scalar_subquery()
        query = query.where((table.c.proposed > last) | (and_(table.c.proposed == last, table.c.id > after)))
    return list(connection.execute(query.order_by(table.c.proposed, table.c.id).limit(limit)).scalars())


def select_evidence(connection: Connection, dataset: str, operations: Sequence[str] | None) -> dict[str, Evidence]:
    """Return the records of evidence by operation: of these operations (None = all)."""
    if operations is None:
        changes: Iterable[PendingChange] = connection.execute(_EVIDENCE, {"of_dataset": dataset}).scalars()
    elif operations:
        ids = [build_evidence_id(dataset, operation) for operation in operations]
        changes = connection.execute(_EVIDENCE_OF_OPERATIONS, {"of_dataset": dataset, "ids": ids}).scalars()
    else:
        return {}
    return {change.evidence.operation: change.evidence for change in changes if change.evidence is not None}


def expire_pending(connection: Connection, now: datetime) -> int:
    """Mark overdue pending changes as expired and return their number."""
    table = schema.pending
    overdue = (table.c.state == PendingState.WAITING.value, table.c.expires <= now)
    changes: Sequence[PendingChange] = connection.execute(select(table.c.body).where(*overdue)).scalars().all()
    expired = 0
    for change in changes:
        values = {"state": PendingState.EXPIRED.value, "body": replace(change, state=PendingState.EXPIRED)}
        # Somebody may decide on the change meanwhile: the dataset is not locked.
        query = table.update().where(table.c.id == change.id, *overdue)
        expired += connection.execute(query.values(**values)).rowcount
    return expired


def count_pending(connection: Connection) -> dict[PendingState, int]:
    """Return the number of pending changes in each state, over all datasets."""
    table = schema.pending
    rows = connection.execute(select(table.c.state, func.count()).group_by(table.c.state))
    return {PendingState(state): number for state, number in rows}


def select_unerased_datasets(connection: Connection) -> list[tuple[str, int]]:
    """Return name and revision of the deletions whose contents the files of the database may still hold."""
    table = schema.dataset
    rows = connection.execute(select(table.c.name, table.c.deleted_revision).where(table.c.is_erased == 0))
    return [(row.name, row.deleted_revision) for row in rows]


def mark_erased(connection: Connection, deletions: Sequence[tuple[str, int]]) -> None:
    """Mark deletions as done."""
    table = schema.dataset
    for name, revision in deletions:
        is_same = (table.c.name == name, table.c.deleted_revision == revision)
        connection.execute(table.update().where(*is_same).values(is_erased=1))
