"""Drop old revisions from the log: what is retained stays exact, and what is gone is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from services.curator.adapters.feed import RevisionFeed
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, DeltaType, Proposal
from services.curator.domain.errors import RevisionDropped
from services.curator.domain.log import Origin, Revision, RevisionKind
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.commit import EditBatch, commit
from services.curator.usecases.restore import restore
from services.curator.usecases.watch import Watch

ORIGIN = Origin(RevisionKind.APPLY, "ann", request_id="r")
DAY = timedelta(days=1)


class Clock:
    now = datetime(2026, 5, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(database_url: str, clock: Clock) -> AsyncIterator[SqlPlaybookStore]:
    """Yield a store with one revision a day: additions, edits and removals of bullets."""
    store = SqlPlaybookStore(database_url, clock=clock)
    await store.open()
    for kind, bullet_id, content in (
        ("ADD", None, "one"),
        ("ADD", None, "two"),
        ("UPDATE", "s-00001", "one again"),
        ("ADD", None, "three"),
        ("DELETE", "s-00002", ""),
        ("UPDATE", "s-00001", "one at last"),
        ("DELETE", "s-00003", ""),
        ("ADD", None, "four"),
    ):
        await edit(store, kind, bullet_id, content)  # type: ignore[arg-type]
        clock.now += DAY
    yield store
    await store.close()


async def edit(store: SqlPlaybookStore, kind: DeltaType, bullet_id: str | None, content: str) -> None:
    delta = DeltaContextItem(type=kind, section="s", bullet_id=bullet_id, content=content, reasoning="why")
    done = await store.write("d", lambda transaction: commit(transaction, EditBatch(ORIGIN, [Proposal(delta)])))
    assert [operation.applied for operation in done.operations] == [True]


def texts(snapshot: Snapshot) -> list[str]:
    return [bullet.content for bullet in snapshot.bullet_list]


async def test_retained_snapshots_and_changes_stay_exact_and_older_ones_are_named(store: SqlPlaybookStore) -> None:
    before = {number: texts(await store.load("d", number)) for number in range(9)}
    history = await store.list_revisions("d", None, 100)
    assert await store.drop_old_revisions(4 * DAY) == 3
    assert {number: texts(await store.load("d", number)) for number in (0, *range(4, 9))} == {
        number: content for number, content in before.items() if number == 0 or number > 3
    }
    assert await store.list_revisions("d", None, 100) == history[:5]
    for number in (1, 2, 3):
        with pytest.raises(RevisionDropped, match="the first retained revision is 4"):
            await store.load("d", number)
    assert await store.drop_old_revisions(4 * DAY) == 0
    assert await store.drop_old_revisions(DAY / 2) == 4
    assert texts(await store.load("d")) == before[8]
    await edit(store, "UPDATE", "s-00001", "one more")
    assert texts(await store.load("d")) == ["one more", "four"]


async def test_a_restoration_beyond_the_log_is_refused_and_one_within_it_is_exact(store: SqlPlaybookStore) -> None:
    expected = texts(await store.load("d", 5))
    await store.drop_old_revisions(4 * DAY)
    for number in (0, 3):
        with pytest.raises(RevisionDropped):
            await store.write("d", lambda transaction, number=number: restore(transaction, number, ORIGIN))  # type: ignore[misc]
    await store.write("d", lambda transaction: restore(transaction, 5, ORIGIN))
    assert texts(await store.load("d")) == expected


async def test_a_watcher_from_before_the_log_gets_a_snapshot(store: SqlPlaybookStore) -> None:
    await store.drop_old_revisions(4 * DAY)
    feed = RevisionFeed(store, 1)
    watch = Watch(store, feed, 0.01, 100)

    async def first_events(from_revision: int, count: int) -> list[tuple[type, int]]:
        events = watch.events("d", from_revision, snapshot=False)
        found = []
        async for event in events:
            found.append((type(event), event.number if isinstance(event, Revision) else event.revision))
            if len(found) == count:
                break
        await events.aclose()  # type: ignore[attr-defined]
        return found

    assert await first_events(1, 1) == [(Snapshot, 8)]
    assert await first_events(3, 2) == [(Revision, 4), (Revision, 5)]


async def test_a_deleted_dataset_begins_a_new_log(store: SqlPlaybookStore) -> None:
    await store.drop_old_revisions(4 * DAY)
    deletion = Origin(RevisionKind.DELETE, "ann", request_id="x")
    await store.write("d", lambda transaction: transaction.delete_contents(deletion))
    await edit(store, "ADD", None, "new")
    assert texts(await store.load("d")) == ["new"]
