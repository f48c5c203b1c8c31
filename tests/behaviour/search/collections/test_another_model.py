"""A service restarted with another embedding model: collections change over to it, at once and whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from hansei.search.v1 import collection_service_pb2 as pb
from services.search.domain.collection_errors import EmbedderChanged
from tests.behaviour.search.collections.service import HASHING, TEXTS, RunningSearch, document
from tests.fakes.openai_server import OpenAIServer

OPENAI = "text-embedding-3-small"


@pytest.fixture
def models() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def remote(models: OpenAIServer) -> dict[str, Any]:
    """Settings of a service whose embeddings the model server makes."""
    return {"embedding_provider": "openai", "openai_api_key": "key", "openai_base_url": models.base_url}


async def wait_for_model(searching: RunningSearch, model: str, expected: list[str]) -> None:
    """Return when the model answers; until then every answer is whole, and by the model before."""
    async with asyncio.timeout(30):
        while True:
            response = await searching.search("deadline", top_k=100)
            assert sorted(passage.document_id for passage in response.results) == expected
            if response.embedding_model == model:
                return


async def test_the_former_model_is_used_until_the_cut_over(
    running: Any, models: OpenAIServer, remote: dict[str, Any]
) -> None:
    async with running() as before:
        await before.create()
        await before.put(*map(document, TEXTS))
    models.hold()
    async with running(**remote) as after:
        assert (await after.search("deadline")).embedding_model == HASHING
        assert (await after.create()).embedding_model == HASHING  # the same request as at first is no conflict
        await after.put(document("new", "A deadline that came meanwhile."))
        await after.stub.DeleteDocuments(pb.DeleteDocumentsRequest(collection="c", ids=["sleep"]))
        expected = sorted({*TEXTS, "new"} - {"sleep"})
        assert sorted(await after.find_ids("deadline", top_k=100)) == expected
        listed = (await after.stub.ListCollections(pb.ListCollectionsRequest())).collections
        assert [(entry.name, entry.revision) for entry in listed] == [("c", 6)]
        models.release()
        await wait_for_model(after, OPENAI, expected)
        now = await after.collection()
        assert (now.embedding_model, now.dimension) == (OPENAI, 8)
        assert (now.revision, now.documents, now.chunks) == (6, 4, 4)
        assert (await after.put(document("new", "A deadline that came meanwhile."))).unchanged == 1
        assert (await after.put(document("newer", "Later."))).revision == 7
        assert [id for page in [p async for p in after.ids()] for id in page] == sorted([*expected, "newer"])
    requests_before = len(models.requests)
    async with running(**remote) as again:
        await wait_for_model(again, OPENAI, sorted([*expected, "newer"]))
    assert [request.texts for request in models.requests[requests_before:]] == [["deadline"]]


async def test_a_model_that_is_not_at_hand_is_named_until_another_has_taken_over(
    running: Any, remote: dict[str, Any]
) -> None:
    async with running(**remote) as before:
        await before.create()
        await before.put(document("retry"), document("deadline"))
    async with running() as after, asyncio.timeout(30):
        messages: list[str] = []
        while True:
            try:
                response = await after.search("deadline")
                break
            except EmbedderChanged as error:
                messages.append(str(error))
        assert all(OPENAI in entry and HASHING in entry for entry in messages)
        assert response.embedding_model == HASHING
        assert {passage.document_id for passage in response.results} == {"retry", "deadline"}


async def test_the_next_page_uses_the_model_of_the_first(running: Any, remote: dict[str, Any]) -> None:
    async with running() as before:
        await before.create()
        await before.put(*map(document, TEXTS))
        first = await before.search("deadline", page_size=2)
    async with running(**remote) as after:
        await wait_for_model(after, OPENAI, sorted(TEXTS))
        with pytest.raises(Exception, match="the ranking of this page_token is no longer cached"):
            await after.search("deadline", page_size=2, page_token=first.next_page_token)
