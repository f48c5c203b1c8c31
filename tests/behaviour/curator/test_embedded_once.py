"""A text is embedded once, by the curator before the commit: real services, vectors from a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chassis.errors import RequestIdReused
from hansei.curator.v1 import curator_service_pb2_grpc as curator_grpc
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import playbook_service_pb2_grpc as playbook_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.fakes.openai_answers import error, stall
from tests.fakes.openai_server import OpenAIServer
from tests.support.curator_and_search import curate_request, curator_and_search
from tests.support.playbook_client import import_file, new_id

if TYPE_CHECKING:
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub
    from hansei.search.v1.search_service_pb2_grpc import SearchServiceAsyncStub

    Clients = tuple[PlaybookServiceAsyncStub, SearchServiceAsyncStub]

LESSON = "Retry a 429 after its Retry-After."


@pytest.fixture
def models() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@asynccontextmanager
async def writing(folder: Path, models: OpenAIServer, **settings: Any) -> AsyncIterator[Clients]:
    """Clients of a curator and of search, both with the embedding model of a scripted server."""
    async with curator_and_search(folder, embedding=remote(models), **settings) as channel:
        yield playbook_grpc.PlaybookServiceStub(channel), search_service_pb2_grpc.SearchServiceStub(channel)


def remote(models: OpenAIServer) -> dict[str, Any]:
    return {
        "embedding_provider": "openai",
        "openai_api_key": "key",
        "openai_base_url": models.base_url,
        "llm_retries": 0,
    }


def add_request(*contents: str, request_id: str = "") -> service_pb.ApplyDeltasRequest:
    deltas = [pb.Delta(type=pb.DELTA_TYPE_ADD, section="s", content=content) for content in contents]
    return service_pb.ApplyDeltasRequest(request_id=request_id or new_id(), dataset="d", deltas=deltas)


async def head(playbooks: PlaybookServiceAsyncStub) -> int:
    return (
        await playbooks.GetPlaybook(service_pb.GetPlaybookRequest(dataset="d", allow_missing=True))
    ).playbook.revision


async def search_contents(searches: SearchServiceAsyncStub, revision: int, text: str = LESSON) -> list[str]:
    query = search_pb2.SearchQuery(query_text=text, min_confidence=0, top_k=200)
    request = search_service_pb2.SearchRequest(dataset="d", query=query, min_revision=revision)
    return [result.bullet.content for result in (await searches.Search(request)).results]


def embedded_texts(models: OpenAIServer) -> list[list[str]]:
    return [request.texts for request in models.requests]


async def test_a_bullet_written_by_hand_is_committed_when_its_vector_is_made(
    tmp_path: Path, models: OpenAIServer
) -> None:
    async with writing(tmp_path, models) as (playbooks, searches):
        models.hold()
        call = asyncio.ensure_future(playbooks.ApplyDeltas(add_request(LESSON, "Moor the boat")))
        await asyncio.to_thread(models.wait_for_requests, 1)
        assert await head(playbooks) == 0
        models.release()
        assert (await call).revision == 1
        assert await search_contents(searches, 1) == [LESSON, "Moor the boat"]
    # The second request is that of the query: search took the vectors from the feed.
    assert embedded_texts(models) == [[LESSON, "Moor the boat"], [LESSON]]


async def test_a_text_is_embedded_once_over_curator_and_search(tmp_path: Path, models: OpenAIServer) -> None:
    lessons = ["Read the schema first", "Moor every boat"]
    async with curator_and_search(tmp_path, embedding=remote(models)) as channel:
        curators = curator_grpc.CuratorServiceStub(channel)
        playbooks = playbook_grpc.PlaybookServiceStub(channel)
        searches = search_service_pb2_grpc.SearchServiceStub(channel)
        await playbooks.ApplyDeltas(add_request(LESSON))
        assert (await curators.Curate(curate_request(*lessons))).saved
        again = await curators.Curate(curate_request(lessons[0], trajectory="other"))
        vote = pb.Vote(bullet_id=again.operations[0].bullet_id, tag=pb.VOTE_TAG_HELPFUL, trajectory_id="t")
        request = service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", votes=[vote])
        voted = await playbooks.ApplyDeltas(request)
        assert set(await search_contents(searches, voted.revision, "a question")) == {LESSON, *lessons}
    # A search service without index and cache takes all vectors from the snapshot of the feed.
    async with writing(tmp_path, models, search_folder=tmp_path / "other") as (_, anew):
        assert set(await search_contents(anew, voted.revision, "another question")) == {LESSON, *lessons}
    texts = [text for item in embedded_texts(models) for text in item]
    assert sorted(texts) == sorted([LESSON, *lessons, "a question", "another question"])


async def test_lessons_and_edits_are_committed_while_search_is_unavailable(
    tmp_path: Path, models: OpenAIServer
) -> None:
    async with curator_and_search(tmp_path, embedding=remote(models), alone=True) as channel:
        assert (await curator_grpc.CuratorServiceStub(channel).Curate(curate_request(LESSON))).saved
        written = await playbook_grpc.PlaybookServiceStub(channel).ApplyDeltas(add_request("Moor the boat"))
    async with writing(tmp_path, models) as (_, searches):
        assert set(await search_contents(searches, written.revision, "a question")) == {LESSON, "Moor the boat"}
    assert embedded_texts(models) == [[LESSON], ["Moor the boat"], ["a question"]]


async def test_a_repeated_request_embeds_nothing_again(tmp_path: Path, models: OpenAIServer) -> None:
    async with writing(tmp_path, models) as (playbooks, _):
        request = add_request(LESSON)
        first = await playbooks.ApplyDeltas(request)
    # Both were restarted; the vector was stored with the commit.
    with OpenAIServer() as others:
        async with writing(tmp_path, others) as (playbooks, _):
            assert await playbooks.ApplyDeltas(request) == first
            assert embedded_texts(others) == []
            with pytest.raises(RequestIdReused):
                await playbooks.ApplyDeltas(add_request("Moor the boat", request_id=request.request_id))
            await playbooks.ApplyDeltas(add_request("Moor the boat"))
            assert embedded_texts(others) == [["Moor the boat"]]


async def test_cancelling_a_call_cancels_its_calls_to_peers(tmp_path: Path, models: OpenAIServer) -> None:
    models.script_embeddings(stall())
    async with writing(tmp_path, models) as (playbooks, _):
        call = asyncio.ensure_future(playbooks.ApplyDeltas(add_request(LESSON)))
        await asyncio.to_thread(models.wait_for_requests, 1)
        call.cancel()
        await asyncio.to_thread(models.wait_until_idle)
        assert await head(playbooks) == 0


async def test_a_model_that_fails_or_hangs_fails_no_write(tmp_path: Path, models: OpenAIServer) -> None:
    models.script_embeddings(error(401))
    async with writing(tmp_path, models) as (playbooks, searches):
        assert (await playbooks.ApplyDeltas(add_request(LESSON))).revision == 1
        # The feed has no vector of it, so search embeds it.
        assert await search_contents(searches, 1, "a question") == [LESSON]
    assert embedded_texts(models) == [[LESSON], [LESSON], ["a question"]]
    with OpenAIServer() as hanging:
        hanging.script_embeddings(stall())
        async with writing(tmp_path, hanging) as (playbooks, _):
            assert (await playbooks.ApplyDeltas(add_request("Moor the boat"), timeout=2)).revision == 2


async def test_an_imported_file_is_embedded_too(tmp_path: Path, models: OpenAIServer) -> None:
    async with writing(tmp_path, models) as (playbooks, searches):
        models.hold()

        async def file() -> AsyncIterator[service_pb.ImportPlaybookRequest]:
            yield service_pb.ImportPlaybookRequest(head=service_pb.ImportHead(request_id=new_id(), dataset="d"))
            yield service_pb.ImportPlaybookRequest(chunk=f"## OTHERS\n[misc-00001] {LESSON}\n".encode())

        call = asyncio.ensure_future(playbooks.ImportPlaybook(file()))
        await asyncio.to_thread(models.wait_for_requests, 1)
        assert await head(playbooks) == 0
        models.release()
        assert (await call).revision == 1
        assert await search_contents(searches, 1, "a question") == [LESSON]
    assert embedded_texts(models) == [[LESSON], ["a question"]]


async def test_bullets_that_share_an_id_are_all_found(tmp_path: Path) -> None:
    twins, file = (
        ["Moor the boat", "Feed the cat"],
        b"## OTHERS\n[misc-00001] Moor the boat\n[misc-00001] Feed the cat\n",
    )
    async with curator_and_search(tmp_path) as channel:
        playbooks = playbook_grpc.PlaybookServiceStub(channel)
        searches = search_service_pb2_grpc.SearchServiceStub(channel)
        await playbooks.ApplyDeltas(add_request(LESSON))
        assert await search_contents(searches, 1) == [LESSON]
        assert (await import_file(playbooks, file, replace=False)).revision == 2
        assert set(await search_contents(searches, 2)) == {LESSON, *twins}
        vote = pb.Vote(bullet_id="misc-00001", tag=pb.VOTE_TAG_HELPFUL, trajectory_id="t")
        request = service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", votes=[vote])
        voted = await playbooks.ApplyDeltas(request)
        assert set(await search_contents(searches, voted.revision)) == {LESSON, *twins}
