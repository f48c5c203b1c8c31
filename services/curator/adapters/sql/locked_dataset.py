"""Read the newest state of one dataset inside a writing transaction, for drafts and rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Text, bindparam, func, select

from chassis.errors import shorten
from libs.storage.engines import insert_for
from services.curator.adapters.sql import schema
from services.curator.adapters.sql.queries import change_from, changes_where
from services.curator.domain.draft import Ballot
from services.curator.domain.errors import PendingChangeNotFound
from services.curator.domain.log import Change, Kind, Stored
from services.curator.domain.review import PendingChange
from services.curator.domain.rules import Policy

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_D = bindparam("of_dataset", type_=Text)
_HEAD = select(schema.dataset).where(schema.dataset.c.name == _D).with_for_update()
_ALL = select(schema.bullet.c.body).where(schema.bullet.c.dataset == _D).order_by(schema.bullet.c.slot)
_NAMED = _ALL.where(schema.bullet.c.bullet_id == bindparam("id"))
_WITH_CONTENT = _ALL.where(schema.bullet.c.mark == bindparam("mark"))
_HIGHEST = select(func.max(schema.bullet.c.number)).where(schema.bullet.c.dataset == _D)
_STANDING_VOTE = select(schema.vote.c.cast_in).where(
    schema.vote.c.dataset == _D,
    schema.vote.c.slot == bindparam("in_slot"),
    schema.vote.c.trajectory == bindparam("of_trajectory"),
    schema.vote.c.round == bindparam("in_round"),
    schema.vote.c.withdrawn_in.is_(None),
)


class LockedDataset:
    """A dataset, locked against other writers until the transaction ends. Implements `View`.

    The dataset's row is the lock: on PostgreSQL it is read FOR UPDATE; SQLite has one writer anyway.
    """

    def __init__(self, connection: Connection, dataset: str, now: datetime, policy: Policy) -> None:
        self.dataset = dataset
        self._connection = connection
        self._now = now
        self._default_policy = policy
        row = self._select_for_update() or self._insert()
        self.revision: int = row.revision
        self.bullets: int = row.bullets
        self._retired: int = row.retired
        self.next_slot: int = row.next_slot
        self._committed: datetime = row.committed
        self._created_at: str = row.created_at
        self._policy: Policy | None = row.policy

    # What the dataset holds (View)

    def named(self, bullet_id: str) -> Sequence[Stored]:
        """The bullets with this id, in playbook order."""
        return self._bullets(_NAMED, id=bullet_id)

    def with_content(self, mark: str) -> Sequence[Stored]:
        """The bullets whose content has this fingerprint, in playbook order."""
        return self._bullets(_WITH_CONTENT, mark=mark)

    def everything(self) -> Sequence[Stored]:
        """All bullets in playbook order."""
        return self._bullets(_ALL)

    def highest_number(self) -> int:
        """The highest number in a bullet's id (C-71)."""
        return self._connection.execute(_HIGHEST, {"of_dataset": self.dataset}).scalar() or 0

    def removed_after(self, bullet_id: str, revision: int) -> int | None:
        """The newest revision after `revision` that removed the bullet with this id, None if none did."""
        table = schema.change
        query = select(func.max(table.c.revision)).where(
            table.c.dataset == self.dataset,
            table.c.bullet_id == bullet_id,
            table.c.revision > revision,
            table.c.after.is_(None),
        )
        return self._connection.execute(query).scalar()

    def voted(self, slot: int, trajectory: str, round_: int) -> bool:
        """Whether this vote is counted already."""
        key = {"of_dataset": self.dataset, "in_slot": slot, "of_trajectory": trajectory, "in_round": round_}
        return self._connection.execute(_STANDING_VOTE, key).first() is not None

    # Further reads inside the transaction

    @property
    def policy(self) -> Policy:
        """The rules of the dataset."""
        return self._policy or self._default_policy

    def tokens(self) -> int:
        """The estimated tokens of all bullets."""
        query = select(func.sum(schema.bullet.c.tokens)).where(schema.bullet.c.dataset == self.dataset)
        return int(self._connection.execute(query).scalar() or 0)

    @property
    def now(self) -> datetime:
        """The present, aware UTC, never before the newest revision: time never runs backwards in a log."""
        return max(self._now, self._committed)

    def changes_after(self, revision: int) -> list[Change]:
        """The changes of all revisions after `revision`, in log order."""
        return self._changes(schema.change.c.revision > revision)

    def changes_of(self, slots: Sequence[int]) -> list[Change]:
        """All changes of these slots, in log order."""
        return self._changes(schema.change.c.slot.in_(slots))

    def revisions_of(self, trajectory: str) -> list[int]:
        """The revisions that came from one trajectory, oldest first; its revocations aside."""
        table = schema.revision
        query = select(table.c.number).where(
            table.c.dataset == self.dataset,
            table.c.source_trajectory == trajectory,
            table.c.kind != Kind.REVOKE.value,
        )
        return [number for (number,) in self._connection.execute(query.order_by(table.c.number))]

    def revoked(self) -> set[str]:
        """The trajectories that were revoked."""
        table = schema.revision
        mine = (table.c.dataset == self.dataset, table.c.kind == Kind.REVOKE.value)
        return set(self._connection.execute(select(table.c.source_trajectory).where(*mine)).scalars())

    def has_voted(self, trajectory: str) -> bool:
        """Whether the trajectory ever voted here, also with votes that were withdrawn."""
        table = schema.vote
        query = select(table.c.slot).where(table.c.dataset == self.dataset, table.c.trajectory == trajectory)
        return self._connection.execute(query.limit(1)).first() is not None

    def changes_in(self, revisions: Sequence[int]) -> dict[int, list[Change]]:
        """The changes of these revisions."""
        table = schema.change
        changes: dict[int, list[Change]] = {number: [] for number in revisions}
        query = select(table).where(table.c.dataset == self.dataset, table.c.revision.in_(revisions))
        for row in self._connection.execute(query.order_by(table.c.revision, table.c.slot)):
            changes[row.revision].append(change_from(row))
        return changes

    def ballots_of(self, trajectory: str) -> list[Ballot]:
        """The standing votes that one trajectory cast."""
        table = schema.vote
        return self._ballots(table.c.trajectory == trajectory, table.c.withdrawn_in.is_(None))

    def ballots_since(self, revision: int) -> list[Ballot]:
        """The standing votes cast after `revision`."""
        table = schema.vote
        return self._ballots(table.c.cast_in > revision, table.c.withdrawn_in.is_(None))

    def ballots_withdrawn_since(self, revision: int) -> list[Ballot]:
        """The votes that stood at `revision` and were withdrawn after it."""
        table = schema.vote
        return self._ballots(table.c.cast_in <= revision, table.c.withdrawn_in > revision)

    def ballots_on(self, slot: int) -> list[Ballot]:
        """The standing votes on one bullet."""
        return self._ballots(schema.vote.c.slot == slot, schema.vote.c.withdrawn_in.is_(None))

    def foreign(self, dataset: str) -> list[tuple[Stored, list[Ballot]]]:
        """The bullets of another dataset, in its order, with their standing votes."""
        votes = schema.vote
        query = select(votes).where(votes.c.dataset == dataset, votes.c.withdrawn_in.is_(None))
        ballots: dict[int, list[Ballot]] = {}
        for row in self._connection.execute(query.order_by(votes.c.slot, votes.c.trajectory, votes.c.round)):
            ballots.setdefault(row.slot, []).append(_ballot(row))
        bullets = self._connection.execute(_ALL, {"of_dataset": dataset}).scalars()
        return [(stored, ballots.get(stored.slot, [])) for stored in bullets]

    def pending(self, ids: Sequence[str]) -> list[PendingChange]:
        """The pending changes with these ids, in their order. PendingChangeNotFound for an unknown one."""
        table = schema.pending
        query = select(table.c.id, table.c.body).where(table.c.dataset == self.dataset, table.c.id.in_(ids))
        known: dict[str, PendingChange] = {row.id: row.body for row in self._connection.execute(query)}
        for pending_id in ids:
            if pending_id not in known:
                raise PendingChangeNotFound(
                    f'dataset "{self.dataset}" has no pending change "{shorten(pending_id)}": list them first'
                )
        return [known[pending_id] for pending_id in ids]

    def _select_for_update(self) -> Row[tuple[object, ...]] | None:
        return self._connection.execute(_HEAD, {"of_dataset": self.dataset}).first()

    def _insert(self) -> Row[tuple[object, ...]]:
        statement = insert_for(self._connection.dialect.name)(schema.dataset).on_conflict_do_nothing()
        now = self._now.isoformat()
        counts = dict.fromkeys(("revision", "bullets", "retired", "next_slot"), 0)
        values = {"name": self.dataset, "committed": _NEVER, "created_at": now, "updated_at": now}
        self._connection.execute(statement, counts | values)
        row = self._select_for_update()
        if row is None:
            raise LookupError(f"dataset {self.dataset} vanished while it was created")
        return row

    def _bullets(self, query: Select[Any], **values: str) -> list[Stored]:
        return list(self._connection.execute(query, {"of_dataset": self.dataset, **values}).scalars())

    def _changes(self, condition: ColumnElement[bool]) -> list[Change]:
        return changes_where(self._connection, schema.change.c.dataset == self.dataset, condition)

    def _ballots(self, *conditions: ColumnElement[bool]) -> list[Ballot]:
        table = schema.vote
        query = select(table).where(table.c.dataset == self.dataset, *conditions)
        rows = self._connection.execute(query.order_by(table.c.slot, table.c.trajectory, table.c.round))
        return [_ballot(row) for row in rows]


def _ballot(row: Row[tuple[object, ...]]) -> Ballot:
    return Ballot(row.slot, row.trajectory, row.round, row.helpful, row.harmful, row.reason)
