"""kill -9 in the middle of a load: acknowledged documents are stored and found, and no document is stored in part."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import chassis
from chassis.errors import HanseiError
from chassis.tests.process import ProbeProcess, probe_process
from hansei.search.v1 import collection_pb2, collection_service_pb2_grpc
from hansei.search.v1 import collection_service_pb2 as pb

ACKNOWLEDGED = 2
SENTENCES = 25
MORE = 50


def document(number: int) -> collection_pb2.Document:
    """Return a document of two chunks."""
    return collection_pb2.Document(id=f"d{number:04}", text=f"This is unique{number} text. " * SENTENCES)


async def parts(first: int, end: int | None = None) -> AsyncIterator[pb.LoadDocumentsRequest]:
    yield pb.LoadDocumentsRequest(head=pb.LoadHead(collection="c"))
    for number in itertools.count(first) if end is None else range(first, end):
        yield pb.LoadDocumentsRequest(document=document(number))


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return {
        "LLM_PROVIDER": "offline",
        "EMBEDDING_PROVIDER": "hashing",
        "HANSEI_SEARCH_DATABASE_URL": str(tmp_path / "search.db"),
        "HANSEI_SEARCH_SNAPSHOT_DIR": str(tmp_path / "snapshots"),
        # By then a killed process has written a snapshot of an earlier state.
        "HANSEI_SEARCH_SNAPSHOT_SECONDS": "0.2",
    }


async def collections_of(process: ProbeProcess) -> tuple[chassis.Peers, Any]:
    peers = chassis.Peers({"search": (await process.read_until("server started"))["address"]})
    return peers, collection_service_pb2_grpc.CollectionServiceStub(peers.get_channel("search"))


async def killed_while_loading(settings: dict[str, str]) -> int:
    """Kill search during a load; return the number of documents that it had acknowledged."""
    processed: list[int] = []

    async def load(stub: Any, process: ProbeProcess) -> None:
        async for progress in stub.LoadDocuments(parts(0)):
            processed.append(progress.processed)
            if len(processed) == ACKNOWLEDGED:
                process.process.kill()

    async with probe_process("services.search", **settings) as process:
        peers, stub = await collections_of(process)
        await stub.CreateCollection(pb.CreateCollectionRequest(name="c", chunk_tokens=40))
        with pytest.raises(HanseiError) as broken:
            await load(stub, process)
        # grpc.aio calls it INTERNAL when it was writing at that moment.
        assert broken.value.code in {"UNAVAILABLE", "INTERNAL"}
        await peers.close()
    return processed[-1]


async def list_documents(stub: Any) -> tuple[list[str], int]:
    """Return all ids, and the sum of the documents' numbers of chunks."""
    ids: list[str] = []
    chunks, token = 0, ""
    while True:
        page = await stub.ListDocuments(pb.ListDocumentsRequest(collection="c", page_size=1000, page_token=token))
        ids.extend(document.id for document in page.documents)
        chunks += sum(document.chunks for document in page.documents)
        if not (token := page.next_page_token):
            return ids, chunks


async def test_acknowledged_documents_survive_and_the_load_continues(settings: dict[str, str]) -> None:
    acknowledged = await killed_while_loading(settings)
    assert acknowledged > 0
    async with probe_process("services.search", **settings) as process:
        peers, stub = await collections_of(process)

        async def count_stored() -> collection_pb2.Collection:
            response: pb.GetCollectionResponse = await stub.GetCollection(pb.GetCollectionRequest(name="c"))
            return response.collection

        async def search_ids(number: int) -> list[str]:
            query = collection_pb2.CollectionQuery(query_text=f"unique{number}", top_k=3, alpha=0)
            response = await stub.SearchCollection(pb.SearchCollectionRequest(collection="c", query=query))
            return [passage.document_id for passage in response.results if f"unique{number} " in passage.text]

        before = await count_stored()
        assert acknowledged <= before.documents
        for number in (0, acknowledged // 2, acknowledged - 1):
            assert set(await search_ids(number)) == {f"d{number:04}"}
        ids, chunks = await list_documents(stub)
        assert ids == [f"d{number:04}" for number in range(before.documents)]
        assert chunks == before.chunks == 2 * before.documents

        end = before.documents + MORE
        async for progress in stub.LoadDocuments(parts(acknowledged, end)):
            last = progress
        assert (last.processed, last.unchanged) == (end - acknowledged, before.documents - acknowledged)
        assert (await count_stored()).documents == end
        assert set(await search_ids(end - 1)) == {f"d{end - 1:04}"}
        await peers.close()
