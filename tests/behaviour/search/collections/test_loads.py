"""Loads: streams of documents that are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from chassis.errors import InvalidArgument
from hansei.search.v1 import collection_service_pb2 as pb
from tests.behaviour.search.collections.service import TEXTS, RunningSearch, chunk, document, head, part


async def test_a_load_stores_what_can_be_stored_and_names_the_rest(searching: RunningSearch) -> None:
    parts = [document(f"d{n}", f"text number {n}") for n in range(10)]
    parts[3] = document("blank", " ")
    parts[5] = document("cut wrong", "abc", [chunk(0, 9, [1.0])])
    parts[7] = document("", "no id")
    parts.append(document("d0", "text number 0"))
    parts.append(document("d1", "another text"))
    responses = await searching.load([head(), *map(part, parts)])
    last = responses[-1]
    assert (last.processed, last.stored, last.unchanged, last.failed) == (12, 8, 1, 3)
    failures = [failure for response in responses for failure in response.failures]
    assert [(failure.position, failure.document_id) for failure in failures] == [
        (3, "blank"),
        (5, "cut wrong"),
        (7, ""),
    ]
    assert failures[0].message == "text must not be blank"
    assert failures[1].reason == "INVALID_DOCUMENT"
    assert last.revision == (await searching.collection()).revision == 8
    assert (await searching.find_ids("another"))[0] == "d1"


async def test_a_load_acknowledges_documents_before_the_next_is_sent(searching: RunningSearch) -> None:
    acknowledged = asyncio.Semaphore(1)

    async def send() -> AsyncIterator[pb.LoadDocumentsRequest]:
        yield head()
        for name in TEXTS:
            await acknowledged.acquire()
            yield part(document(name))

    processed: list[int] = []
    async for progress in searching.stub.LoadDocuments(send()):
        processed.append(progress.processed)
        assert len(await searching.find_ids("", top_k=100)) == progress.processed
        acknowledged.release()
    assert processed == [1, 2, 3, 4]


async def test_a_load_must_begin_with_its_head(searching: RunningSearch) -> None:
    for parts in ([], [part(document("retry"))], [head(), head()], [head(), pb.LoadDocumentsRequest()]):
        with pytest.raises(InvalidArgument, match="the first part of a load must be its head"):
            await searching.load(parts)
    assert (await searching.collection()).documents == 0
