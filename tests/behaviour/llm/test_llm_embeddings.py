"""Embeddings through langchain-openai against a real HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from libs.embedding.connect import connect_remote_model
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.remote import RemoteModel
from libs.embedding.settings import EmbeddingSettings
from libs.llm.usage import collect_usage
from tests.fakes.openai_answers import Answer, body, embeddings, error, reset, truncate, vector_of
from tests.fakes.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@asynccontextmanager
async def client_of(server: OpenAIServer, **settings: Any) -> AsyncIterator[RemoteModel]:
    chosen = EmbeddingSettings.model_validate(
        {"llm_retry_base_seconds": 0.0, "openai_api_key": "k", "openai_base_url": server.base_url, **settings}
    )
    client = connect_remote_model(chosen)
    try:
        yield client
    finally:
        await client.close()


async def test_many_texts_go_out_as_text_in_batches_and_come_back_in_order(server: OpenAIServer) -> None:
    texts = [f"text {number} 日本語" for number in range(25)]
    async with client_of(server, embedding_batch_size=10, llm_concurrency=2) as client:
        with collect_usage() as total:
            vectors = await client.embed(texts)
    np.testing.assert_allclose(vectors, np.asarray([vector_of(text) for text in texts]), rtol=1e-6)
    assert client.dimension == 8
    assert sorted(len(request.texts) for request in server.requests) == [5, 10, 10]
    assert sorted(text for request in server.requests for text in request.texts) == sorted(texts)
    assert {request.body["model"] for request in server.requests} == {"text-embedding-3-small"}
    assert server.peak_in_flight <= 2
    assert (total.calls, total.input_tokens, total.cost_usd) == (3, None, None)


@pytest.mark.parametrize(
    "fault",
    [
        error(429, retry_after=0),
        error(500),
        reset(),
        truncate(embeddings()),
        body(b"not json"),
        body(b"null"),
        body(b'{"data": []}'),
        body(b'{"data": [{"embedding": null}, {"embedding": null}]}'),
        embeddings(vectors=[[1.0]]),
        embeddings(vectors=[[1.0, 2.0], [1.0]]),
        embeddings(vectors=[[float("nan")], [1.0]]),
    ],
)
async def test_a_fault_is_passed_over_by_the_next_attempt(server: OpenAIServer, fault: Answer) -> None:
    server.script_embeddings(fault)
    async with client_of(server) as client:
        assert (await client.embed(["a", "b"])).shape == (2, 8)
    assert len(server.requests) == 2


async def test_a_fault_that_stays_is_unavailable(server: OpenAIServer) -> None:
    server.script_embeddings(*[error(500)] * 9)
    async with client_of(server, llm_retries=1, embedding_batch_size=1) as client:
        with pytest.raises(EmbeddingFailed, match="HTTP 500") as caught:
            await client.embed(["a", "b", "c"])
    assert caught.value.code == "UNAVAILABLE"  # G-13


async def test_a_wrong_dimension_is_refused(server: OpenAIServer) -> None:
    async with client_of(server, embedding_dimension=3, llm_retries=0) as client:
        with pytest.raises(EmbeddingFailed, match="dimension 8, not 3"):
            await client.embed(["a"])


async def test_a_cancelled_caller_cancels_its_batches(server: OpenAIServer) -> None:
    server.hold()
    async with client_of(server, embedding_batch_size=1, llm_concurrency=1) as client:
        running = asyncio.create_task(client.embed(["a", "b"]))
        await asyncio.to_thread(server.wait_for_requests, 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        server.release()
        assert (await client.embed(["c"])).shape == (1, 8)
    assert [request.texts for request in server.requests] == [["a"], ["c"]]
