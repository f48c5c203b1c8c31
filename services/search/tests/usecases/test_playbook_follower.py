"""The index follows its playbook, through gaps, breaks and failing embedders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from chassis.errors import Unavailable
from chassis.feed_retries import QUIET_SECONDS
from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from services.search.domain.errors import PlaybookUnreachable, RevisionNotReached, WrongVector
from services.search.domain.feed import BulletChange, CommittedRevision
from services.search.domain.query import SearchQuery
from services.search.domain.tokenizers import tokenize_whitespace
from services.search.domain.vector_weight import VectorWeight
from services.search.tests.usecases.world import LengthModel, Memory, MemorySnapshots, bullet, world
from services.search.usecases.playbook_indexes import PlaybookIndexes
from services.search.usecases.rank_entries import QueryVector, RankEntries, RankingRequest
from services.search.usecases.search_playbook import SearchPlaybook


async def eventually(condition: Callable[[], bool]) -> None:
    """Only a failing test waits for this time: threads may be slow on a busy machine."""
    clock = asyncio.get_running_loop().time
    until = clock() + 20
    while clock() < until:
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def test_readers_wait_for_the_revision_that_they_wrote() -> None:
    async with world() as w:
        assert await w.find_ids() == []
        w.feed.add(bullet("a"), bullet("b"))
        w.feed.add(bullet("a", "also"), bullet("c"))
        w.feed.commit(BulletChange("b", None, 1))
        assert await w.find_ids(min_revision=3, top_k=5, min_confidence=0) == ["a", "c"]
        assert w.indexes.get_index("d").revision == 3


async def test_of_two_calls_at_once_one_saves_the_snapshot() -> None:
    async with world() as w:
        w.feed.add(bullet("a"))
        index = w.indexes.get_index("d")
        await index.wait_for_revision(1, None)
        await asyncio.gather(index.save(), index.save())
        assert w.snapshots.saved == ["d"]


async def test_the_error_names_a_revision_that_is_never_reached() -> None:
    async with world() as w:
        await w.find_ids()
        w.remaining = 0.0
        with pytest.raises(RevisionNotReached, match="d stands at revision 0, revision 7 did not arrive"):
            await w.find_ids(min_revision=7)


async def test_a_broken_feed_is_followed_again_from_where_it_broke() -> None:
    async with world() as w:
        w.feed.add(bullet("a"))
        assert await w.find_ids() == ["a"]
        w.feed.failures = [Unavailable("gone"), Unavailable("still gone")]
        w.feed.add(bullet("b"))
        assert await w.find_ids(min_revision=1) == ["a"]
        w.remaining = 1.0
        await eventually(lambda: w.indexes.get_index("d").revision == 2)
        assert await w.find_ids(min_revision=2) == ["a", "b"]
        assert w.feed.watches == [None, 1, 1]
        assert w.indexes.get_index("d").error is None
        assert w.pauses == [0.1, 0.2]


async def test_a_feed_that_a_restart_interrupts_is_no_warning_and_an_outage_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    async with world() as w:
        w.feed.failures = [Unavailable("away")] * 17
        w.feed.add(bullet("a"))
        w.indexes.get_index("d")
        await eventually(lambda: w.indexes.get_index("d").revision == 1)
    levels = [record.levelname for record in caplog.records if record.message.startswith("feed failed")]
    assert levels == ["DEBUG"] * 16 + ["WARNING"]  # 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 11 * 2.5 s
    assert sum(w.pauses[:15]) < QUIET_SECONDS <= sum(w.pauses[:16])


async def test_a_feed_that_never_starts_is_unavailable() -> None:
    async with world() as w:
        w.feed.failures = [Unavailable("no route")] * 1000
        with pytest.raises(PlaybookUnreachable, match="cannot follow the changes of playbook d: no route") as caught:
            await w.find_ids()
        assert caught.value.retry_after


async def test_a_bug_is_logged_and_the_index_is_rebuilt(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        w.feed.add(bullet("a"))
        assert await w.find_ids() == ["a"]
        w.feed.failures = [ValueError("read-only"), ValueError("still read-only")]
        w.feed.add(bullet("b"))
        with pytest.raises(PlaybookUnreachable, match=r"the index failed \(ValueError\)"):
            await w.find_ids(min_revision=2)
        await eventually(lambda: w.indexes.get_index("d").revision == 2)
        assert await w.find_ids(min_revision=2) == ["a", "b"]
        assert w.feed.watches == [None, None, None]
    assert "rebuilding it from the feed dataset=d revision=1" in caplog.text


async def test_an_unusable_snapshot_is_ignored(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(dataset: str) -> None:
        raise ValueError(f"{dataset} is of another time")

    async with world() as w:
        monkeypatch.setattr(w.snapshots, "load", unreadable)
        w.feed.add(bullet("a"))
        assert await w.find_ids(min_revision=1) == ["a"]
    assert "snapshot could not be loaded; building the index from the playbook dataset=d" in caplog.text


async def test_after_a_gap_the_feed_restarts_with_a_snapshot() -> None:
    async with world() as w:
        w.feed.add(bullet("a"))
        await w.find_ids()
        sent = iter([CommittedRevision(4, ())])
        w.feed.sends = lambda event: next(sent, event)
        w.feed.add(bullet("b"))
        assert await w.find_ids(min_revision=2) == ["a", "b"]
        assert w.feed.watches == [None, None]


async def test_after_lost_revisions_the_index_is_rebuilt() -> None:
    async with world() as w:
        w.feed.add(bullet("a"))
        w.feed.add(bullet("b"))
        await w.find_ids()
        w.feed.failures = [Unavailable("restarting")]
        w.feed.log, w.feed.bullets = [], []
        w.feed.add(bullet("c"))
        await eventually(lambda: len(w.feed.watches) == 2)
        await eventually(lambda: w.indexes.get_index("d").revision == 1)
        assert await w.find_ids() == ["c"]
        assert w.feed.watches == [None, 2]


async def test_a_text_that_cannot_be_embedded_holds_the_index_at_the_last_whole_revision() -> None:  # S-43
    async with world() as w:
        w.feed.add(bullet("a"))
        await w.find_ids("query")
        w.model.fails = ConnectionError("refused")
        w.feed.add(bullet("b", "new text"))
        with pytest.raises(EmbeddingFailed, match=r"^Embedding failed: refused$") as caught:
            await w.find_ids("query", min_revision=2)
        assert caught.value.retry_after
        assert await w.find_ids("query") == ["a"]  # its vector is remembered
        with pytest.raises(EmbeddingFailed, match=r"^Embedding failed: refused$"):
            await w.find_ids("another query")
        w.model.fails = None
        await eventually(lambda: w.indexes.get_index("d").revision == 2)
        assert await w.find_ids("query", min_revision=2) == ["a", "b"]


async def test_votes_embed_nothing_again() -> None:  # S-17
    async with world() as w:
        w.feed.add(bullet("a", "text"))
        w.feed.add(bullet("a", "text", helpful=1, harmful=3))
        assert await w.find_ids(min_revision=2) == []
        assert w.model.embedded == ["text"]


async def test_retired_bullets_keep_their_position_and_are_not_found() -> None:
    async with world() as w:
        w.feed.add(bullet("a"), bullet("b"), bullet("c"))
        w.feed.add(bullet("a", is_served=False))
        assert await w.find_ids(min_revision=2) == ["b", "c"]
        w.feed.add(bullet("a"))
        w.feed.commit(BulletChange("x", bullet("x"), 1))
        assert await w.find_ids(min_revision=4) == ["a", "x", "b", "c"]


async def test_a_restored_bullet_returns_to_its_position() -> None:  # S-13, S-33
    async with world() as w:
        w.feed.add(*(bullet(f"b{i}") for i in range(6)))
        w.feed.commit(BulletChange("b1", None, 1), BulletChange("b4", None, 4))
        w.feed.commit(BulletChange("b1", bullet("b1"), 1), BulletChange("b4", bullet("b4"), 4))
        assert await w.find_ids(min_revision=3) == [f"b{i}" for i in range(6)]


async def test_large_revisions_are_written_as_one() -> None:
    async with world() as w:
        w.feed.add(*(bullet(f"b{i}") for i in range(100)))
        assert await w.find_ids(min_revision=1, top_k=200) == [f"b{i}" for i in range(100)]


async def test_a_restart_continues_from_the_snapshot() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "one"), bullet("b", "two"), bullet("c", "tri"))
        w.feed.add(bullet("b", "two", is_served=False))
        assert await w.find_ids("one", min_revision=2) == ["a", "c"]
        await w.indexes.save()
        await w.indexes.close()
        w.feed.add(bullet("d", "one"))
        w.feed.commit(BulletChange("c", None, 2))
        w.embedder = TextEmbedder(w.model, Memory())
        w.model.embedded.clear()
        w.feed.watches.clear()
        assert await w.find_ids("one", min_revision=4) == ["a", "d"]
        assert w.feed.watches == [2]
        assert w.model.embedded == ["one", "one"]  # of the new bullet, and of the query
        w.feed.add(bullet("b", "two"))
        assert await w.find_ids("two", min_revision=5, top_k=1) == ["b"]


async def test_a_store_that_was_replaced_while_search_was_down_is_noticed() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "one"), bullet("b", "two"))
        await w.find_ids()
        await w.indexes.save()
        await w.indexes.close()
        w.feed.log, w.feed.bullets = [], []
        w.feed.add(bullet("b", "two"), bullet("c", "four"))
        w.embedder = TextEmbedder(w.model, Memory())
        w.model.embedded.clear()
        await w.find_ids("q")
        await eventually(lambda: w.indexes.get_index("d").last_event_at is not None)
        assert sorted(await w.find_ids("q")) == ["b", "c"]
        assert sorted(w.model.embedded) == ["four", "q"]


async def test_a_snapshot_is_kept_once_for_each_revision() -> None:
    async with world() as w:
        w.feed.add(bullet("a"))
        await w.find_ids()
        await w.indexes.save()
        snapshot = w.snapshots.snapshots["d"]
        await w.indexes.save()
        assert w.snapshots.snapshots["d"] is snapshot
        assert (snapshot.revision, snapshot.order) == (1, ["a"])


async def test_the_index_of_another_model_answers_until_the_new_one_is_complete() -> None:
    async with world() as w:
        w.feed.add(bullet("a", "one"))
        assert await w.find_ids(min_revision=1) == ["a"]
        await w.indexes.save()
        await w.indexes.close()

        newer = LengthModel()
        newer.model_id, newer.fails = "newer", EmbeddingFailed("not yet")
        former, snapshots = w.embedder, w.snapshots
        w.embedder, w.snapshots = TextEmbedder(newer, Memory()), MemorySnapshots()
        w.indexes = PlaybookIndexes(w.follow, 10, lambda dataset: w.follow(dataset, former, snapshots))
        rank = RankEntries(w.embedder, tokenize_whitespace, VectorWeight(0.5), "minmax", w.pool)
        w.search = SearchPlaybook(w.indexes, rank, lambda: None)
        vector = QueryVector("newer", np.ones(2, np.float32))
        for revision, name in enumerate("bc", 2):
            w.feed.add(bullet(name, "one"))
            (response,) = await w.search("d", [RankingRequest(SearchQuery("one"))], revision)
            assert (len(response.ranking.results), response.model) == (revision, "lengths")
            with pytest.raises(WrongVector, match="but the index by 'lengths'"):
                await w.search("d", [RankingRequest(SearchQuery("one"), vector=vector)], revision)
        newer.fails = None
        await eventually(lambda: w.indexes.get_index("d").embedder is w.embedder)
        (response,) = await w.search("d", [RankingRequest(SearchQuery("one"))], 3)
        assert (len(response.ranking.results), response.model) == (3, "newer")
        w.feed.add(bullet("d", "one"))
        (response,) = await w.search("d", [RankingRequest(SearchQuery("one"))], 4)
        assert (len(response.ranking.results), response.model) == (4, "newer")
