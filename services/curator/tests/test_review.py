"""Changes that nobody decides: they expire, are counted as expired, and can no longer be approved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event

from services.curator.adapters.sql import queries
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, Proposal
from services.curator.domain.errors import PendingChangeDecided
from services.curator.domain.log import Origin, RevisionKind
from services.curator.domain.policy import Policy, ReviewMode
from services.curator.domain.review import PendingState
from services.curator.usecases.commit import EditBatch, commit
from services.curator.usecases.review import ReviewDecision, decide

PROPOSER, REVIEWER = Origin(RevisionKind.APPLY, "agent", request_id="r"), Origin(RevisionKind.REVIEW, "ann", "fine")
ADD = Proposal(DeltaContextItem(type="ADD", section="general", bullet_id=None, content="text", reasoning="why"))


class Clock:
    now = datetime(2026, 5, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(database_url: str, clock: Clock) -> AsyncIterator[SqlPlaybookStore]:
    policy = Policy(ReviewMode.REVIEW, pending_lifetime=timedelta(days=3))
    store = SqlPlaybookStore(database_url, policy=policy, clock=clock)
    await store.open()
    yield store
    await store.close()


async def propose_change(store: SqlPlaybookStore) -> str:
    """Return the id of a change that waits."""
    await store.write("d", lambda transaction: commit(transaction, EditBatch(PROPOSER, [ADD])))
    [change] = await store.list_pending_changes("d", [PendingState.WAITING], "", 10)
    return change.id


async def test_undecided_changes_expire_and_are_counted(store: SqlPlaybookStore, clock: Clock) -> None:
    waiting = await propose_change(store)
    clock.now += timedelta(days=3) - timedelta(microseconds=1)
    assert await store.expire_pending() == 0
    assert await store.count_pending_changes() == {PendingState.WAITING: 1}
    clock.now += timedelta(microseconds=1)
    assert await store.expire_pending() == 1
    assert await store.count_pending_changes() == {PendingState.EXPIRED: 1}
    with pytest.raises(PendingChangeDecided, match="is already expired"):
        await store.write("d", lambda transaction: decide(transaction, [waiting], ReviewDecision.APPROVE, REVIEWER))


async def test_a_change_that_is_decided_while_others_expire_keeps_its_decision(
    store: SqlPlaybookStore, clock: Clock
) -> None:
    await propose_change(store)
    clock.now += timedelta(days=4)

    def decide_first(connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        """Approve the change, as another curator may between the two statements."""
        if statement.startswith("UPDATE pending"):
            cursor.execute("UPDATE pending SET state = 'approved'")

    def expire(connection: Connection) -> int:
        event.listen(connection, "before_cursor_execute", decide_first)
        try:
            return queries.expire_pending(connection, clock.now)
        finally:
            event.remove(connection, "before_cursor_execute", decide_first)

    assert await store.database.write(expire) == 0
    assert await store.count_pending_changes() == {PendingState.APPROVED: 1}


async def test_a_change_that_expired_unnoticed_is_not_applied(store: SqlPlaybookStore, clock: Clock) -> None:
    waiting = await propose_change(store)
    clock.now += timedelta(days=4)
    decided = await store.write(
        "d", lambda transaction: decide(transaction, [waiting], ReviewDecision.APPROVE, REVIEWER)
    )
    assert [change.state for change in decided.changes] == [PendingState.EXPIRED]
    assert decided.revision == 0
    assert (await store.load("d")).bullet_list == []


async def test_a_change_that_is_approved_in_time_is_applied(store: SqlPlaybookStore, clock: Clock) -> None:
    waiting = await propose_change(store)
    clock.now += timedelta(days=2)
    decided = await store.write(
        "d", lambda transaction: decide(transaction, [waiting], ReviewDecision.APPROVE, REVIEWER)
    )
    assert [change.state for change in decided.changes] == [PendingState.APPROVED]
    assert [bullet.content for bullet in (await store.load("d")).bullet_list] == ["text"]
