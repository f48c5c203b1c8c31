"""The size of the context, read from servers that state it in different ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from libs.llm.client import LLMClient
from libs.llm.context_size import read_context_tokens

TRAINED = {"data": [{"id": "other"}, {"id": "m", "meta": {"n_ctx_train": 32_768}}]}
PROPS = {"default_generation_settings": {"n_ctx": 4096}}


def serve(pages: Mapping[str, Any]) -> httpx.AsyncClient:
    def handle(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer k"
        page = pages.get(request.url.path)
        return httpx.Response(404 if page is None else 200, text=page if isinstance(page, str) else json.dumps(page))

    return httpx.AsyncClient(transport=httpx.MockTransport(handle))


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": 8192}]}, "/props": PROPS}, 8192),
        ({"/v1/models": {"data": [{"id": "m", "context_length": 200_000}]}}, 200_000),
        ({"/v1/models": {"data": [{"id": "loaded.gguf", "max_model_len": 2048}]}}, 2048),
        ({"/v1/models": {"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]}}, None),
        ({"/v1/models": TRAINED, "/props": PROPS}, 4096),
        ({"/v1/models": TRAINED}, 32_768),
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": True, "context_length": "8k"}]}}, None),
        ({"/v1/models": {"data": "m"}, "/props": []}, None),
        ({"/v1/models": "no JSON"}, None),
        ({}, None),
    ],
)
async def test_the_size_that_the_server_states_is_found(pages: Mapping[str, Any], expected: int | None) -> None:
    async with serve(pages) as client:
        assert await read_context_tokens(client, "http://server/v1/", "k", "m") == expected


async def test_a_server_that_cannot_be_reached_states_nothing() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
        assert await read_context_tokens(client, "http://server/v1", "k", "m") is None


@pytest.mark.parametrize("size", [4096, None])
async def test_a_client_asks_once(size: int | None) -> None:
    reads: list[int | None] = []

    async def read() -> int | None:
        reads.append(size)
        return size

    client = LLMClient(None, read_context_tokens=read)  # type: ignore[arg-type]
    assert [await client.find_context_tokens() for _ in range(3)] == [size] * 3
    assert reads == [size]
