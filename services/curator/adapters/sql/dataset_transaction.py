"""Append revisions to the log of a dataset, with their changes, votes and fold, in one transaction."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Connection, Table, bindparam, func, select, update

from libs.embedding.store import insert_embeddings
from libs.llm.tokens import estimate_tokens
from libs.storage.engines import get_insert
from libs.storage.idempotency import IdempotencyKey
from services.curator.adapters.sql import queries, schema
from services.curator.adapters.sql.locked_dataset import LockedDataset
from services.curator.adapters.sql.notifications import NOTIFY
from services.curator.adapters.sql.queries import require_datasets
from services.curator.domain.curation import Operation, VoteOutcome
from services.curator.domain.draft import Draft
from services.curator.domain.evidence import Evidence
from services.curator.domain.ids import parse_number
from services.curator.domain.log import Origin, Revision, SlotChange, Stamp, StoredBullet
from services.curator.domain.playbook import hash_content
from services.curator.domain.policy import Policy
from services.curator.domain.review import PendingChange, hold_evidence
from services.curator.usecases.embed_new_texts import NewEmbeddings

_POSITIONS_BY_COUNT = 16
"""Positions that the database counts; for more of them, reading all slots is cheaper."""

_DROP_BULLET = schema.bullet.delete().where(
    schema.bullet.c.dataset == bindparam("of_dataset"), schema.bullet.c.slot == bindparam("in_slot")
)
_ADD_REVISION = schema.revision.insert()
_ADD_CHANGE = schema.change.insert()
_ADD_VOTE = schema.vote.insert()
_WITHDRAW_VOTES = (
    update(schema.vote)
    .where(
        schema.vote.c.dataset == bindparam("of_dataset"),
        schema.vote.c.withdrawn_in.is_(None),
        schema.vote.c.slot == bindparam("in_slot"),
    )
    .values(withdrawn_in=bindparam("withdrawn_now"))
)
_WITHDRAW_VOTE = _WITHDRAW_VOTES.where(
    schema.vote.c.trajectory == bindparam("of_trajectory"), schema.vote.c.round == bindparam("in_round")
)
_ADVANCE = (
    update(schema.dataset)
    .where(schema.dataset.c.name == bindparam("of_dataset"))
    .values(
        {name: bindparam(name) for name in ("revision", "bullets", "retired", "next_slot", "committed", "updated_at")}
    )
)
_ADVANCE_BY_DIALECT = {"sqlite": _ADVANCE, "postgresql": _ADVANCE.returning(NOTIFY)}


@cache
def _build_upsert(dialect: str, table: Table) -> Any:
    """Return the statement that inserts rows, each in the place of the one with its key."""
    statement = get_insert(dialect)(table)
    others = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=others)


@cache
def _build_counts(slots: int) -> Any:
    """Return the query of the numbers of bullets before `slots` slots, `slot_0` and so on, in ascending order."""
    bounds = [bindparam(f"slot_{index}", type_=BigInteger) for index in range(slots)]
    column = schema.bullet.c.slot
    counts = select(*(func.count().filter(column < bound) for bound in bounds))
    return counts.where(schema.bullet.c.dataset == bindparam("of_dataset"), column < bounds[-1])


class SqlDatasetTransaction(LockedDataset):
    """A locked dataset for writing. Implements `DatasetTransaction`; `revisions` are the appended ones."""

    def __init__(self, connection: Connection, dataset: str, now: datetime, policy: Policy) -> None:
        super().__init__(connection, dataset, now, policy)
        self.revisions: list[Revision] = []

    def find_response(self, key: IdempotencyKey) -> bytes | None:
        """Return the stored response of a request that is done. Raises RequestIdReused."""
        return schema.requests.find_response(self._connection, key)

    def store_response(self, key: IdempotencyKey, response: bytes, payload: bytes) -> None:
        """Store response and payload of a request. Raises RequestDone, RequestIdReused."""
        schema.requests.store_response(self._connection, key, response, self._now, payload, dataset=self.dataset)

    def store_embeddings(self, embeddings: NewEmbeddings) -> None:
        """Store the embeddings of texts in the transaction of the request."""
        insert_embeddings(self._connection, schema.embeddings, embeddings.model_id, embeddings.vectors)

    def create_draft(self) -> Draft:
        """Return an empty draft of the next revision."""
        return Draft(self, Stamp(self.revision + 1, self.now))

    def append(
        self,
        draft: Draft,
        origin: Origin,
        summary: str,
        operations: Sequence[Operation] = (),
        votes: Sequence[VoteOutcome] = (),
    ) -> Revision:
        """Append the draft to the log as the next revision, and update the fold."""
        if not self._created_at:
            self.set_created_at(draft.stamp.at)
        if draft.stamp.revision != self.revision + 1:
            raise ValueError(f"the draft is for revision {draft.stamp.revision}, the next one is {self.revision + 1}")
        changes = draft.changes
        self._write_fold(changes)
        self._write_votes(draft, changes)
        changes = self._set_positions(changes, draft.bullets)
        revision = Revision(
            self.dataset,
            draft.stamp,
            origin,
            summary,
            bullets_before=self.bullets,
            bullets_after=draft.bullets,
            operations=tuple(operations),
            votes=tuple(votes),
            changes=tuple(changes),
        )
        self._write_log(revision)
        self._retired += sum(_is_retired(change.after) - _is_retired(change.before) for change in changes)
        self._advance(draft)
        self.revisions.append(revision)
        return revision

    def delete_contents(self, origin: Origin) -> Revision:
        """Delete the dataset, and append the deletion as the one revision that stays. Raises DatasetNotFound."""
        require_datasets(self._connection, [self.dataset])
        requests, revision = schema.requests.table, schema.revision
        # Responses that were stored before the column existed are found by the revision that they made.
        made = select(revision.c.request_id).where(revision.c.dataset == self.dataset, revision.c.request_id != "")
        is_mine = (requests.c.dataset == self.dataset) | requests.c.request_id.in_(made)
        self._connection.execute(requests.delete().where(is_mine))
        for table in (schema.bullet, schema.change, schema.vote, schema.pending, revision):
            self._connection.execute(table.delete().where(table.c.dataset == self.dataset))
        draft = self.create_draft()
        draft.bullets = draft.next_slot = self._retired = 0
        tombstone = self.append(draft, origin, f"{self.bullets} deleted")
        self.deleted_revision, self._policy = tombstone.number, None
        values = {"deleted_revision": tombstone.number, "deleted_at": tombstone.stamp.at, "is_erased": 0}
        values["first_revision"] = 1
        table = schema.dataset
        self._connection.execute(update(table).where(table.c.name == self.dataset).values(policy=None, **values))
        return tombstone

    def set_policy(self, policy: Policy) -> None:
        """Replace the policy of the dataset."""
        self._policy = policy
        table = schema.dataset
        self._connection.execute(update(table).where(table.c.name == self.dataset).values(policy=policy))

    def set_created_at(self, created_at: datetime) -> None:
        """Set the creation time to that of an imported playbook, unchanged (C-20)."""
        table = schema.dataset
        self._created_at = created_at.isoformat()
        values = {"created_at": self._created_at}
        self._connection.execute(update(table).where(table.c.name == self.dataset).values(**values))

    def store_pending(self, *changes: PendingChange) -> None:
        """Store pending changes, new or decided."""
        rows = [
            {
                "id": change.id,
                "dataset": self.dataset,
                "state": change.state.value,
                "proposed": change.proposed,
                "expires": change.expires,
                "body": change,
            }
            for change in changes
        ]
        if rows:
            self._connection.execute(_build_upsert(self._connection.dialect.name, schema.pending), rows)

    def load_evidence(self, operations: Sequence[str] | None = None) -> dict[str, Evidence]:
        """Return the records of evidence by operation: of these operations, or all."""
        return queries.select_evidence(self._connection, self.dataset, operations)

    def store_evidence(self, records: Iterable[Evidence]) -> None:
        """Store records of evidence in place of those of their operations."""
        self.store_pending(*(hold_evidence(self.dataset, record, self.now) for record in records))

    def _write_fold(self, changes: Sequence[SlotChange]) -> None:
        gone = [{"of_dataset": self.dataset, "in_slot": change.slot} for change in changes if change.after is None]
        if gone:
            self._connection.execute(_DROP_BULLET, gone)
        rows = [self._build_row(change.after) for change in changes if change.after]
        if rows:
            self._connection.execute(_build_upsert(self._connection.dialect.name, schema.bullet), rows)

    def _build_row(self, stored: StoredBullet) -> dict[str, object]:
        return {
            "dataset": self.dataset,
            "slot": stored.slot,
            "bullet_id": stored.bullet.id,
            "number": parse_number(stored.bullet.id),
            "fingerprint": hash_content(stored.bullet.content),
            "tokens": estimate_tokens(stored.bullet.content),
            "body": stored,
        }

    def _write_votes(self, draft: Draft, changes: Sequence[SlotChange]) -> None:
        withdrawn_in = {"of_dataset": self.dataset, "withdrawn_now": draft.stamp.revision}
        removed = [{**withdrawn_in, "in_slot": change.slot} for change in changes if change.after is None]
        if removed:
            self._connection.execute(_WITHDRAW_VOTES, removed)
        withdrawn = [
            {**withdrawn_in, "in_slot": slot, "of_trajectory": trajectory, "in_round": round_}
            for slot, trajectory, round_ in sorted(draft.withdrawn_ballots)
        ]
        if withdrawn:
            self._connection.execute(_WITHDRAW_VOTE, withdrawn)
        cast = [
            {
                "dataset": self.dataset,
                "slot": ballot.slot,
                "trajectory": ballot.trajectory,
                "round": ballot.round,
                "cast_in": draft.stamp.revision,
                "helpful": ballot.helpful,
                "harmful": ballot.harmful,
                "reason": ballot.reason,
            }
            for ballot in draft.cast_ballots.values()
        ]
        if cast:
            self._connection.execute(_ADD_VOTE, cast)

    def _set_positions(self, changes: Sequence[SlotChange], bullets_after: int) -> list[SlotChange]:
        """Return the changes with positions: after the revision, or before it for a removed bullet."""
        ranks = self._rank_rows(changes, bullets_after)
        removed = sorted(change.slot for change in changes if change.after is None)
        inserted = sorted(change.slot for change in changes if change.before is None)

        def find_position(change: SlotChange) -> int:
            if change.after is not None:
                return ranks[change.slot]
            return ranks[change.slot] + bisect_left(removed, change.slot) - bisect_left(inserted, change.slot)

        return [replace(change, position=find_position(change)) for change in changes]

    def _rank_rows(self, changes: Sequence[SlotChange], bullets_after: int) -> dict[int, int]:
        """Return the number of present bullets before each changed slot."""
        appended = [change.slot for change in changes if change.slot >= self.next_slot]
        ranks = {slot: bullets_after - len(appended) + index for index, slot in enumerate(appended)}
        inner = [change.slot for change in changes if change.slot < self.next_slot]
        if not inner:
            return ranks
        if len(inner) <= _POSITIONS_BY_COUNT:
            key = {"of_dataset": self.dataset} | {f"slot_{index}": slot for index, slot in enumerate(inner)}
            counts = self._connection.execute(_build_counts(len(inner)), key).one()
            return ranks | dict(zip(inner, counts, strict=True))
        table = schema.bullet
        slots = self._connection.execute(select(table.c.slot).where(table.c.dataset == self.dataset)).scalars()
        standing = sorted(slots)
        return ranks | {slot: bisect_left(standing, slot) for slot in inner}

    def _write_log(self, revision: Revision) -> None:
        origin = revision.origin
        self._connection.execute(
            _ADD_REVISION,
            {
                "dataset": self.dataset,
                "number": revision.number,
                "committed": revision.stamp.at,
                "kind": origin.kind.value,
                "author": origin.author,
                "reason": origin.reason,
                "request_id": origin.request_id,
                "source_trajectory": origin.source_trajectory,
                "model": origin.model,
                "summary": revision.summary,
                "bullets_before": revision.bullets_before,
                "bullets_after": revision.bullets_after,
                "report": schema.BatchReport(revision.operations, revision.votes, revision.origin.signal),
            },
        )
        rows = [
            {
                "dataset": self.dataset,
                "revision": revision.number,
                "slot": change.slot,
                "bullet_id": change.bullet_id,
                "position": change.position,
                "after": change.after,
            }
            for change in revision.changes
        ]
        if rows:
            self._connection.execute(_ADD_CHANGE, rows)

    def _advance(self, draft: Draft) -> None:
        self._committed = draft.stamp.at
        self.revision, self.bullets, self.next_slot = draft.stamp.revision, draft.bullets, draft.next_slot
        values = {
            "of_dataset": self.dataset,
            "revision": self.revision,
            "bullets": self.bullets,
            "retired": self._retired,
            "next_slot": self.next_slot,
            "committed": self._committed,
            "updated_at": draft.stamp.at.isoformat(),
        }
        self._connection.execute(_ADVANCE_BY_DIALECT[self._connection.dialect.name], values)


def _is_retired(stored: StoredBullet | None) -> bool:
    return stored is not None and bool(stored.bullet.retired)
