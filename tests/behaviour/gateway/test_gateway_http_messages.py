"""No response to a wrong request shows how hansei is programmed.

The requests are derived from the contract: each method with an HTTP binding, each field, each kind of wrong value.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import httpx
import pytest

from gateway.contract import load_contract
from gateway.http.bindings import Binding, list_bindings
from tests.support import systems
from tests.support.wrong_inputs import (
    BROKEN_BODIES,
    PATH_PARTS,
    QUERY_VALUES,
    WRONG_VALUES,
    find_python_form,
    wrong_bodies,
)

SECONDS = 240
STREAM_SECONDS = 1
MOST_BODIES = 60
"""Maximum number of bodies for a method, evenly spread over all."""
PARALLEL = 4
BINDINGS = list_bindings(load_contract().list_methods())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    http = f"127.0.0.1:{systems.free_port()}"
    with systems.one_process(tmp_path_factory.mktemp("messages"), HANSEI_HTTP_ADDRESS=http):
        yield f"http://{http}"


def build_path(binding: Binding, part: str = "0123456789ab") -> str:
    path = binding.path
    for variable in binding.variables:
        path = path.replace(f"{{{variable}}}", part)
    return path


def build_requests(binding: Binding) -> Iterator[tuple[str, bytes, dict[str, str]]]:
    """Yield path, body and query of wrong requests."""
    for part in PATH_PARTS if binding.variables else ():
        yield build_path(binding, part), b"{}", {}
    path = build_path(binding)
    if binding.reads_query:
        for name in ["nothing", *(field.name for field in binding.method.input_type.fields)]:
            for value in QUERY_VALUES:
                yield path, b"", {name: value}
    if binding.body:
        for body in BROKEN_BODIES:
            yield path, body, {}
    if binding.body_message is not None:
        bodies = list(wrong_bodies(binding.body_message))
        for wrong in islice(bodies, 0, None, len(bodies) // MOST_BODIES + 1):
            document: Any = [wrong] if binding.method.client_streaming else wrong
            yield path, json.dumps(document).encode(), {}


async def read_text(client: httpx.AsyncClient, verb: str, path: str, body: bytes, query: dict[str, str]) -> str:
    """Return the whole response if it is an error, else its beginning: a stream may have no end."""
    headers = {"Content-Type": "application/json"}
    async with client.stream(verb, path, content=body, params=query, headers=headers) as response:
        if response.is_error:
            return (await response.aread()).decode()
        if "event-stream" not in response.headers["Content-Type"]:
            return ""
        text = ""
        with suppress(TimeoutError):
            async with asyncio.timeout(STREAM_SECONDS):
                async for chunk in response.aiter_text():
                    text += chunk
        return text[text.find("event: error") :] if "event: error" in text else ""


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: f"{binding.method.name}-{binding.number}")
async def test_no_response_shows_python(url: str, binding: Binding) -> None:
    slots = asyncio.Semaphore(PARALLEL)
    limits = httpx.Limits(max_connections=PARALLEL)
    async with httpx.AsyncClient(base_url=url, timeout=SECONDS, limits=limits) as client:

        async def find(path: str, body: bytes, query: dict[str, str]) -> str:
            async with slots:
                form = find_python_form(await read_text(client, binding.verb, path, body, query))
            return f"{binding.verb} {path} {query or ''} {body[:200]!r}: {form}" if form else ""

        found = [
            text for text in await asyncio.gather(*(find(*request) for request in build_requests(binding))) if text
        ]
    assert not found, f"{len(found)}:\n" + "\n".join(found[:8])


async def test_no_response_of_the_other_routes_shows_python(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=SECONDS) as client:
        document = (await client.get("/openapi.json")).json()
        found = []
        for verb, path, body in other_requests(document):
            if form := find_python_form(await read_text(client, verb, path, body, {})):
                found.append(f"{verb} {path} {body[:200]!r}: {form}")
    assert not found, f"{len(found)}:\n" + "\n".join(found[:8])


def other_requests(document: Any) -> Iterator[tuple[str, str, bytes]]:
    """Yield wrong requests to the routes that are not bindings of the contract."""
    bound = {(binding.verb, binding.path) for binding in BINDINGS}
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if (verb.upper(), path) in bound or schema is None:
                continue
            schema = (
                document["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
            )
            address = path.replace("{", "").replace("}", "")
            for body in BROKEN_BODIES:
                yield verb.upper(), address, body
            for name in schema.get("properties", ()):
                for value in WRONG_VALUES:
                    yield verb.upper(), address, json.dumps({name: value}).encode()


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/v1/playbooks/%FF", "/console/nothing"])
@pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "DELETE", "PATCH"])
def test_no_response_to_an_unknown_path_shows_python(url: str, verb: str, path: str) -> None:
    response = httpx.request(verb, url + path, content=b"{", timeout=SECONDS)
    assert find_python_form(response.text) == ""
