"""Playbook indexes: the limit of memory, and the cut-over to the index of another model."""

from __future__ import annotations

import asyncio
from typing import cast

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
