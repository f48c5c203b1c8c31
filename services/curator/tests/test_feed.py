"""The feed: every watcher gets every revision once and in order, also if it is slow or another process commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, cast

import pytest

from chassis.errors import Unavailable
from services.curator.adapters.feed import CACHED_CHANGES, RevisionFeed
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, Proposal
from services.curator.domain.errors import RevisionAhead, WatcherTooFarBehind
from services.curator.domain.log import Origin, Revision, RevisionKind
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.commit import EditBatch, commit
from services.curator.usecases.ports import PlaybookStore
from services.curator.usecases.watch import Progress, Watch

ORIGIN = Origin(RevisionKind.APPLY, "tester")


class CountingStore(SqlPlaybookStore):
    """A store that counts how often the log is read."""

    reads = 0

    async def list_revisions_after(self, dataset: str, revision: int, limit: int) -> list[Revision]:
        self.reads += 1
        return await super().list_revisions_after(dataset, revision, limit)


class FeedFixture:
    """A store with its feed, and watchers of dataset `d`."""

    def __init__(self, store: CountingStore, feed: RevisionFeed, watch: Watch) -> None:
        self.store = store
        self.feed = feed
        self.watch = watch
        self.lessons = 0

    async def commit(self, times: int = 1, size: int = 1) -> None:
        for _ in range(times):
            batch = EditBatch(ORIGIN, [self.lesson() for _ in range(size)])
            await self.store.write("d", partial(commit, batch=batch))

    def lesson(self) -> Proposal:
        self.lessons += 1
        content = f"lesson {self.lessons}"
        return Proposal(DeltaContextItem(type="ADD", section="s", content=content, reasoning=""))

    def events(self, start: int = 0, *, snapshot: bool = False) -> Any:
        return self.watch.events("d", start, snapshot=snapshot)

    async def revisions(self, count: int, start: int = 0) -> list[int]:
        seen: list[int] = []
        async with aclosing(self.events(start)) as events:
            async for event in events:
                if isinstance(event, Revision):
                    seen.append(event.number)
                if len(seen) == count:
                    break
        return seen


@pytest.fixture
async def fixture(database_url: str) -> AsyncIterator[FeedFixture]:
    store = CountingStore(database_url, on_commit=lambda revision: feed.publish(revision))
    feed = RevisionFeed(store, poll_seconds=3600)
    await store.open()
    yield FeedFixture(store, feed, Watch(store, feed, progress_seconds=30, max_lag=10))
    await store.close()


async def test_a_watcher_gets_stored_revisions_and_then_new_ones(fixture: FeedFixture) -> None:
    await fixture.commit(times=3)
    watcher = asyncio.create_task(fixture.revisions(6))
    await fixture.commit(times=3)
    assert await watcher == [1, 2, 3, 4, 5, 6]


async def test_five_hundred_watchers_cost_no_more_reads_than_one(fixture: FeedFixture) -> None:
    await fixture.commit(times=3)
    watchers = [asyncio.create_task(fixture.revisions(10)) for _ in range(500)]
    for _ in range(7):
        await fixture.commit()
    assert await asyncio.gather(*watchers) == [list(range(1, 11))] * 500
    assert fixture.store.reads <= 3


async def test_a_watcher_that_starts_behind_the_cache_reads_the_log(fixture: FeedFixture) -> None:
    await fixture.commit(times=4, size=CACHED_CHANGES // 2)
    assert await fixture.revisions(4) == [1, 2, 3, 4]


async def test_a_slow_watcher_misses_nothing(fixture: FeedFixture) -> None:
    await fixture.commit()
    async with aclosing(fixture.events()) as events:
        seen = [(await anext(events)).number]
        await fixture.commit(times=8, size=CACHED_CHANGES // 4)
        seen += [(await anext(events)).number for _ in range(8)]
    assert seen == list(range(1, 10))


async def test_a_watcher_too_far_behind_gets_the_revision_to_resume_from(fixture: FeedFixture) -> None:
    await fixture.commit()
    async with aclosing(fixture.events()) as events:
        assert (await anext(events)).number == 1
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await fixture.commit()
        assert (await waiting).number == 2
        await fixture.commit(times=12)
        with pytest.raises(WatcherTooFarBehind) as caught:
            await anext(events)
    resume = int(caught.value.metadata["resume_from_revision"])
    assert resume == 2
    assert await fixture.revisions(12, resume) == list(range(3, 15))


async def test_a_watcher_that_catches_up_is_not_ended(fixture: FeedFixture) -> None:
    await fixture.commit(times=30)
    assert await fixture.revisions(30) == list(range(1, 31))


async def test_a_snapshot_is_followed_by_later_revisions(fixture: FeedFixture) -> None:
    await fixture.commit(times=3)
    async with aclosing(fixture.events(snapshot=True)) as events:
        snapshot = await anext(events)
        assert isinstance(snapshot, Snapshot)
        assert (snapshot.revision, snapshot.bullets) == (3, 3)
        await fixture.commit()
        assert (await anext(events)).number == 4


async def test_a_feed_without_revisions_sends_progress(fixture: FeedFixture) -> None:
    await fixture.commit(times=2)
    quiet = Watch(fixture.store, fixture.feed, progress_seconds=0.01, max_lag=10)
    async with aclosing(quiet.events("d", 2, snapshot=False)) as events:  # type: ignore[type-var]
        assert [await anext(events) for _ in range(2)] == [Progress(2), Progress(2)]


async def test_the_feed_remembers_no_dataset_that_does_not_exist(fixture: FeedFixture) -> None:
    await fixture.commit()
    quiet = Watch(fixture.store, fixture.feed, progress_seconds=0.01, max_lag=10)
    for number in range(3):
        async with aclosing(quiet.events(f"missing-{number}", 0, snapshot=False)) as events:  # type: ignore[type-var]
            assert await anext(events) == Progress(0)
    assert list(fixture.feed._tails) == ["d"]


async def test_a_start_beyond_the_newest_revision_is_refused(fixture: FeedFixture) -> None:
    with pytest.raises(RevisionAhead):
        await anext(fixture.events(1))


async def test_commits_of_another_process_are_found_by_polling(fixture: FeedFixture, database_url: str) -> None:
    polls: asyncio.Queue[None] = asyncio.Queue()
    fixture.feed = RevisionFeed(fixture.store, poll_seconds=1, sleep=lambda _: polls.get())
    fixture.watch = Watch(fixture.store, fixture.feed, progress_seconds=30, max_lag=10)
    polling = asyncio.create_task(fixture.feed.poll())
    await fixture.commit()
    watcher = asyncio.create_task(fixture.revisions(3))
    other = FeedFixture(CountingStore(database_url), fixture.feed, fixture.watch)
    await other.store.open()
    other.lessons = 100
    await other.commit(times=2)
    while not watcher.done():
        polls.put_nowait(None)
        await asyncio.sleep(0)
    assert await watcher == [1, 2, 3]
    polling.cancel()
    await other.store.close()


async def test_polling_continues_after_an_outage_of_the_store() -> None:
    class Away:
        polls = 0

        async def list_heads(self) -> dict[str, int]:
            self.polls += 1
            if self.polls == 1:
                raise Unavailable("away")
            return {"d": 7}

    feed = RevisionFeed(cast(PlaybookStore, Away()), poll_seconds=1, sleep=lambda _: asyncio.sleep(0))
    polling = asyncio.create_task(feed.poll())
    assert await feed.wait("d", 0, seconds=30)
    assert feed.get_head("d") == 7
    polling.cancel()
