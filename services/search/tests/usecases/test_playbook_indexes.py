"""Which indexes of playbooks are kept, and which answers while another model's is taking its place."""

from __future__ import annotations

import asyncio
from typing import cast

from services.search.tests.usecases.world import world
from services.search.usecases.follow_playbook import FollowedPlaybook
from services.search.usecases.playbook_indexes import PlaybookIndexes


class Standing:
    """A followed playbook that stands where it is put."""

    dataset = "d"

    def __init__(self) -> None:
        self.revision = -1
        self.opened = False

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_the_former_index_is_not_given_up_before_its_snapshot_was_looked_for() -> None:
    former, new = Standing(), Standing()
    indexes = PlaybookIndexes(lambda _: cast(FollowedPlaybook, new), 1, lambda _: cast(FollowedPlaybook, former))

    def answering() -> object:
        return indexes.of("d")

    new.revision = 0  # of an empty playbook, before the former one has read what it holds
    assert answering() is former
    former.opened, former.revision = True, 3
    assert answering() is former
    new.revision = 3
    assert answering() is new
    assert answering() is new
    await indexes.close()


async def test_a_former_index_that_holds_nothing_makes_way_at_once() -> None:
    former, new = Standing(), Standing()
    indexes = PlaybookIndexes(lambda _: cast(FollowedPlaybook, new), 1, lambda _: cast(FollowedPlaybook, former))
    former.opened = True
    assert cast(object, indexes.of("d")) is former
    new.revision = 0
    assert cast(object, indexes.of("d")) is new
    await indexes.close()


async def test_the_playbook_asked_for_longest_ago_makes_room() -> None:
    async with world(most=2) as w:
        first = w.indexes.of("a")
        w.indexes.of("b")
        assert w.indexes.of("a") is first
        w.indexes.of("c")
        assert w.indexes.of("a") is first
        w.indexes.of("b")
        assert w.indexes.of("a") is first
