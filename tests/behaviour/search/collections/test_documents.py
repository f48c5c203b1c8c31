"""Documents: put, list, read and delete; restarts and replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from chassis.errors import AlreadyExists, InvalidArgument, NotFound
from hansei.search.v1 import collection_service_pb2 as pb
from tests.behaviour.search.collections.service import HYBRID, PGVECTOR, QDRANT, TEXTS, RunningSearch, document


async def test_an_unchanged_document_is_not_written_again(searching: RunningSearch) -> None:
    await searching.put(document("retry", year="2025"))
    for _ in range(2):
        again = await searching.put(document("retry", year="2025"), document("sleep"))
    assert (again.stored, again.unchanged, again.revision) == (0, 2, 2)
    changed = await searching.put(document("retry", year="2026"))
    assert (changed.stored, changed.revision) == (1, 3)
    collection = await searching.collection()
    assert (collection.documents, collection.chunks, collection.revision, collection.dimension) == (2, 2, 3, 1536)


async def test_deleted_documents_are_gone_everywhere(searching: RunningSearch) -> None:
    await searching.put(*map(document, TEXTS))
    request = pb.DeleteDocumentsRequest(collection="c", ids=["retry", "nobody", "retry"])
    response = await searching.stub.DeleteDocuments(request)
    assert (response.deleted, response.revision) == (1, 5)
    assert sorted(await searching.find_ids("retry")) == ["deadline", "saisei", "sleep"]
    with pytest.raises(NotFound, match='collection "c" has no document "retry"'):
        await searching.stub.GetDocument(pb.GetDocumentRequest(collection="c", id="retry"))
    assert [page async for page in searching.ids()] == [["deadline", "saisei", "sleep"]]
    assert (await searching.collection()).documents == 3
    await searching.put(document("retry"))
    assert (await searching.find_ids("idempotent"))[0] == "retry"


async def test_a_document_is_read_back_as_it_was_put(searching: RunningSearch) -> None:
    text = "全角　スペース\n\n改行 and 😀 beyond the plane"
    await searching.put(document("é/日本 1", text, source="https://example.org/a?b=c"))
    response = await searching.stub.GetDocument(pb.GetDocumentRequest(collection="c", id="é/日本 1"))
    assert response.text == text
    assert dict(response.summary.metadata) == {"source": "https://example.org/a?b=c"}
    assert (response.summary.characters, response.summary.chunks, response.summary.revision) == (len(text), 1, 1)
    (passage,) = (await searching.search("😀")).results
    assert passage.text == text


async def test_pages_of_a_list_neither_repeat_nor_skip_while_others_write(searching: RunningSearch) -> None:
    names = [f"d{n:02}" for n in range(20)]
    await searching.put(*(document(name, f"text {name}") for name in names))
    listed: list[str] = []
    async for page in searching.ids(page_size=3):
        assert len(page) <= 3
        listed.extend(page)
        await searching.put(document(f"{page[-1]}-new", "new"), document(names[0], f"rewritten after {page[-1]}"))
    assert [name for name in listed if not name.endswith("-new")] == names
    assert len(listed) == len(set(listed))
    assert listed == sorted(listed)


async def test_collections_of_a_prefix_are_listed_alone(searching: RunningSearch) -> None:
    for name in ("acme", "acme--b", "acme--B", "acme--a", "acme-", "Acme--c", "acmes--c", "acme-z"):
        await searching.create(name)
    request = pb.ListCollectionsRequest(page_size=2, prefix="acme--")
    first = await searching.stub.ListCollections(request)
    request.page_token = first.next_page_token
    rest = await searching.stub.ListCollections(request)
    assert [entry.name for entry in (*first.collections, *rest.collections)] == ["acme--B", "acme--a", "acme--b"]
    assert rest.next_page_token == ""
    request.prefix = "evil--"  # with a token of another list
    with pytest.raises(InvalidArgument) as refused:
        await searching.stub.ListCollections(request)
    assert refused.value.reason == "PAGE_TOKEN_INVALID"


async def test_collections_are_made_once_listed_and_deleted(searching: RunningSearch) -> None:
    made = await searching.collection()
    assert (made.chunk_tokens, made.chunk_overlap, made.backend) == (200, 33, searching.backend)
    assert await searching.create() == made
    with pytest.raises(AlreadyExists, match='collection "c" exists with chunk_tokens 200, not 100'):
        await searching.create(chunk_tokens=100, chunk_overlap=33)
    for name in ("b", "a"):
        await searching.create(name)
    first = await searching.stub.ListCollections(pb.ListCollectionsRequest(page_size=2))
    rest = await searching.stub.ListCollections(
        pb.ListCollectionsRequest(page_size=2, page_token=first.next_page_token)
    )
    assert [[entry.name for entry in page.collections] for page in (first, rest)] == [["a", "b"], ["c"]]
    assert rest.next_page_token == ""

    await searching.put(*map(document, TEXTS))
    gone = await searching.stub.DeleteCollection(pb.DeleteCollectionRequest(name="c"))
    assert gone.documents == 4
    with pytest.raises(NotFound, match='collection "c" does not exist'):
        await searching.search("retry")
    await searching.create(chunk_tokens=50)
    assert await searching.find_ids("retry") == []
    await searching.put(document("sleep"))
    assert await searching.find_ids("retry") == ["sleep"]


async def test_a_restart_finds_everything_and_embeds_nothing(running: Any) -> None:
    async with running() as first:
        await first.create()
        await first.put(*map(document, TEXTS))
        before = await first.search("再試行 retry", explain=True)
        await first.stub.DeleteDocuments(pb.DeleteDocumentsRequest(collection="c", ids=["sleep"]))
    async with running() as second:
        after = await second.search("再試行 retry", explain=True)
        assert [entry.document_id for entry in after.results] == [
            entry.document_id for entry in before.results if entry.document_id != "sleep"
        ]
        assert (await second.put(*map(document, ["retry", "saisei"]))).unchanged == 2


async def test_nothing_is_left_of_a_deleted_collection(
    running: Any, backend: Any, tmp_path: Path, pgvector_location: str
) -> None:
    def list_remains() -> list[Any]:
        if backend == PGVECTOR:
            return find_rows(pgvector_location)
        return list((tmp_path / ("snapshots/collections" if backend == HYBRID else "qdrant/collection")).iterdir())

    async with running() as first:
        await first.create()
        await first.put(*map(document, TEXTS))
    assert list_remains()
    async with running() as second:
        await second.stub.DeleteCollection(pb.DeleteCollectionRequest(name="c"))
        assert list_remains() == []


def find_rows(location: str) -> list[Any]:
    """Return what a database with pgvector holds of collections: partitions, states and counts of terms."""
    with psycopg.connect(location) as connection:
        partitions = connection.execute("SELECT relid FROM pg_partition_tree('search_chunk') WHERE level > 0")
        states = connection.execute("SELECT collection FROM search_chunk_index")
        counts = connection.execute("SELECT collection FROM search_chunk_term")
        return [*partitions.fetchall(), *states.fetchall(), *counts.fetchall()]


async def test_two_replicas_on_one_database_find_what_either_wrote(
    running: Any, backend: Any, database_location: str
) -> None:
    if backend == QDRANT:
        pytest.skip("Qdrant without a server belongs to one process")
    if not database_location.startswith("postgresql"):
        pytest.skip("a SQLite file belongs to one process")
    async with running() as first, running() as second:
        await first.create()
        await first.put(document("retry"))
        assert await second.find_ids("retry") == ["retry"]
        await second.put(document("retry", "Bananas."), document("sleep"))
        assert next(entry.text for entry in (await first.search("banana")).results) == "Bananas."
        await first.stub.DeleteDocuments(pb.DeleteDocumentsRequest(collection="c", ids=["retry"]))
        assert await second.find_ids("retry") == ["sleep"]
