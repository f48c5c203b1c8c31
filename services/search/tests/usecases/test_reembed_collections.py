"""Collections of another model are embedded anew in the background."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s
from libs.embedding.remote import STRICTEST
from services.search.adapters.sql.repository import CollectionRepository, collection_database
from services.search.domain.chunking import Chunking, Span
from services.search.domain.collection import Backend, Collection, CutDocument, Document, Writing
from services.search.domain.collection_errors import RETRY_AFTER_SECONDS, EmbedderChanged
from services.search.domain.query import SearchQuery
from services.search.usecases.chunk_index import ChunkIndex
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.cut_documents import CutDocuments
from services.search.usecases.embedders import Embedders
from services.search.usecases.ports import CollectionStore
from services.search.usecases.reembed_collections import PAUSE_SECONDS, ReembedCollections
from services.search.usecases.search_collection import SearchCollection
from services.search.usecases.search_playbook import Ask, RankEntries


class Embedder:
    """Gives the length of a text; `before` happens first."""

    model_id, trust, only_latin, thresholds = "new", 1.0, False, STRICTEST

    def __init__(self) -> None:
        self.before: list[Callable[[], Awaitable[object]]] = []
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        if self.before:
            await self.before.pop(0)()
        self.texts += texts
        return np.array([[len(text), 1.0] for text in texts], np.float32)


class NothingKnown:
    async def get(self, model: str, hashes: Sequence[bytes]) -> Mapping[bytes, Float32s]:
        return {}

    async def put(self, model: str, vectors: Mapping[bytes, Float32s]) -> None: ...


class Index:
    """An index that takes whatever comes, and counts."""

    def __init__(self) -> None:
        self.revision = 0
        self.held: dict[str, int] = {}

    async def open(self) -> None: ...

    async def chunks(self) -> int:
        return sum(self.held.values())

    async def take(self, writings: Sequence[Writing]) -> None:
        self.held |= {writing.document_id: len(writing.spans) for writing in writings}
        self.revision = writings[-1].revision

    async def clear(self) -> None:
        self.revision, self.held = 0, {}


class World:
    def __init__(self, store: CollectionRepository) -> None:
        self.store = store
        self.embedder = Embedder()
        self.made: dict[str, Index] = {}
        self.pauses: list[float] = []

    async def run(self, store: CollectionStore | None = None) -> None:
        indexes = CollectionIndexes(self.store, self._index, 10)
        embed = TextEmbedder(self.embedder, NothingKnown())
        await ReembedCollections(store or self.store, indexes, embed, self._sleep)()

    async def put(self, *names: str, to: str = "c") -> Collection:
        collection = await self.store.create(to, Backend.HYBRID, Chunking(), "old")
        documents = [Document(name, f"text of {name}") for name in names]
        cut = [CutDocument(d, d.digest, [Span(0, len(d.text))], np.ones((1, 5), np.float32)) for d in documents]
        return (await self.store.write(collection, cut)).collection

    def _index(self, collection: Collection) -> ChunkIndex:
        return cast(ChunkIndex, self.made.setdefault(collection.key, Index()))

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = collection_database(str(tmp_path / "search.db"))
    await database.open()
    yield World(CollectionRepository(database))
    await database.close()


async def test_all_collections_change_over_with_an_index_that_is_ready(world: World) -> None:
    for name in ("c", "d"):
        await world.put("a", "b", to=name)
    await world.put(to="empty")
    await world.run()
    for collection in await world.store.page("", 10):
        assert collection.model == "new"
        assert (index := world.made[collection.key]).revision == collection.revision
        assert await index.chunks() == collection.chunks
    assert world.embedder.texts == ["text of a", "text of b"]  # each text once, S-17
    writings = await world.store.writings(await world.store.get("d"), 0)
    vectors = [w.vectors[0].tolist() for w in writings if w.vectors is not None]
    assert vectors == [pytest.approx([0.99388, 0.11043], abs=1e-5)] * 2
    await world.run()
    assert len(world.embedder.texts) == 2


async def test_what_is_written_meanwhile_comes_along(world: World) -> None:
    await world.put("a")
    world.embedder.before = [lambda: world.put("late"), lambda: world.store.delete("c", ["a"])]
    await world.run()
    collection = await world.store.get("c")
    assert (collection.model, collection.revision, collection.documents) == ("new", 3, 1)
    assert [w.document_id for w in await world.store.writings(collection, 0)] == ["late", "a"]


async def test_a_model_that_fails_is_asked_again_and_nothing_is_lost(world: World) -> None:
    async def fail() -> None:
        raise EmbeddingFailed("no")

    await world.put("a")
    world.embedder.before = [fail, fail]
    await world.run()
    assert world.pauses == [PAUSE_SECONDS] * 2
    assert (await world.store.get("c")).model == "new"


async def test_until_then_a_model_that_is_not_at_hand_is_named(world: World) -> None:
    async def unknown(model: str) -> None:
        return None

    collection = await world.put("a")
    embedders = Embedders(TextEmbedder(world.embedder, NothingKnown()), unknown)
    indexes = CollectionIndexes(world.store, world._index, 10)
    search = SearchCollection(world.store, indexes, embedders, cast(RankEntries, None))
    cut = CutDocuments(embedders, str.split, pool := CpuPool("cut", workers=1))
    for refused in (search("c", Ask(SearchQuery("text"))), cut(collection, [Document("b", "text")], {})):
        with pytest.raises(EmbedderChanged, match=r"vectors of old, which is not at hand, .* by new") as caught:
            await refused
        assert (caught.value.code, caught.value.retry_after) == ("UNAVAILABLE", RETRY_AFTER_SECONDS)
    await pool.close()


async def test_a_collection_that_goes_meanwhile_is_left_alone(world: World) -> None:
    await world.put("a")
    world.embedder.before = [lambda: world.store.drop("c")]
    await world.run()
    assert (world.pauses, await world.store.page("", 10)) == ([], [])
