"""The next generation of a collection copies its documents and replaces it in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from services.search.adapters.sql.repository import CollectionRepository, open_collection_database
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import Backend, ChunkedDocument, Collection, Document, DocumentRevision
from services.search.domain.collection_errors import CollectionNotFound


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[CollectionRepository]:
    database = open_collection_database(str(tmp_path / "search.db"))
    await database.open()
    yield CollectionRepository(database)
    await database.close()


@pytest.fixture
async def collection(store: CollectionRepository) -> Collection:
    made = await store.create("c", Backend.HYBRID, Chunking(100, 10), "old")
    return (await store.write_documents(made, [chunk("a"), chunk("b"), chunk("c", "other text")])).collection


def chunk(name: str, text: str = "some text") -> ChunkedDocument:
    document = Document(name, text, (("lang", "en"),))
    return ChunkedDocument(
        document, document.digest, [TextSpan(0, 4), TextSpan(4, len(text))], np.ones((2, 4), np.float32)
    )


def embed_again(document_revisions: Sequence[DocumentRevision], value: float = 2.0) -> list[DocumentRevision]:
    return [
        w if w.vectors is None else w._replace(vectors=np.full((2, 3), value, np.float32)) for w in document_revisions
    ]


async def test_a_cut_over_keeps_everything_but_vectors(store: CollectionRepository, collection: Collection) -> None:
    await store.delete_documents("c", ["b"])
    generation = await store.begin_generation(collection, "new")
    assert (generation.model, generation.revision, generation.dimension) == ("new", 0, 0)
    before = await store.read_revisions(collection, 0)
    generation = await store.copy_documents(collection, generation, embed_again(before))
    assert (generation.revision, generation.documents, generation.chunks, generation.dimension) == (4, 2, 4, 3)
    assert await store.cut_over(collection, generation)
    now = await store.get("c")
    assert (now.key, now.model, now.created_at) == (generation.key, "new", collection.created_at)
    assert (now.revision, now.documents, now.chunks, now.dimension) == (4, 2, 4, 3)
    after = await store.read_revisions(now, 0)
    assert [w._replace(vectors=None) for w in after] == [w._replace(vectors=None) for w in before]
    assert [None if w.vectors is None else w.vectors.tolist() for w in after] == [[[2.0] * 3] * 2] * 2 + [None]
    assert await store.read_digests(now, ["a", "b", "c"]) == {
        "a": chunk("a").digest,
        "c": chunk("c", "other text").digest,
    }


async def test_a_cut_over_replaces_nothing_before_it_is_complete(
    store: CollectionRepository, collection: Collection
) -> None:
    generation = await store.begin_generation(collection, "new")
    generation = await store.copy_documents(
        collection, generation, embed_again(await store.read_revisions(collection, 0))
    )
    await store.write_documents(collection, [chunk("a", "new text"), chunk("d")])
    assert not await store.cut_over(collection, generation)
    assert (await store.get("c")).model == "old"
    late = await store.read_revisions(collection, generation.revision)
    assert [document_revision.document_id for document_revision in late] == ["a", "d"]
    generation = await store.copy_documents(collection, generation, embed_again(late))
    assert (generation.revision, generation.documents, generation.chunks) == (5, 4, 8)
    assert await store.cut_over(collection, generation)
    assert [w.document_id for w in await store.read_revisions(await store.get("c"), 0)] == ["b", "c", "a", "d"]


async def test_documents_rewritten_during_a_copy_are_copied_later(
    store: CollectionRepository, collection: Collection
) -> None:
    generation = await store.begin_generation(collection, "new")
    stale = embed_again(await store.read_revisions(collection, 0))
    await store.write_documents(collection, [chunk("a", "new text")])
    generation = await store.copy_documents(collection, generation, stale)
    assert (generation.revision, generation.documents) == (3, 2)
    generation = await store.copy_documents(
        collection, generation, embed_again(await store.read_revisions(collection, 3))
    )
    assert (generation.revision, generation.documents) == (4, 3)
    assert (await store.read_document(generation.name, "a"))[1] == "new text"


async def test_replicas_share_one_cut_over(store: CollectionRepository, collection: Collection) -> None:
    mine, theirs = await store.begin_generation(collection, "new"), await store.begin_generation(collection, "new")
    assert mine == theirs
    document_revisions = embed_again(await store.read_revisions(collection, 0))
    assert await store.copy_documents(collection, mine, document_revisions) == await store.copy_documents(
        collection, theirs, document_revisions[:2]
    )
    assert await store.cut_over(collection, mine)
    for gone in (store.cut_over(collection, theirs), store.copy_documents(collection, theirs, document_revisions)):
        with pytest.raises(CollectionNotFound):
            await gone


async def test_another_model_starts_an_empty_generation(store: CollectionRepository, collection: Collection) -> None:
    first = await store.begin_generation(collection, "new")
    await store.copy_documents(collection, first, embed_again(await store.read_revisions(collection, 0)))
    second = await store.begin_generation(collection, "newer")
    assert (second.model, second.revision, second.documents) == ("newer", 0, 0)
    assert await store.read_revisions(first, 0) == []


async def test_a_generation_is_hidden_and_deleted_with_its_collection(
    store: CollectionRepository, collection: Collection
) -> None:
    generation = await store.begin_generation(collection, "new")
    await store.copy_documents(collection, generation, embed_again(await store.read_revisions(collection, 0)))
    assert [listed.name for listed in await store.list_collections("", 10)] == ["c"]
    assert await store.list_collections("c", 10) == []
    await store.drop("c")
    assert await store.read_revisions(generation, 0) == []
    with pytest.raises(CollectionNotFound):
        await store.copy_documents(collection, generation, [])
