"""Read the newest state of one dataset inside a writing transaction, for drafts and rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Text, bindparam, func, select

from chassis.errors import shorten
from libs.storage.engines import get_insert
from services.curator.adapters.sql import schema
from services.curator.adapters.sql.queries import select_changes
from services.curator.domain.draft import Ballot
from services.curator.domain.errors import PendingChangeNotFound
from services.curator.domain.log import RevisionKind, SlotChange, StoredBullet
from services.curator.domain.policy import Policy
from services.curator.domain.review import PendingChange

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_DATASET = bindparam("of_dataset", type_=Text)
_HEAD = select(schema.dataset).where(schema.dataset.c.name == _DATASET).with_for_update()
_BULLETS = select(schema.bullet.c.body).where(schema.bullet.c.dataset == _DATASET)
_ALL = _BULLETS.order_by(schema.bullet.c.slot)
# The order of the index: SQLite would read all bullets to have them in another order.
_WITH_IDS = _BULLETS.where(schema.bullet.c.bullet_id.in_(bindparam("ids", expanding=True))).order_by(
    schema.bullet.c.bullet_id, schema.bullet.c.slot
)
_WITH_FINGERPRINT = _ALL.where(schema.bullet.c.fingerprint == bindparam("fingerprint"))
_STANDING_VOTES = select(schema.vote).where(schema.vote.c.dataset == _DATASET, schema.vote.c.withdrawn_in.is_(None))
_STANDING_VOTES_OF_TRAJECTORY = _STANDING_VOTES.where(schema.vote.c.trajectory == bindparam("of_trajectory"))
_HIGHEST = select(func.max(schema.bullet.c.number)).where(schema.bullet.c.dataset == _DATASET)
_IDS_PER_STATEMENT = 500
"""SQLite's limit of variables in a statement, with a margin."""


