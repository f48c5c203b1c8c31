"""What is written is embedded before it is committed: real services, vectors from a scripted server over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chassis.errors import RequestIdReused
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import playbook_service_pb2_grpc as playbook_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.behaviour.curator_and_search import curator_and_search
from tests.behaviour.playbook_client import new_id
from tests.fakes.openai_answers import error, stall
from tests.fakes.openai_server import OpenAIServer
from tests.systems import free_port

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
    """Clients of a curator, which waits for vectors as long as a test may take, and of search."""
    embedding = {"openai_api_key": "key", "openai_base_url": models.base_url, "llm_retries": 0}
    async with curator_and_search(
        folder, embedding=embedding, **{"curator_embed_ahead_seconds": 2, **settings}
    ) as channel:
        yield playbook_grpc.PlaybookServiceStub(channel), search_service_pb2_grpc.SearchServiceStub(channel)


def added(*contents: str, request_id: str = "") -> service_pb.ApplyDeltasRequest:
    deltas = [pb.Delta(type=pb.DELTA_TYPE_ADD, section="s", content=content) for content in contents]
    return service_pb.ApplyDeltasRequest(request_id=request_id or new_id(), dataset="d", deltas=deltas)


async def head(playbooks: PlaybookServiceAsyncStub) -> int:
    return (await playbooks.GetPlaybook(service_pb.GetPlaybookRequest(dataset="d"))).playbook.revision


async def found(searches: SearchServiceAsyncStub, revision: int) -> list[str]:
    query = search_pb2.SearchQuery(query_text=LESSON, min_confidence=0, top_k=100)
    request = search_service_pb2.SearchRequest(dataset="d", query=query, min_revision=revision)
    return [result.bullet.content for result in (await searches.Search(request)).results]


def embedded(models: OpenAIServer) -> list[list[str]]:
    return [request.texts for request in models.requests]


async def test_a_bullet_written_by_hand_is_committed_when_its_vector_is_made(
    tmp_path: Path, models: OpenAIServer
) -> None:
    async with writing(tmp_path, models) as (playbooks, searches):
        models.hold()
        call = asyncio.ensure_future(playbooks.ApplyDeltas(added(LESSON, "Moor the boat")))
        await asyncio.to_thread(models.wait_for_requests, 1)
        assert await head(playbooks) == 0
        models.release()
        assert (await call).revision == 1
        assert await found(searches, 1) == [LESSON, "Moor the boat"]
    # The second request is that of the query: the index found the vectors made.
    assert embedded(models) == [[LESSON, "Moor the boat"], [LESSON]]


async def test_what_is_done_or_refused_is_not_embedded(tmp_path: Path, models: OpenAIServer) -> None:
    async with writing(tmp_path, models) as (playbooks, _):
        request = added(LESSON)
        first = await playbooks.ApplyDeltas(request)
    # Both began anew: the curator remembers no vector and the search service keeps none.
    with OpenAIServer() as others:
        async with writing(tmp_path / "again", others, playbook_data_dir=str(tmp_path)) as (playbooks, _):
            assert await playbooks.ApplyDeltas(request) == first
            with pytest.raises(RequestIdReused):
                await playbooks.ApplyDeltas(added("Moor the boat", request_id=request.request_id))
            assert embedded(others) == []
            await playbooks.ApplyDeltas(added("Moor the boat"))
            assert embedded(others) == [["Moor the boat"]]


async def test_a_caller_that_goes_away_takes_everything_along(tmp_path: Path, models: OpenAIServer) -> None:
    models.script_embeddings(stall())
    async with writing(tmp_path, models) as (playbooks, _):
        call = asyncio.ensure_future(playbooks.ApplyDeltas(added(LESSON)))
        await asyncio.to_thread(models.wait_for_requests, 1)
        call.cancel()
        await asyncio.to_thread(models.wait_until_idle)
        assert await head(playbooks) == 0


async def test_a_model_that_fails_or_hangs_fails_no_write(tmp_path: Path, models: OpenAIServer) -> None:
    models.script_embeddings(error(401))
    async with writing(tmp_path, models) as (playbooks, searches):
        assert (await playbooks.ApplyDeltas(added(LESSON))).revision == 1
        assert await found(searches, 1) == [LESSON]
    with OpenAIServer() as hanging:
        hanging.script_embeddings(stall())
        async with writing(tmp_path, hanging, curator_embed_ahead_seconds=0.01) as (playbooks, _):
            assert (await playbooks.ApplyDeltas(added("Moor the boat"))).revision == 2


async def test_without_search_writes_go_on(tmp_path: Path, models: OpenAIServer) -> None:
    async with writing(tmp_path, models, search=f"127.0.0.1:{free_port()}") as (playbooks, _):
        answers = [await playbooks.ApplyDeltas(added(f"lesson {number}")) for number in range(3)]
        assert [answer.revision for answer in answers] == [1, 2, 3]


async def test_a_long_batch_is_embedded_after_its_commit(tmp_path: Path, models: OpenAIServer) -> None:
    async with writing(tmp_path, models) as (playbooks, searches):
        await found(searches, 0)
        models.hold()
        contents = {f"lesson {number}" for number in range(100)}
        assert (await playbooks.ApplyDeltas(added(*contents))).revision == 1
        models.release()
        assert set(await found(searches, 1)) == contents


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
        assert await found(searches, 1) == [LESSON]
    assert embedded(models) == [[LESSON], [LESSON]]
