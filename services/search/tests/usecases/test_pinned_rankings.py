"""Rankings that are read page by page."""

from __future__ import annotations

import numpy as np
import pytest

from services.search.domain.collection_errors import PageExpired
from services.search.domain.query import Ranking, Results
from services.search.usecases.pinned_rankings import PageCursor, PinnedRankings
from services.search.usecases.rank_entries import RankingResponse


class MovingIndex:
    """An index whose revision and results the test changes."""

    def __init__(self) -> None:
        self.revision = 1
        self.calls = 0

    async def __call__(self) -> RankingResponse[int]:
        self.calls += 1
        items = range(self.revision * 10, self.revision * 10 + 7)
        return RankingResponse(Ranking(Results(items, np.zeros((5, 7)))), self.revision, "m")


async def pages(pinned: PinnedRankings[int], ranked: MovingIndex, *, move: bool = False) -> list[list[int]]:
    found: list[list[int]] = []
    cursor: PageCursor | None = None
    while True:
        page = await pinned.get_page(3, cursor, ranked)
        found.append([scored.item for scored in page.results])
        ranked.revision += move
        if (cursor := page.next_cursor) is None:
            return found


async def test_pages_show_the_first_page_s_ranking_even_when_the_index_moves() -> None:
    pinned, ranked = PinnedRankings[int](), MovingIndex()
    assert await pages(pinned, ranked, move=True) == [[10, 11, 12], [13, 14, 15], [16]]
    assert ranked.calls == 1


async def test_without_a_page_size_everything_comes_at_once_and_nothing_is_kept() -> None:
    page = await PinnedRankings[int]().get_page(0, None, MovingIndex())
    assert (len(page.results), page.next_cursor) == (7, None)


async def test_a_ranking_that_is_gone_is_made_again_while_the_index_stands() -> None:
    ranked = MovingIndex()
    first = await PinnedRankings[int]().get_page(3, None, ranked)
    another_replica = PinnedRankings[int]()
    second = await another_replica.get_page(3, first.next_cursor, ranked)
    assert [scored.item for scored in second.results] == [13, 14, 15]
    ranked.revision = 2
    third = await another_replica.get_page(3, second.next_cursor, ranked)
    assert [scored.item for scored in third.results] == [16]
    with pytest.raises(PageExpired, match="begin a new search"):
        await PinnedRankings[int]().get_page(3, second.next_cursor, ranked)


async def test_the_oldest_rankings_go_when_too_many_results_are_kept() -> None:
    pinned, ranked = PinnedRankings[int](max_results=15), MovingIndex()
    cursors = [(await pinned.get_page(3, None, ranked)).next_cursor for _ in range(3)]
    ranked.revision = 2
    with pytest.raises(PageExpired):
        await pinned.get_page(3, cursors[0], ranked)
    for cursor in cursors[1:]:
        assert (await pinned.get_page(3, cursor, ranked)).results[0].item == 13
