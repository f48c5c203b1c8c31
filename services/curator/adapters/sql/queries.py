"""Read the store; every function runs in one transaction and sees one state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Select, Text, and_, bindparam, delete, func, select

from libs.embedding.model import content_hash
from services.curator.adapters.sql import schema
from services.curator.domain.errors import RevisionAhead
from services.curator.domain.log import Origin, Revision, RevisionKind, SlotChange, Stamp, StoredBullet
from services.curator.domain.policy import Policy
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.ports import Dataset, DatasetHead

AnyRow = Row[tuple[object, ...]]

# Queries of every curation: compiled once, so that only values are bound.
_HEAD = select(schema.dataset).where(
    schema.dataset.c.name == bindparam("of_dataset", type_=Text), schema.dataset.c.revision > 0
)
_CHANGES_BETWEEN = (
    select(schema.change)
    .where(
        schema.change.c.dataset == bindparam("of_dataset", type_=Text),
        schema.change.c.revision > bindparam("low", type_=BigInteger),
        schema.change.c.revision <= bindparam("high", type_=BigInteger),
    )
    .order_by(schema.change.c.revision, schema.change.c.slot)
)


def head_of(connection: Connection, dataset: str) -> AnyRow | None:
    """Return the row of a dataset that has a revision."""
    return connection.execute(_HEAD, {"of_dataset": dataset}).first()


def heads(connection: Connection) -> dict[str, int]:
    """Return the newest revision of every dataset."""
    table = schema.dataset
    rows = connection.execute(select(table.c.name, table.c.revision).where(table.c.revision > 0))
    return {row.name: row.revision for row in rows}


def snapshot(connection: Connection, dataset: str, revision: int | None, cached: Snapshot | None) -> Snapshot:
    """Return the bullets as of `revision`; only changes since the `cached` snapshot are read."""
    head = head_of(connection, dataset)
    newest = head.revision if head else 0
    wanted = newest if revision is None else revision
    if wanted > newest:
        raise RevisionAhead(dataset, wanted, newest)
    if head is None or wanted == 0:
        return Snapshot(dataset)
    if cached is not None and cached.revision == wanted:
        return cached
    created_at = datetime.fromisoformat(head.created_at)
    if wanted == newest:
        updated_at = datetime.fromisoformat(head.updated_at)
        stored = _advance_cached(connection, cached, wanted) if cached else _fold(connection, dataset)
        return Snapshot(dataset, wanted, stored, created_at=created_at, updated_at=updated_at)
    updated_at = _committed_at(connection, dataset, wanted)
    return Snapshot(dataset, wanted, _as_of(connection, dataset, wanted), created_at=created_at, updated_at=updated_at)


def _advance_cached(connection: Connection, cached: Snapshot, revision: int) -> Iterable[StoredBullet]:
    """Return the bullets of a cached snapshot with the changes since."""
    changes = changes_between(connection, cached.dataset, cached.revision, revision)
    return cached.advance(revision, changes).slots.values()


def _fold(connection: Connection, dataset: str) -> Sequence[StoredBullet]:
    table = schema.bullet
    return _scalars(connection, select(table.c.body).where(table.c.dataset == dataset).order_by(table.c.slot))


def _as_of(connection: Connection, dataset: str, revision: int) -> Sequence[StoredBullet]:
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
    return _scalars(connection, query)


def _committed_at(connection: Connection, dataset: str, revision: int) -> datetime:
    """Return the time of the commit of a revision."""
    table = schema.revision
    query = select(table.c.committed).where(table.c.dataset == dataset, table.c.number == revision)
    committed: datetime = connection.execute(query).scalar_one()
    return committed


def revision_at(connection: Connection, dataset: str, at: datetime) -> int:
    """Return the newest revision committed at or before `at`, 0 if none."""
    table = schema.revision
    query = select(func.max(table.c.number)).where(table.c.dataset == dataset, table.c.committed <= at)
    return connection.execute(query).scalar() or 0


def datasets(connection: Connection, after: str, limit: int) -> list[Dataset]:
    """Return datasets with a revision whose name sorts after `after`, by name."""
    table = schema.dataset
    query = select(table).where(table.c.revision > 0)
    # Order by code points, whatever the collation of the server is.
    name = table.c.name.collate("C") if connection.dialect.name == "postgresql" else table.c.name
    rows = connection.execute(query.where(name > after).order_by(name).limit(limit))
    return [_dataset(row) for row in rows]


def dataset_head(connection: Connection, dataset: str, default: Policy) -> DatasetHead:
    """Return the newest state of a dataset; `default` is the policy of one without its own."""
    row = connection.execute(select(schema.dataset).where(schema.dataset.c.name == dataset)).first()
    if row is None:
        return DatasetHead(Dataset(dataset), default)
    waiting = (schema.pending.c.dataset == dataset, schema.pending.c.state == PendingState.WAITING.value)
    pending_changes = connection.execute(select(func.count()).select_from(schema.pending).where(*waiting)).scalar_one()
    return DatasetHead(_dataset(row), row.policy or default, row.retired, pending_changes)


def _dataset(row: AnyRow) -> Dataset:
    return Dataset(row.name, row.revision, row.bullets, row.committed if row.revision else None)


def changes_between(connection: Connection, dataset: str, low: int, high: int) -> list[SlotChange]:
    """Return the changes of the revisions in (low, high], in log order."""
    rows = connection.execute(_CHANGES_BETWEEN, {"of_dataset": dataset, "low": low, "high": high})
    return [change_from(row) for row in rows]


def changes_where(connection: Connection, *conditions: ColumnElement[bool]) -> list[SlotChange]:
    """Return the changes under these conditions, in log order."""
    table = schema.change
    query = select(table).where(*conditions).order_by(table.c.revision, table.c.slot)
    return [change_from(row) for row in connection.execute(query)]


def change_from(row: AnyRow) -> SlotChange:
    """Return the change of a row of the table `change`."""
    return SlotChange(row.slot, row.before, row.after, row.position)


def revisions_after(connection: Connection, dataset: str, revision: int, limit: int) -> list[Revision]:
    """Return revisions after `revision`, oldest first."""
    table = schema.revision
    query = select(table).where(table.c.dataset == dataset, table.c.number > revision)
    return _revisions(connection, dataset, connection.execute(query.order_by(table.c.number).limit(limit)).all())


def history(connection: Connection, dataset: str, before: int | None, limit: int) -> list[Revision]:
    """Return revisions below `before` (None = all), newest first."""
    table = schema.revision
    query = select(table).where(table.c.dataset == dataset)
    if before is not None:
        query = query.where(table.c.number < before)
    rows = connection.execute(query.order_by(table.c.number.desc()).limit(limit)).all()
    return _revisions(connection, dataset, rows)


def bullet_history(connection: Connection, dataset: str, bullet_id: str) -> list[Revision]:
    """Return the revisions that changed a bullet, oldest first, each with only that bullet's changes."""
    table = schema.change
    its = (table.c.dataset == dataset, table.c.bullet_id == bullet_id)
    numbers = select(table.c.revision).where(*its)
    rows = connection.execute(
        select(schema.revision)
        .where(schema.revision.c.dataset == dataset, schema.revision.c.number.in_(numbers))
        .order_by(schema.revision.c.number)
    ).all()
    return _revisions(connection, dataset, rows, table.c.bullet_id == bullet_id)


