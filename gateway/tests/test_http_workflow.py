"""Health, the workflow, the token and the limits of the HTTP face."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text
from starlette.types import Message, Receive, Scope, Send

from chassis import deadlines
from chassis.errors import DataLoss, DeadlineExceeded, ResourceExhausted, Unavailable
from chassis.server.admission import Admission
from gateway.access.tests.access_system import open_access
from gateway.http.auth import Authentication
from gateway.http.middleware import RequestLimits
from gateway.tests.scripted_http import Peers, client_of

JSON = {"Content-Type": "application/json"}


async def test_health_needs_no_service() -> None:
    async with client_of(Peers(raises={"dataset": Unavailable("down")})) as client:
        response = await client.get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})  # G-18


async def test_the_workflow_answers() -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/workflow/run", json={"query": "Q {y}"})
    assert response.status_code == 200
    assert response.json() == {"llm_response": "答え {x}", "search_results_count": 2}  # G-19, G-37
    assert "答え".encode() in response.content  # G-31
    bullets, searched, generated = peers.requests
    assert (bullets.dataset, searched.dataset, generated.dataset) == ("appworld",) * 3  # G-19
    assert searched.query.query_text == generated.query == "Q {y}"  # G-67


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": 5}, "query"),
        ({"query": None}, "query"),
        ({"query": "Q", "dataset": ["x"]}, "dataset"),
        ([], None),
        ("text", None),
    ],
)
async def test_a_field_that_is_missing_or_of_another_type_is_422(body: Any, field: str | None) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/workflow/run", json=body)
    assert response.status_code == 422  # G-20
    (error,) = response.json()["detail"]
    assert error["loc"] == ["body", field] if field else ["body"]
    assert "input" not in error
    assert peers.requests == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"query": "\\ud800"}'])
async def test_a_body_that_is_no_json_is_422(content: bytes) -> None:
    async with client_of(Peers()) as client:
        assert (await client.post("/workflow/run", content=content, headers=JSON)).status_code == 422


@pytest.mark.parametrize("name", ["a b", "", "../x", "データ", "x" * 129])
async def test_an_invalid_dataset_name_is_400(name: str) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/workflow/run", json={"query": "Q", "dataset": name})
    assert (response.status_code, response.json()) == (400, {"detail": f"Invalid dataset name: '{name}'"})  # G-20
    assert peers.requests == []


@pytest.mark.parametrize(
    ("raises", "status", "detail"),
    [
        ({"dataset": Unavailable("curator does not answer")}, 503, "curator does not answer"),  # G-21
        ({"search": Unavailable("the embedder does not answer")}, 503, "the embedder does not answer"),  # G-21
        ({"dataset": DataLoss("playbook is corrupt")}, 500, "playbook is corrupt"),  # G-21
        ({"generate": DeadlineExceeded("planner did not answer in time")}, 504, "planner did not answer in time"),
        ({"generate": ResourceExhausted("busy")}, 429, "busy"),
    ],
)
async def test_an_error_of_a_service_has_its_status(raises: dict[str, Exception], status: int, detail: str) -> None:
    async with client_of(Peers(raises=raises)) as client:
        response = await client.post("/workflow/run", json={"query": "Q"})
    assert (response.status_code, response.json()) == (status, {"detail": detail})


async def test_a_failed_generation_is_502() -> None:
    async with client_of(Peers(failure="ModelUnavailable: HTTP 503")) as client:
        response = await client.post("/workflow/run", json={"query": "Q"})
    assert (response.status_code, response.json()) == (502, {"detail": "ModelUnavailable: HTTP 503"})  # G-21


async def test_an_error_in_a_node_stops_the_workflow() -> None:
    peers = Peers(raises={"search": Unavailable("down")})
    async with client_of(peers) as client:
        await client.post("/workflow/run", json={"query": "Q"})
    assert len(peers.requests) == 2  # G-38


async def test_an_unexpected_error_returns_only_its_id_in_the_log() -> None:
    async with client_of(Peers(raises={"dataset": RuntimeError("secret path")})) as client:
        response = await client.post("/workflow/run", json={"query": "Q"})
    assert response.status_code == 500
    assert response.json()["reason"] == "INTERNAL"
    assert "secret" not in response.text


async def test_the_chain_runs_within_the_policys_time() -> None:
    peers = Peers()
    seen: list[float | None] = []
    dataset = peers.GetDataset

    async def note(request: Any) -> Any:
        seen.append(deadlines.get_remaining())
        return await dataset(request)

    peers.GetDataset = note  # type: ignore[method-assign]
    async with client_of(peers) as client:
        await client.post("/workflow/run", json={"query": "Q"})
    assert seen[0] is not None
    assert 170 < seen[0] <= 180


PROTECTED = [
    ("POST", "/workflow/run"),
    ("POST", "/api/organizer/run"),
    ("POST", "/api/advisor/run"),
    ("POST", "/api/proposal-quality/validate"),
    ("POST", "/v1/learn"),
    ("POST", "/v1/search"),
    ("GET", "/v1/playbooks/d"),
    ("GET", "/openapi.json"),
    ("GET", "/no-such-path"),
    ("GET", "/health/"),
]


NO_CREDENTIAL = [None, "", "Bearer", "Bearer wrong", "Bearer tokenx", "Basic token", "token", "Bearer t\xf6ken"]


@pytest.mark.parametrize(("verb", "path"), PROTECTED)
async def test_with_a_token_only_health_needs_no_credential(tmp_path: Path, verb: str, path: str) -> None:
    peers = Peers()
    async with (
        open_access(tmp_path, GATEWAY_API_TOKEN="token") as system,
        client_of(peers, guard=system.guard) as client,
    ):
        for credential in NO_CREDENTIAL:
            headers = {} if credential is None else {b"Authorization": credential.encode("latin-1")}
            response = await client.request(verb, path, headers=headers)
            assert (response.status_code, response.json()) == (401, {"error": "Unauthorized"}), credential  # G-30
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert (await client.get("/health")).status_code == 200
    assert peers.requests == []


@pytest.mark.parametrize("credential", ["Bearer token", "bearer token"])
async def test_a_request_with_the_token_is_accepted(tmp_path: Path, credential: str) -> None:
    async with (
        open_access(tmp_path, GATEWAY_API_TOKEN="token") as system,
        client_of(Peers(), guard=system.guard) as client,
    ):
        response = await client.post("/workflow/run", json={"query": "Q"}, headers={"Authorization": credential})
    assert response.status_code == 200  # G-30


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_that_is_too_large_is_refused_unread(declared: bool) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while sent < 1000:
            sent += 1
            yield b" " * 100

    peers = Peers()
    async with client_of(peers, max_body_bytes=1000) as client:
        headers = {**JSON, **({"Content-Length": "100000"} if declared else {})}
        response = await client.post("/v1/learn", content=endless(), headers=headers)
    assert response.status_code == 413
    assert response.json()["reason"] == "BODY_TOO_LARGE"
    assert sent == (0 if declared else 11)
    assert peers.requests == []


async def test_a_request_above_the_limit_gets_a_retry_delay() -> None:
    peers, began, may_end = Peers(), asyncio.Event(), asyncio.Event()

    async def hold(request: Any) -> Any:
        began.set()
        await may_end.wait()
        raise Unavailable("held")

    peers.GetDataset = hold  # type: ignore[method-assign]
    async with client_of(peers, limit=1) as client:
        first = asyncio.create_task(client.post("/workflow/run", json={"query": "Q"}))
        await began.wait()
        second: httpx.Response = await client.post("/workflow/run", json={"query": "Q"})
        health = await client.get("/health")
        may_end.set()
        await first
        third = await client.get("/v1/playbooks/d")
    assert (second.status_code, second.headers["Retry-After"]) == (429, "2")
    assert second.json()["reason"] == "OVERLOADED"
    assert (health.status_code, third.status_code) == (200, 200)


async def test_an_incomplete_body_frees_its_admission_slot() -> None:
    async def never() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    async with client_of(Peers(), body_seconds=0, limit=1) as client:
        slow = await client.post("/workflow/run", content=never(), headers=JSON)
    assert (slow.status_code, slow.json()["reason"]) == (408, "BODY_TOO_SLOW")


async def test_an_error_of_the_store_of_keys_is_answered_with_its_reason(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system, client_of(Peers(), guard=system.guard) as client:
        credential = await system.key("acme", "read")
        engine = create_engine(f"sqlite:///{tmp_path / 'gateway.db'}")
        with engine.begin() as connection:
            connection.execute(text("UPDATE access_key SET created_at = 'damaged'"))
        response = await client.get("/v1/playbooks/acme--d", headers={"Authorization": credential})
    assert (response.status_code, response.json()["reason"]) == (500, "STORE_CORRUPT")


async def test_a_body_that_does_not_arrive_whole_is_not_handled() -> None:
    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("a body that looks whole is not")

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError("nobody reads a response")

    messages: list[Message] = [
        {"type": "http.request", "body": b"{}", "more_body": True},
        {"type": "http.disconnect"},
    ]
    admission = Admission("HTTP requests", 1, 1.0)
    limits = RequestLimits(handle, Authentication(None), admission, max_body_bytes=100, body_seconds=10.0)
    await limits({"type": "http", "method": "POST", "path": "/v1/traces", "headers": []}, receive, send)
    assert (messages, admission.in_flight) == ([], 0)
