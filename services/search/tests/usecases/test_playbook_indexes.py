"""Playbook indexes: the capacity, and the cut-over to the index of another model."""

from __future__ import annotations

import asyncio
from typing import cast

from services.search.tests.usecases.world import world
from services.search.usecases.playbook_follower import PlaybookFollower
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


async def test_the_least_recently_used_playbook_is_evicted() -> None:
    async with world(capacity=2) as w:
        first = w.indexes.get_index("a")
        w.indexes.get_index("b")
        assert w.indexes.get_index("a") is first
        w.indexes.get_index("c")
        assert w.indexes.get_index("a") is first
        w.indexes.get_index("b")
        assert w.indexes.get_index("a") is first
