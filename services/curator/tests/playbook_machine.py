"""A hypothesis state machine: any sequence of edits, votes, restores and replays agrees with a sequential model."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from libs.storage.idempotency import IdempotencyKey
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, DeltaType, Proposal, Vote, VoteTag
from services.curator.domain.log import Origin, RevisionKind, fold
from services.curator.usecases.commit import CommitResult, EditBatch, commit, run_once
from services.curator.usecases.ports import DatasetTransaction
from services.curator.usecases.restore import restore

T = TypeVar("T")
ORIGIN = Origin(RevisionKind.APPLY, "machine")


@dataclass(frozen=True)
class ExpectedBullet:
    """A bullet as the sequential model knows it."""

    name: str
    content: str
    updated: int
    votes: frozenset[tuple[str, int, VoteTag]] = frozenset()

    def count_votes_of(self, tag: VoteTag) -> int:
        return sum(1 for vote in self.votes if vote[2] == tag)


@dataclass
class Model:
    """The sequential model: the list of bullets at every revision."""

    states: list[list[ExpectedBullet]] = field(default_factory=lambda: [[]])

    @property
    def now(self) -> list[ExpectedBullet]:
        return self.states[-1]

    @property
    def revision(self) -> int:
        return len(self.states) - 1


class PlaybookMachine(RuleBasedStateMachine):
    """Runs against a store that `new_store` opens; each subclass opens a store of its engine."""

    def new_store(self) -> SqlPlaybookStore:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = self.new_store()
        self.run(self.store.open())
        self.dataset = ""
        self.model = Model()
        self.names = itertools.count(1)
        self.requests: list[tuple[IdempotencyKey, Callable[[DatasetTransaction], bytes], bytes]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()

    datasets = itertools.count(1)

    @initialize()
    def begin(self) -> None:
        self.dataset = f"machine-{next(self.datasets)}"

    def apply(self, batch: EditBatch) -> CommitResult:
        done: list[CommitResult] = []
        number = len(self.requests)
        key = IdempotencyKey(f"{self.dataset}-{number}", "ApplyDeltas", b"%d" % number)

        def commit_batch(transaction: DatasetTransaction) -> bytes:
            done.append(commit(transaction, batch))
            return str(done[-1].revision).encode()

        answer = self.run(self.store.write(self.dataset, run_once(key, commit_batch)))
        self.requests.append((key, commit_batch, answer))
        return done[0]

    def edit(self, kind: DeltaType, bullet_id: str | None, content: str, base_revision: int | None) -> CommitResult:
        item = DeltaContextItem(type=kind, section="general", bullet_id=bullet_id, content=content, reasoning="")
        return self.apply(EditBatch(ORIGIN, [Proposal(item)], base_revision=base_revision))

    def put(self, bullets: list[ExpectedBullet]) -> None:
        self.model.states.append(bullets)

    @rule()
    def add(self) -> None:
        content = f"lesson {next(self.names)}"
        [operation] = self.edit("ADD", None, content, None).operations
        self.put([*self.model.now, ExpectedBullet(operation.bullet_id, content, self.model.revision + 1)])
        assert operation.applied

    @precondition(lambda self: self.model.now)
    @rule(data=st.data(), stale=st.booleans(), kind=st.sampled_from(["UPDATE", "DELETE"]))
    def change(self, data: st.DataObject, stale: bool, kind: DeltaType) -> None:
        target = data.draw(st.sampled_from(self.model.now))
        base_revision = data.draw(st.integers(0, self.model.revision)) if stale else None
        content = f"better {next(self.names)}"
        [operation] = self.edit(kind, target.name, content, base_revision).operations
        conflict = base_revision is not None and target.updated > base_revision
        assert (operation.applied, operation.conflict is not None) == (not conflict, conflict)
        if conflict:
            return
        changed = replace(target, content=content, updated=self.model.revision + 1)
        expected = [item for item in self.model.now if item is not target or kind == "UPDATE"]
        self.put([changed if item is target else item for item in expected])

    @precondition(lambda self: self.model.now)
    @rule(data=st.data(), tag=st.sampled_from(["helpful", "harmful", "neutral"]))
    def vote(self, data: st.DataObject, tag: VoteTag) -> None:
        target = data.draw(st.sampled_from(self.model.now))
        trajectory = data.draw(st.sampled_from(["run-a", "run-b"]))
        round_ = data.draw(st.integers(0, 1))
        known_ids = any(vote[:2] == (trajectory, round_) for vote in target.votes)
        done = self.apply(EditBatch(ORIGIN, votes=[Vote(target.name, tag, trajectory, round_)]))
        assert done.votes[0].applied != known_ids
        if not known_ids:
            voted = replace(target, votes=target.votes | {(trajectory, round_, tag)})
            self.put([voted if item is target else item for item in self.model.now])

    @precondition(lambda self: self.model.revision > 0)
    @rule(data=st.data())
    def go_back(self, data: st.DataObject) -> None:
        revision = data.draw(st.integers(0, self.model.revision))
        self.run(self.store.write(self.dataset, lambda transaction: restore(transaction, revision, ORIGIN)))
        now = {item.name: item for item in self.model.now}
        stamp = self.model.revision + 1
        self.put(
            [
                item
                if item.name in now
                and now[item.name].content == item.content
                and now[item.name].updated == item.updated
                else replace(item, updated=self._update_bullet(now.get(item.name), item, stamp))
                for item in self.model.states[revision]
            ]
        )

    @staticmethod
    def _update_bullet(now: ExpectedBullet | None, then: ExpectedBullet, stamp: int) -> int:
        """A bullet that says the same before and after a restoration was not updated by it."""
        return now.updated if now and now.content == then.content else stamp

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        key, work, answer = data.draw(st.sampled_from(self.requests))
        assert self.run(self.store.write(self.dataset, run_once(key, work))) == answer

    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.store = self.new_store()
        self.run(self.store.open())

    @invariant()
    def the_playbook_is_what_the_model_says(self) -> None:
        if not self.dataset:
            return
        snapshot = self.run(self.store.load(self.dataset))
        shown = [(bullet.id, bullet.content, bullet.helpful, bullet.harmful) for bullet in snapshot.bullet_list]
        assert shown == [
            (item.name, item.content, item.count_votes_of("helpful"), item.count_votes_of("harmful"))
            for item in self.model.now
        ]
        assert snapshot.revision == self.model.revision
        revisions = self.run(self.store.list_revisions_after(self.dataset, 0, snapshot.revision))
        changes = (change for revision in revisions for change in revision.changes)
        assert fold(changes) == dict(snapshot.slots)

    @precondition(lambda self: self.model.revision > 0)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        revision = data.draw(st.integers(0, self.model.revision))
        snapshot = self.run(self.store.load(self.dataset, revision))
        shown = [(bullet.id, bullet.content, bullet.helpful) for bullet in snapshot.bullet_list]
        assert shown == [
            (item.name, item.content, item.count_votes_of("helpful")) for item in self.model.states[revision]
        ]
