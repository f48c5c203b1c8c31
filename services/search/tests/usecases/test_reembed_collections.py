"""Collections of another model are embedded again in the background."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from chassis.server.cpu import CpuPool
from libs.embedding.embedder import TextEmbedder
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.model import Float32s, Languages
from libs.embedding.remote import STRICTEST
from services.search.adapters.sql.repository import CollectionRepository, open_collection_database
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import Backend, ChunkedDocument, Collection, Document, DocumentRevision
from services.search.domain.collection_errors import RETRY_AFTER_SECONDS, EmbedderChanged
from services.search.domain.query import SearchQuery
from services.search.usecases.chunk_documents import ChunkDocuments
from services.search.usecases.chunk_index import ChunkIndex
from services.search.usecases.collection_indexes import CollectionIndexes
from services.search.usecases.embedders import Embedders
from services.search.usecases.ports import CollectionStore
from services.search.usecases.rank_entries import RankEntries, RankingRequest
from services.search.usecases.reembed_collections import PAUSE_SECONDS, ReembedCollections
from services.search.usecases.search_collection import SearchCollection


class Embedder:
    """Return the length of a text; call the functions of `before` first."""

    model_id, trust, languages, thresholds = "new", 1.0, Languages.SEVERAL, STRICTEST

    def __init__(self) -> None:
        self.before: list[Callable[[], Awaitable[object]]] = []
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, queries: bool = False) -> Float32s:
        if self.before:
            await self.before.pop(0)()
        self.texts += texts
        return np.array([[len(text), 1.0] for text in texts], np.float32)


class NoStore:
    async def get(self, model: str, hashes: Sequence[bytes]) -> Mapping[bytes, Float32s]:
        return {}

    async def put(self, model: str, vectors: Mapping[bytes, Float32s]) -> None: ...


class Index:
    """An index that counts chunks."""

    def __init__(self) -> None:
        self.revision = 0
        self.chunks: dict[str, int] = {}

    async def open(self) -> None: ...

    async def count_chunks(self) -> int:
        return sum(self.chunks.values())

    async def apply(self, document_revisions: Sequence[DocumentRevision]) -> None:
        self.chunks |= {
            document_revision.document_id: len(document_revision.spans) for document_revision in document_revisions
        }
        self.revision = document_revisions[-1].revision

    async def clear(self) -> None:
        self.revision, self.chunks = 0, {}


class World:
    def __init__(self, store: CollectionRepository) -> None:
        self.store = store
        self.embedder = Embedder()
        self.indexes: dict[str, Index] = {}
        self.pauses: list[float] = []

    async def run(self, store: CollectionStore | None = None) -> None:
        indexes = CollectionIndexes(self.store, self._index, 10)
        embedder = TextEmbedder(self.embedder, NoStore())
        await ReembedCollections(store or self.store, indexes, embedder, self._sleep)()

    async def put(self, *names: str, to: str = "c") -> Collection:
        collection = await self.store.create(to, Backend.HYBRID, Chunking(), "old")
        documents = [Document(name, f"text of {name}") for name in names]
        chunk_documents = [
            ChunkedDocument(d, d.digest, [TextSpan(0, len(d.text))], np.ones((1, 5), np.float32)) for d in documents
        ]
        return (await self.store.write_documents(collection, chunk_documents)).collection

    def _index(self, collection: Collection) -> ChunkIndex:
        return cast(ChunkIndex, self.indexes.setdefault(collection.key, Index()))

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = open_collection_database(str(tmp_path / "search.db"))
    await database.open()
    yield World(CollectionRepository(database))
    await database.close()


async def test_all_collections_change_over_with_an_index_that_is_ready(world: World) -> None:
    for name in ("c", "d"):
        await world.put("a", "b", to=name)
    await world.put(to="empty")
    await world.run()
    for collection in await world.store.list_collections("", 10):
        assert collection.model == "new"
        assert (index := world.indexes[collection.key]).revision == collection.revision
        assert await index.count_chunks() == collection.chunks
    assert world.embedder.texts == ["text of a", "text of b"]  # each text once, S-17
    document_revisions = await world.store.read_revisions(await world.store.get("d"), 0)
    vectors = [w.vectors[0].tolist() for w in document_revisions if w.vectors is not None]
    assert vectors == [pytest.approx([0.99388, 0.11043], abs=1e-5)] * 2
    await world.run()
    assert len(world.embedder.texts) == 2


async def test_documents_written_meanwhile_are_copied(world: World) -> None:
    await world.put("a")
    world.embedder.before = [lambda: world.put("late"), lambda: world.store.delete_documents("c", ["a"])]
    await world.run()
    collection = await world.store.get("c")
    assert (collection.model, collection.revision, collection.documents) == ("new", 3, 1)
    assert [w.document_id for w in await world.store.read_revisions(collection, 0)] == ["late", "a"]


async def test_a_model_that_fails_is_asked_again_and_nothing_is_lost(world: World) -> None:
    async def fail() -> None:
        raise EmbeddingFailed("no")

    await world.put("a")
    world.embedder.before = [fail, fail]
    await world.run()
    assert world.pauses == [PAUSE_SECONDS] * 2
    assert (await world.store.get("c")).model == "new"


async def test_before_the_cut_over_an_unavailable_model_is_named(world: World) -> None:
    async def unknown(model: str) -> None:
        return None

    collection = await world.put("a")
    embedders = Embedders(TextEmbedder(world.embedder, NoStore()), unknown)
    indexes = CollectionIndexes(world.store, world._index, 10)
    search = SearchCollection(world.store, indexes, embedders, cast(RankEntries, None))
    chunk_documents = ChunkDocuments(embedders, str.split, pool := CpuPool("chunk", workers=1))
    for call in (
        search("c", RankingRequest(SearchQuery("text"))),
        chunk_documents(collection, [Document("b", "text")], {}),
    ):
        with pytest.raises(EmbedderChanged, match=r"vectors of old, which is unavailable, .* by new") as caught:
            await call
        assert (caught.value.code, caught.value.retry_after) == ("UNAVAILABLE", RETRY_AFTER_SECONDS)
    await pool.close()


async def test_a_collection_that_is_deleted_meanwhile_is_skipped(world: World) -> None:
    await world.put("a")
    world.embedder.before = [lambda: world.store.drop("c")]
    await world.run()
    assert (world.pauses, await world.store.list_collections("", 10)) == ([], [])