class LockedDataset:
    """A dataset, locked against other writers until the transaction ends. Implements `DatasetView`.

    The row of the dataset is the lock: PostgreSQL reads it FOR UPDATE; SQLite has only one writer.
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
        self.deleted_revision: int = row.deleted_revision
        self.first_revision: int = row.first_revision
        self._committed: datetime = row.committed
        self._created_at: str = row.created_at if row.revision > row.deleted_revision else ""
        self._policy: Policy | None = row.policy

    def find_bullets_with_ids(self, bullet_ids: Sequence[str]) -> Sequence[StoredBullet]:
        """Return the bullets with these ids; those with the same id are in playbook order."""
        starts = range(0, len(bullet_ids), _IDS_PER_STATEMENT)
        parts = (bullet_ids[start : start + _IDS_PER_STATEMENT] for start in starts)
        return [stored for part in parts for stored in self._select_bullets(_WITH_IDS, ids=part)]

    def find_bullets_with_fingerprint(self, fingerprint: str) -> Sequence[StoredBullet]:
        """Return the bullets whose content has this fingerprint, in playbook order."""
        return self._select_bullets(_WITH_FINGERPRINT, fingerprint=fingerprint)

    def list_bullets(self) -> Sequence[StoredBullet]:
        """Return all bullets in playbook order."""
        return self._select_bullets(_ALL)

    def find_highest_number(self) -> int:
        """Return the highest number in a bullet's id (C-71)."""
        return self._connection.execute(_HIGHEST, {"of_dataset": self.dataset}).scalar() or 0

    def find_removal_after(self, bullet_id: str, revision: int) -> int | None:
        """Return the newest revision after `revision` that removed the bullet with this id, None if none did."""
        table = schema.change
        query = select(func.max(table.c.revision)).where(
            table.c.dataset == self.dataset,
            table.c.bullet_id == bullet_id,
            table.c.revision > revision,
            table.c.after.is_(None),
        )
        return self._connection.execute(query).scalar()

    @property
    def policy(self) -> Policy:
        """Return the policy of the dataset."""
        return self._policy or self._default_policy

    def count_tokens(self) -> int:
        """Return the estimated tokens of all bullets."""
        query = select(func.sum(schema.bullet.c.tokens)).where(schema.bullet.c.dataset == self.dataset)
        return int(self._connection.execute(query).scalar() or 0)

    @property
    def now(self) -> datetime:
        """Return the present time, aware UTC, never before the newest revision."""
        return max(self._now, self._committed)

    def list_changes_after(self, revision: int) -> list[SlotChange]:
        """Return the changes of all revisions after `revision`, in log order."""
        return self._select_changes(schema.change.c.revision > revision)

    def find_changes(self, slots: Sequence[int]) -> list[SlotChange]:
        """Return all changes of these slots, in log order."""
        return self._select_changes(schema.change.c.slot.in_(slots))

    def find_revisions(self, trajectory: str) -> list[int]:
        """Return the revisions that came from one trajectory, oldest first, without its revocations."""
        table = schema.revision
        query = select(table.c.number).where(
            table.c.dataset == self.dataset,
            table.c.source_trajectory == trajectory,
            table.c.kind != RevisionKind.REVOKE.value,
        )
        return [number for (number,) in self._connection.execute(query.order_by(table.c.number))]

    def list_revoked_trajectories(self) -> set[str]:
        """Return the trajectories that were revoked."""
        table = schema.revision
        mine = (table.c.dataset == self.dataset, table.c.kind == RevisionKind.REVOKE.value)
        return set(self._connection.execute(select(table.c.source_trajectory).where(*mine)).scalars())

    def has_votes_of(self, trajectory: str) -> bool:
        """Return True if the trajectory ever voted here, also with votes that were withdrawn."""
        table = schema.vote
        query = select(table.c.slot).where(table.c.dataset == self.dataset, table.c.trajectory == trajectory)
        return self._connection.execute(query.limit(1)).first() is not None

    def list_changes_in(self, revisions: Sequence[int]) -> list[SlotChange]:
        """Return the changes of these revisions, in log order."""
        return self._select_changes(schema.change.c.revision.in_(revisions))

    def find_ballots(self, trajectory: str) -> list[Ballot]:
        """Return the votes of one trajectory that were not withdrawn."""
        return self._select_ballots(_STANDING_VOTES_OF_TRAJECTORY, of_trajectory=trajectory)

    def list_ballots_since(self, revision: int) -> list[Ballot]:
        """Return the votes after `revision` that were not withdrawn."""
        return self._select_ballots(_STANDING_VOTES.where(schema.vote.c.cast_in > revision))

    def list_ballots_withdrawn_since(self, revision: int) -> list[Ballot]:
        """Return the votes that stood at `revision` and were withdrawn after it."""
        table = schema.vote
        query = select(table).where(table.c.dataset == _DATASET)
        return self._select_ballots(query.where(table.c.cast_in <= revision, table.c.withdrawn_in > revision))

    def list_ballots_on(self, slot: int) -> list[Ballot]:
        """Return the standing votes on one bullet."""
        return self._select_ballots(_STANDING_VOTES.where(schema.vote.c.slot == slot))

    def list_bullets_with_ballots(self, dataset: str) -> list[tuple[StoredBullet, list[Ballot]]]:
        """Return the bullets of another dataset, in its order, with their standing votes."""
        ballots: dict[int, list[Ballot]] = {}
        for ballot in self._select_ballots(_STANDING_VOTES, of_dataset=dataset):
            ballots.setdefault(ballot.slot, []).append(ballot)
        bullets = self._connection.execute(_ALL, {"of_dataset": dataset}).scalars()
        return [(stored, ballots.get(stored.slot, [])) for stored in bullets]

    def find_pending_changes(self, ids: Sequence[str]) -> list[PendingChange]:
        """Return the pending changes with these ids, in their order. Raises PendingChangeNotFound."""
        table = schema.pending
        query = select(table.c.id, table.c.body).where(table.c.dataset == self.dataset, table.c.id.in_(ids))
        changes: dict[str, PendingChange] = {row.id: row.body for row in self._connection.execute(query)}
        for pending_id in ids:
            if pending_id not in changes:
                raise PendingChangeNotFound(f'dataset "{self.dataset}" has no pending change "{shorten(pending_id)}"')
        return [changes[pending_id] for pending_id in ids]

    def _select_for_update(self) -> Row[tuple[object, ...]] | None:
        return self._connection.execute(_HEAD, {"of_dataset": self.dataset}).first()

    def _insert(self) -> Row[tuple[object, ...]]:
        statement = get_insert(self._connection.dialect.name)(schema.dataset).on_conflict_do_nothing()
        now = self._now.isoformat()
        counts = dict.fromkeys(("revision", "bullets", "retired", "next_slot"), 0)
        values = {"name": self.dataset, "committed": _NEVER, "created_at": now, "updated_at": now}
        self._connection.execute(statement, counts | values)
        row = self._select_for_update()
        if row is None:
            raise LookupError(f"dataset {self.dataset} was deleted while it was created: send the request again")
        return row

    def _select_bullets(self, query: Select[Any], **values: object) -> list[StoredBullet]:
        return list(self._connection.execute(query, {"of_dataset": self.dataset, **values}).scalars())

    def _select_changes(self, condition: ColumnElement[bool]) -> list[SlotChange]:
        return select_changes(self._connection, self.dataset, condition)

    def _select_ballots(self, query: Select[Any], **values: str) -> list[Ballot]:
        rows = self._connection.execute(query, {"of_dataset": self.dataset, **values})
        ballots = (Ballot(row.slot, row.trajectory, row.round, row.helpful, row.harmful, row.reason) for row in rows)
        # Sorted here: to have them in this order, SQLite would read all votes of the dataset.
        return sorted(ballots, key=lambda ballot: ballot.key)
