"""A collection's successor in the database: it copies the log, and takes the place at once or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from services.search.adapters.sql.repository import CollectionRepository, collection_database
from services.search.domain.chunking import Chunking, Span
from services.search.domain.collection import Backend, Collection, CutDocument, Document, Writing
from services.search.domain.collection_errors import CollectionNotFound


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[CollectionRepository]:
    database = collection_database(str(tmp_path / "search.db"))
    await database.open()
    yield CollectionRepository(database)
    await database.close()


@pytest.fixture
async def collection(store: CollectionRepository) -> Collection:
    made = await store.create("c", Backend.HYBRID, Chunking(100, 10), "old")
    return (await store.write(made, [cut("a"), cut("b"), cut("c", "other text")])).collection


def cut(name: str, text: str = "some text") -> CutDocument:
    document = Document(name, text, (("lang", "en"),))
    return CutDocument(document, document.digest, [Span(0, 4), Span(4, len(text))], np.ones((2, 4), np.float32))


def embedded(writings: Sequence[Writing], value: float = 2.0) -> list[Writing]:
    return [w if w.vectors is None else w._replace(vectors=np.full((2, 3), value, np.float32)) for w in writings]


async def test_it_keeps_revisions_and_everything_but_vectors(
    store: CollectionRepository, collection: Collection
) -> None:
    await store.delete("c", ["b"])
    successor = await store.next_generation(collection, "new")
    assert (successor.model, successor.revision, successor.dimension) == ("new", 0, 0)
    before = await store.writings(collection, 0)
    successor = await store.copy_documents(collection, successor, embedded(before))
    assert (successor.revision, successor.documents, successor.chunks, successor.dimension) == (4, 2, 4, 3)
    assert await store.cut_over(collection, successor)
    now = await store.get("c")
    assert (now.key, now.model, now.created_at) == (successor.key, "new", collection.created_at)
    assert (now.revision, now.documents, now.chunks, now.dimension) == (4, 2, 4, 3)
    after = await store.writings(now, 0)
    assert [w._replace(vectors=None) for w in after] == [w._replace(vectors=None) for w in before]
    assert [None if w.vectors is None else w.vectors.tolist() for w in after] == [[[2.0] * 3] * 2] * 2 + [None]
    assert await store.digests(now, ["a", "b", "c"]) == {"a": cut("a").digest, "c": cut("c", "other text").digest}


async def test_it_does_not_succeed_before_it_holds_as_much(store: CollectionRepository, collection: Collection) -> None:
    successor = await store.next_generation(collection, "new")
    successor = await store.copy_documents(collection, successor, embedded(await store.writings(collection, 0)))
    await store.write(collection, [cut("a", "new text"), cut("d")])
    assert not await store.cut_over(collection, successor)
    assert (await store.get("c")).model == "old"
    late = await store.writings(collection, successor.revision)
    assert [writing.document_id for writing in late] == ["a", "d"]
    successor = await store.copy_documents(collection, successor, embedded(late))
    assert (successor.revision, successor.documents, successor.chunks) == (5, 4, 8)
    assert await store.cut_over(collection, successor)
    assert [w.document_id for w in await store.writings(await store.get("c"), 0)] == ["b", "c", "a", "d"]


async def test_what_was_written_again_meanwhile_comes_later(
    store: CollectionRepository, collection: Collection
) -> None:
    successor = await store.next_generation(collection, "new")
    stale = embedded(await store.writings(collection, 0))
    await store.write(collection, [cut("a", "new text")])
    successor = await store.copy_documents(collection, successor, stale)
    assert (successor.revision, successor.documents) == (3, 2)
    successor = await store.copy_documents(collection, successor, embedded(await store.writings(collection, 3)))
    assert (successor.revision, successor.documents) == (4, 3)
    assert (await store.read(successor.name, "a"))[1] == "new text"


async def test_replicas_share_one(store: CollectionRepository, collection: Collection) -> None:
    mine, theirs = await store.next_generation(collection, "new"), await store.next_generation(collection, "new")
    assert mine == theirs
    writings = embedded(await store.writings(collection, 0))
    assert await store.copy_documents(collection, mine, writings) == await store.copy_documents(
        collection, theirs, writings[:2]
    )
    assert await store.cut_over(collection, mine)
    for gone in (store.cut_over(collection, theirs), store.copy_documents(collection, theirs, writings)):
        with pytest.raises(CollectionNotFound):
            await gone


async def test_another_model_begins_anew(store: CollectionRepository, collection: Collection) -> None:
    first = await store.next_generation(collection, "new")
    await store.copy_documents(collection, first, embedded(await store.writings(collection, 0)))
    second = await store.next_generation(collection, "newer")
    assert (second.model, second.revision, second.documents) == ("newer", 0, 0)
    assert await store.writings(first, 0) == []


async def test_nobody_sees_it_and_it_goes_with_its_collection(
    store: CollectionRepository, collection: Collection
) -> None:
    successor = await store.next_generation(collection, "new")
    await store.copy_documents(collection, successor, embedded(await store.writings(collection, 0)))
    assert [each.name for each in await store.page("", 10)] == ["c"]
    assert await store.page("c", 10) == []
    await store.drop("c")
    assert await store.writings(successor, 0) == []
    with pytest.raises(CollectionNotFound):
        await store.copy_documents(collection, successor, [])
