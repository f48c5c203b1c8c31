"""Errors of collections: named, and without partial writes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from chassis.errors import InvalidArgument, NotFound
from hansei.search.v1 import collection_service_pb2 as pb
from libs.embedding.errors import EmbeddingFailed
from libs.storage.errors import StoreUnavailable
from services.search.adapters.sql.repository import open_collection_database
from tests.behaviour.search.collections.service import RunningSearch, chunk, direction, document, head, part
from tests.fakes.openai_answers import Answer, embeddings, error
from tests.fakes.openai_server import OpenAIServer

UNSTORABLE = [
    (document("", "text"), r"documents\[0\].id"),
    (document("a\nb", "text"), r"documents\[0\].id"),
    (document("a", ""), "text must not be blank"),
    (document("a", " \n　"), "text must not be blank"),
    (document("a", "a\0b"), r"U\+0000"),
    (document("a", "x" * 1_000_001), r"documents\[0\].text"),
    (document("a", "x", **{"a b": "c"}), "metadata"),
    (document("a", "x", lang="x" * 1001), "metadata"),
    (document("a", "text", [chunk(0, 5, [1.0])]), r"chunks\[0\] must be a part of the text, which has 4"),
    (document("a", "text", [chunk(3, 2, [1.0])]), r"chunks\[0\] must be a part of the text"),
    (document("a", "text", [chunk(0, 2, [1.0]), chunk(2, 4, [1.0, 2.0])]), "must have dimension 1, not 2"),
    (document("a", "text", [chunk(0, 4, [math.nan])]), r"chunks\[0\].embedding must hold finite values"),
    (document("a", "text", [chunk(0, 4, [math.inf])]), r"chunks\[0\].embedding must hold finite values"),
    (document("a", "text", [chunk(0, 4, [1.0], "other")]), "must be made by 'hashing-v1-1536', not by 'other'"),
]


async def test_a_document_that_cannot_be_stored_is_named_and_nothing_of_its_call_is_written(
    searching: RunningSearch,
) -> None:
    for sent, message in UNSTORABLE:
        with pytest.raises(InvalidArgument, match=message):
            await searching.put(sent, document("sleep"))
        assert (await searching.collection()).revision == 0
        assert await searching.find_ids("sleep") == []


async def test_vectors_of_another_dimension_are_refused(searching: RunningSearch) -> None:
    await searching.put(document("retry"))
    with pytest.raises(InvalidArgument, match="must have dimension 1536, not 2"):
        await searching.put(document("a", "text", [chunk(0, 4, [1.0, 0.0])]))
    for bad, message in (
        (chunk(0, 1, [1.0, 0.0]).embedding, "has dimension 2"),
        (chunk(0, 1, direction(1536, math.nan)).embedding, "not finite"),
        (chunk(0, 1, direction(1536), "other").embedding, "made by 'other'"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            await searching.search("retry", embedding=bad)


BAD_QUERIES: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 0}, "top_k must be >= 1"),
    ({"top_k": -3}, "top_k must be >= 1"),
    ({"top_k": 10_001}, "query.top_k"),
    ({"alpha": 1.5}, "alpha must be between 0 and 1"),
    ({"alpha": math.nan}, "alpha must be between 0 and 1"),
    ({"metadata": {"": "x"}}, "query.metadata"),
    ({"metadata": {f"n{n}": "x" for n in range(33)}}, "query.metadata"),
    ({"page_size": 1001}, "page_size"),
]


async def test_bad_queries_are_refused(searching: RunningSearch) -> None:  # S-37, S-40
    for fields, message in BAD_QUERIES:
        with pytest.raises(InvalidArgument, match=message):
            await searching.search("x", **fields)


async def test_unknown_collections_are_named(searching: RunningSearch) -> None:
    calls = [
        searching.search("x", collection="nowhere"),
        searching.put(document("retry"), collection="nowhere"),
        searching.stub.GetCollection(pb.GetCollectionRequest(name="nowhere")),
        searching.stub.DeleteCollection(pb.DeleteCollectionRequest(name="nowhere")),
        searching.stub.ListDocuments(pb.ListDocumentsRequest(collection="nowhere")),
        searching.stub.GetDocument(pb.GetDocumentRequest(collection="nowhere", id="x")),
        searching.stub.DeleteDocuments(pb.DeleteDocumentsRequest(collection="nowhere", ids=["x"])),
        searching.load([head("nowhere")]),
    ]
    for call in calls:
        with pytest.raises(NotFound, match='collection "nowhere" does not exist: make it with CreateCollection'):
            await call
    with pytest.raises(InvalidArgument, match="name"):
        await searching.create("a b")
    with pytest.raises(InvalidArgument, match="chunk_overlap 30 must be at most half of chunk_tokens 50"):
        await searching.create("x", chunk_tokens=50, chunk_overlap=30)


async def test_a_megabyte_of_text_is_cut_and_found(searching: RunningSearch) -> None:
    words = [f"word{n}" for n in range(2000)]
    text = " ".join(words * 200)[:999_989] + " the needle"
    assert len(text) == 1_000_000
    stored = await searching.put(document("big", text))
    assert stored.chunks > 500
    (best,) = (await searching.search("needle", top_k=1, alpha=0)).results
    assert "needle" in best.text


class Models(OpenAIServer):
    """An embedding model that answers every request alike until the test changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: Answer = embeddings()
        self.script_embeddings(*[lambda request: self.answer(request)] * 1000)


async def test_an_embedder_that_is_down_is_unavailable_and_nothing_is_half_written(running: Any) -> None:  # S-37, S-43
    with Models() as models:
        remote = {
            "embedding_provider": "openai",
            "openai_api_key": "secret-key",
            "openai_base_url": models.base_url,
            "llm_retries": 0,
        }
        async with running(**remote) as searching:
            await searching.create()
            await searching.put(document("retry"))
            requests_before = len(models.requests)
            assert (await searching.put(document("retry"))).unchanged == 1
            assert len(models.requests) == requests_before
            models.answer = error(500, "the model is gone")
            for call in (
                searching.put(document("deadline"), document("sleep")),
                searching.search("never asked"),
                searching.load([head(), part(document("deadline"))]),
            ):
                with pytest.raises(EmbeddingFailed, match=r"^Embedding failed: ") as caught:
                    await call
                assert caught.value.retry_after
                assert "secret-key" not in str(caught.value)
            assert (await searching.collection()).revision == 1
            models.answer = embeddings()
            assert await searching.find_ids("retry") == ["retry"]


async def test_a_server_that_is_not_there_is_unavailable_and_its_password_stays_secret() -> None:
    database = open_collection_database("postgresql://hansei:secret@127.0.0.1:1/hansei")
    with pytest.raises(StoreUnavailable, match="the document store does not answer") as caught:
        await database.open()
    assert caught.value.retry_after
    assert "secret" not in str(caught.value)
    await database.close()