def _scalars(connection: Connection, query: Select[Any]) -> Sequence[StoredBullet]:
    return connection.execute(query).scalars().all()


def _revisions(
    connection: Connection, dataset: str, rows: Sequence[AnyRow], *only: ColumnElement[bool]
) -> list[Revision]:
    if not rows:
        return []
    table = schema.change
    numbers = [row.number for row in rows]
    mine = (table.c.dataset == dataset, table.c.revision.between(min(numbers), max(numbers)))
    changes: dict[int, list[SlotChange]] = {number: [] for number in numbers}
    for row in connection.execute(select(table).where(*mine, *only).order_by(table.c.revision, table.c.slot)):
        if row.revision in changes:
            changes[row.revision].append(change_from(row))
    return [_revision(row, changes[row.number]) for row in rows]


def _revision(row: AnyRow, changes: Sequence[SlotChange]) -> Revision:
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


def policy_of(connection: Connection, dataset: str) -> Policy | None:
    """Return the policy of a dataset, None if it has none."""
    table = schema.dataset
    policy: Policy | None = connection.execute(select(table.c.policy).where(table.c.name == dataset)).scalar()
    return policy


def pending(
    connection: Connection, dataset: str, states: Sequence[PendingState], after: str, limit: int
) -> list[PendingChange]:
    """Return pending changes in these states, oldest first, after the one with id `after` (empty = all)."""
    table = schema.pending
    query = select(table.c.body).where(table.c.dataset == dataset, table.c.state.in_([state.value for state in states]))
    if after:
        last = select(table.c.proposed).where(table.c.id == after).scalar_subquery()
        query = query.where((table.c.proposed > last) | (and_(table.c.proposed == last, table.c.id > after)))
    return list(connection.execute(query.order_by(table.c.proposed, table.c.id).limit(limit)).scalars())


def expire_pending(connection: Connection, now: datetime) -> int:
    """Mark overdue pending changes as expired and return their number."""
    table = schema.pending
    overdue = (table.c.state == PendingState.WAITING.value, table.c.expires <= now)
    changes: Sequence[PendingChange] = connection.execute(select(table.c.body).where(*overdue)).scalars().all()
    for change in changes:
        values = {"state": PendingState.EXPIRED.value, "body": replace(change, state=PendingState.EXPIRED)}
        connection.execute(table.update().where(table.c.id == change.id).values(**values))
    return len(changes)


def pending_counts(connection: Connection) -> dict[PendingState, int]:
    """Return the number of pending changes in each state, over all datasets."""
    table = schema.pending
    rows = connection.execute(select(table.c.state, func.count()).group_by(table.c.state))
    return {PendingState(state): number for state, number in rows}


def unused_embeddings(connection: Connection) -> list[bytes]:
    """Return the content hashes of stored vectors whose text is in no playbook and in no waiting change."""
    bullets: Iterable[StoredBullet] = connection.execute(select(schema.bullet.c.body)).scalars()
    used = {content_hash(text) for stored in bullets for text in (stored.bullet.content, stored.bullet.searchable_text)}
    waiting = select(schema.pending.c.body).where(schema.pending.c.state == PendingState.WAITING.value)
    changes: Iterable[PendingChange] = connection.execute(waiting).scalars()
    used |= {content_hash(change.proposal.delta.content) for change in changes}
    stored_hashes = connection.execute(select(schema.embeddings.c.content_hash).distinct()).scalars()
    return [digest for digest in map(bytes, stored_hashes) if digest not in used]


def delete_embeddings(connection: Connection, hashes: Sequence[bytes]) -> int:
    """Delete the vectors of these content hashes, of all models, and return their number."""
    return connection.execute(delete(schema.embeddings).where(schema.embeddings.c.content_hash.in_(hashes))).rowcount
