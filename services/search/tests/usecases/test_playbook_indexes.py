"""Playbook indexes: the limit of memory, and the cut-over to the index of another model."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from typing import cast

import pytest

from chassis.errors import ResourceExhausted
from services.search.domain.bullet import IndexedBullet
from services.search.domain.snapshot import IndexSnapshot
from services.search.tests.usecases.world import bullet, world
from services.search.usecases.playbook_follower import FOLLOWER_BYTES, PlaybookFollower
from services.search.usecases.playbook_indexes import PlaybookIndexes


class ScriptedFollower:
    """A follower whose revision the test sets."""

    dataset = "d"

    def __init__(self) -> None:
        self.revision = -1
        self.is_open = False

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_the_former_index_is_not_dropped_before_its_snapshot_is_loaded() -> None:
    former, new = ScriptedFollower(), ScriptedFollower()
    indexes = PlaybookIndexes(lambda _: cast(PlaybookFollower, new), 1, lambda _: cast(PlaybookFollower, former))

    def current_index() -> object:
        return indexes.get_index("d")

    new.revision = 0  # of an empty playbook, before the former index has read its content
    assert current_index() is former
    former.is_open, former.revision = True, 3
    assert current_index() is former
    new.revision = 3
    assert current_index() is new
    assert current_index() is new
    await indexes.close()


async def test_an_empty_former_index_is_dropped_at_once() -> None:
    former, new = ScriptedFollower(), ScriptedFollower()
    indexes = PlaybookIndexes(lambda _: cast(PlaybookFollower, new), 1, lambda _: cast(PlaybookFollower, former))
    former.is_open = True
    assert cast(object, indexes.get_index("d")) is former
    new.revision = 0
    assert cast(object, indexes.get_index("d")) is new
    await indexes.close()


async def test_the_least_recently_used_playbooks_are_evicted_beyond_the_limit_of_memory() -> None:
    async with world(memory_limit=int(3.5 * FOLLOWER_BYTES)) as w:
        w.feed.add(bullet("b1", "some text"))
        opened = {dataset: w.indexes.get_index(dataset) for dataset in "abc"}
        for index in opened.values():
            await index.wait_for_revision(1, None)
        await w.indexes.evict()
        assert w.indexes.evictions == 0  # they fit
        assert w.indexes.count_memory() > 3 * FOLLOWER_BYTES
        assert w.indexes.get_index("a") is opened["a"]
        opened["d"] = w.indexes.get_index("d")
        await w.indexes.evict()
        assert w.indexes.evictions == 1
        assert [index.dataset for index in w.indexes.list_current()] == ["c", "a", "d"]
        assert (w.indexes.hits, w.indexes.misses) == (1, 4)

        restored = w.indexes.get_index("b")
        assert restored is not opened["b"]
        w.feed.failures.append(ConnectionError("the feed is away"))
        await restored.wait_for_revision(1, None)
        assert restored.bullets == 1  # from its snapshot


async def test_an_index_that_a_call_waits_for_is_not_evicted_and_one_is_always_followed() -> None:
    async with world(memory_limit=1) as w:
        waiting = asyncio.create_task(w.indexes.get_index("a").wait_for_revision(1, None))
        w.indexes.get_index("b")
        await asyncio.sleep(0)
        last = w.indexes.get_index("c")
        await w.indexes.evict()
        assert [index.dataset for index in w.indexes.list_current()] == ["a", "c"]
        w.feed.add(bullet("b1", "some text"))
        await waiting
        await w.indexes.evict()
        assert w.indexes.list_current() == [last]


async def test_the_limit_is_enforced_when_a_playbook_is_opened() -> None:
    async with world(memory_limit=1) as w:
        evicting = asyncio.create_task(w.indexes.run_eviction())
        for dataset in "abcdef":
            w.indexes.get_index(dataset)
            await asyncio.sleep(0.01)
        evicting.cancel()
        assert [index.dataset for index in w.indexes.list_current()] == ["f"]


async def test_a_failed_eviction_is_repeated_with_the_next_playbook(monkeypatch: pytest.MonkeyPatch) -> None:
    save, errors = PlaybookFollower.save, [ResourceExhausted("worker pool queue is full")]

    async def fail_once(follower: PlaybookFollower) -> None:
        if errors:
            raise errors.pop()
        await save(follower)

    monkeypatch.setattr(PlaybookFollower, "save", fail_once)
    async with world(memory_limit=1) as w:
        evicting = asyncio.create_task(w.indexes.run_eviction())
        for dataset in "abc":
            w.indexes.get_index(dataset)
            await asyncio.sleep(0.01)
        assert not evicting.done()
        evicting.cancel()
        assert [index.dataset for index in w.indexes.list_current()] == ["c"]


async def test_two_evictions_at_once_drop_an_index_once() -> None:
    async with world(memory_limit=1) as w:
        w.feed.add(bullet("b1", "some text"))
        for dataset in "abc":
            await w.indexes.get_index(dataset).wait_for_revision(1, None)
        await asyncio.gather(w.indexes.evict(), w.indexes.evict())
        assert w.indexes.evictions == 2
        assert [index.dataset for index in w.indexes.list_current()] == ["c"]


async def test_an_idle_index_is_released_if_another_replica_is_the_first_owner() -> None:
    clock = [0.0]
    owned = {"a", "b", "c"}
    async with world(is_first_owner=owned.__contains__, release_seconds=300, now=lambda: clock[0]) as w:
        w.feed.add(bullet("b1", "some text"))
        for dataset in "abc":
            await w.indexes.get_index(dataset).wait_for_revision(1, None)
        clock[0] = 300
        await w.indexes.release()
        assert w.indexes.releases == 0  # it owns all of them
        owned -= {"b", "c"}
        w.indexes.get_index("c")
        await w.indexes.release()
        assert [index.dataset for index in w.indexes.list_current()] == ["a", "c"]  # c is still used
        clock[0] = 599
        await w.indexes.release()
        assert w.indexes.releases == 1
        clock[0] = 600
        await w.indexes.release()
        assert [index.dataset for index in w.indexes.list_current()] == ["a"]
        assert (w.indexes.releases, w.indexes.evictions) == (2, 0)

        w.feed.failures.append(ConnectionError("the feed is away"))
        restored = w.indexes.get_index("b")
        await restored.wait_for_revision(1, None)
        assert restored.bullets == 1  # from the snapshot that was saved before the release


async def test_an_index_that_is_used_while_it_is_saved_or_awaited_is_not_released() -> None:
    async with world(is_first_owner=lambda dataset: False, release_seconds=0) as w:
        w.feed.add(bullet("b1", "some text"))
        await w.indexes.get_index("a").wait_for_revision(1, None)
        waiting = asyncio.create_task(w.indexes.get_index("b").wait_for_revision(2, None))
        loop, save = asyncio.get_running_loop(), w.snapshots.save

        def save_while_used(dataset: str, snapshot: IndexSnapshot[IndexedBullet]) -> None:
            loop.call_soon_threadsafe(w.indexes.get_index, dataset)
            save(dataset, snapshot)

        w.snapshots.save = save_while_used  # type: ignore[method-assign]
        await w.indexes.release()
        assert w.indexes.releases == 0
        assert w.snapshots.snapshots.keys() == {"a"}
        w.feed.add(bullet("b2", "more text"))
        await waiting
        w.snapshots.save = save  # type: ignore[method-assign]
        await w.indexes.release()
        assert w.indexes.list_current() == []


async def test_released_indexes_are_free_when_memory_is_returned_to_the_system() -> None:
    references: list[weakref.ref[object]] = []
    freed: list[tuple[list[str], int]] = []

    async def free_memory(datasets: Sequence[str]) -> None:
        freed.append((list(datasets), sum(reference() is not None for reference in references)))

    async with world(is_first_owner=lambda dataset: False, release_seconds=0, free_memory=free_memory) as w:
        w.feed.add(bullet("b1", "some text"))
        gc.disable()  # a collection in a process with many objects is rare
        try:
            for dataset in "abc":
                await w.indexes.get_index(dataset).wait_for_revision(1, None)
            references += [weakref.ref(index) for index in w.indexes.list_current()]
            references += [weakref.ref(index._index) for index in w.indexes.list_current()]
            await w.indexes.release()
        finally:
            gc.enable()
    assert freed == [(["a", "b", "c"], 0)]
