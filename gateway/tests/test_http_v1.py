"""The endpoints under `/v1`: contracts as JSON, errors as problem documents, and the document that describes them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from chassis.errors import (
    CLASS_OF_CODE,
    AlreadyExists,
    HanseiError,
    InvalidArgument,
    NotFound,
    OutOfRange,
    Unavailable,
    Violation,
)
from gateway.access.tests.access_system import open_access
from gateway.http.bindings import Binding
from gateway.http.problems import STATUS_OF_CODE, get_http_status
from gateway.tests.scripted_http import BINDINGS, VALUES, Peers, client_of, example_of, request_arguments

PROBLEM = "application/problem+json"
LEARN = example_of("gateway.v1.GatewayService/LearnWithProgress")["learn"]
SEARCH = {"dataset": "http-example", "query": {"query_text": "commit fails without an identity", "top_k": 5}}
RESTORE = {"request_id": "5c0a4b86-1f0f-4b8f-9b52-2a5f6c1d7e02", "revision": "0"}


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"origin": "https://evil.example"}, "ORIGIN_NOT_ALLOWED"),
        ({"origin": "null"}, "ORIGIN_NOT_ALLOWED"),
        ({"origin": "http://evil.example:8080", "host": "evil.example:8080"}, "HOST_NOT_ALLOWED"),
        ({"origin": "http://127.0.0.1:8080", "host": "127.0.0.1:8080"}, ""),
        ({"host": "localhost:8080"}, ""),
        ({"host": "[::1]:8080"}, ""),
    ],
)
async def test_pages_of_other_origins_cannot_use_a_gateway_without_credentials(
    headers: dict[str, str], reason: str
) -> None:
    async with client_of(Peers(), is_local=True) as client:
        response = await client.post("/v1/learn", json=LEARN, headers=headers)
    assert response.status_code == (403 if reason else 200)
    assert response.json().get("reason", "") == reason


async def test_credentials_replace_the_check_of_origin_and_host(tmp_path: Path) -> None:
    async with open_access(tmp_path) as access, client_of(Peers(), guard=access.guard, is_local=True) as client:
        response = await client.post("/v1/learn", json=LEARN, headers={"origin": "https://console.example"})
    assert response.status_code == 401


async def test_a_trajectory_is_learned_over_http() -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/v1/learn", json=LEARN)
    assert response.status_code == 200
    assert response.json()["curation"]["saved"] is True
    assert response.json()["curation"]["revision"] == "4"  # 64-bit numbers are texts in proto3 JSON
    assert response.json()["curation"]["operations"] == []
    assert [request.DESCRIPTOR.name for request in peers.requests] == [
        "PrepareCurationRequest",
        "ReflectRequest",
        "CurateRequest",
    ]
    assert peers.requests[-1].request_id == LEARN["request_id"]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, "[0-9a-f]{32}"),
        ({"X-Request-Id": "mine"}, "mine"),
        ({"X-Request-Id": "{"}, "[0-9a-f]{32}"),
    ],
)
async def test_one_correlation_id_goes_through_all_hops(headers: dict[str, str], expected: str) -> None:
    """It is the one that the caller sent, else a new one, and never the `request_id` of the mutation."""
    peers = Peers()
    async with client_of(peers) as client:
        await client.post("/v1/learn", json=LEARN, headers=headers)
    (only,) = set(peers.correlation_ids)
    assert len(peers.correlation_ids) == 3
    assert re.fullmatch(expected, only)


async def test_bullets_are_searched_over_http() -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/v1/search", json={**SEARCH, "min_revision": 3})
    assert response.status_code == 200
    assert [result["bullet"]["id"] for result in response.json()["results"]] == ["b-1", "b-2"]
    assert "日本語".encode() in response.content  # G-31
    (request,) = peers.requests
    assert (request.dataset, request.query.top_k, request.min_revision) == ("http-example", 5, 3)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/playbooks/d", {"dataset": "d"}),
        ("/v1/playbooks/d?revision=0", {"dataset": "d", "revision": "0"}),
        ("/v1/playbooks/d?time=2026-01-02T03:04:05Z", {"dataset": "d", "time": "2026-01-02T03:04:05Z"}),
        ("/v1/playbooks/d/history?page_size=5&page_token=x", {"dataset": "d", "page_size": 5, "page_token": "x"}),
        (
            "/v1/playbooks/d/diff?from_revision=1&to_revision=2",
            {"dataset": "d", "from_revision": "1", "to_revision": "2"},
        ),
    ],
)
async def test_playbooks_are_read_by_path_and_query(path: str, expected: dict[str, Any]) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.get(path)
    assert response.status_code == 200
    assert MessageToDict(peers.requests[0], preserving_proto_field_name=True) == expected


@pytest.mark.parametrize(
    ("verb", "path", "body", "detail"),
    [
        ("GET", "/v1/playbooks/a%20b", None, "Invalid dataset name: 'a b'"),
        ("GET", "/v1/playbooks/d?revision=x", None, "not a GetPlaybookRequest: "),
        ("GET", "/v1/playbooks/d?revision=1&time=2026-01-02T03:04:05Z", None, "not a GetPlaybookRequest: "),
        ("GET", "/v1/playbooks/d?nothing=1", None, "not a GetPlaybookRequest: "),
        ("GET", "/v1/playbooks/d/history?page_size=1001", None, "page_size "),
        ("POST", "/v1/search", {"dataset": "d"}, "query "),
        ("POST", "/v1/plans/mermaid", {}, "subject is required: set plan or execution"),
        ("POST", "/v1/search", {"dataset": "d", "query": {"top_k": 0}}, "top_k must be >= 1"),
        ("POST", "/v1/search", {"dataset": "d", "query": {"extra": 1}}, "not a SearchRequest: "),
        ("POST", "/v1/search", [], "body must be JSON object"),
        ("POST", "/v1/learn", {**LEARN, "request_id": "x"}, "request_id "),
        ("POST", "/v1/learn", {**LEARN, "dataset": "other"}, "dataset mismatch"),  # G-44
    ],
)
async def test_a_request_that_breaks_a_rule_is_a_problem(verb: str, path: str, body: Any, detail: str) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.request(verb, path, json=body)
    assert (response.status_code, response.headers["content-type"]) == (400, PROBLEM)
    problem = response.json()
    assert problem["detail"].startswith(detail)
    assert (problem["title"], problem["status"], problem["code"]) == ("Bad Request", 400, "INVALID_ARGUMENT")
    assert peers.requests == []


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b'{"dataset": "d", "dataset": "e"}', "an object has the name 'dataset' more than once"),
        (b'{"query": {"top_k": 1, "top_k": 2}}', "an object has the name 'top_k' more than once"),
        (b'{"dataset": }', "Expecting value: line 1 column 13"),
        (b'{"query": {"alpha": NaN}}', "NaN is not JSON"),
        (
            b'{"query": {"top_k": ' + b"9" * 4301 + b"}}",
            "an integer has 4,301 digits, of which at most 4,300 are allowed",
        ),
        (b'{"dataset": "\\ud800"}', "it has half of a surrogate pair"),
        (b'{"query": ' + b"[" * 100_000, "it is nested too deeply"),
    ],
)
async def test_a_body_that_cannot_be_read_states_the_cause(body: bytes, cause: str) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/v1/search", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    problem = response.json()
    assert problem["detail"] == "body must be JSON object"
    [violation] = problem["violations"]
    assert violation["field"] == "body"
    assert violation["description"].startswith(f"cannot be read as JSON: {cause}")
    assert peers.requests == []


@pytest.mark.parametrize(
    ("error", "status", "facts"),
    [
        (NotFound("gone", reason="DATASET_NOT_FOUND"), 404, {"reason": "DATASET_NOT_FOUND"}),
        (OutOfRange("revision 9 is past 3", metadata={"newest": "3"}), 400, {"metadata": {"newest": "3"}}),
        (AlreadyExists("twice"), 409, {"code": "ALREADY_EXISTS"}),
        (
            InvalidArgument("bad", violations=[Violation("a.b", "is bad", "RULE")]),
            400,
            {"violations": [{"field": "a.b", "description": "is bad", "rule": "RULE"}]},
        ),
        (Unavailable("down", retry_after=0.2), 503, {"reason": "UNAVAILABLE"}),
    ],
)
async def test_errors_of_services_keep_their_reasons(error: HanseiError, status: int, facts: dict[str, Any]) -> None:
    async with client_of(Peers(raises={"GetPlaybook": error})) as client:
        response = await client.get("/v1/playbooks/d")
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM)
    assert response.json()["detail"] == str(error)
    assert facts.items() <= response.json().items()
    assert response.headers.get("Retry-After") == (None if error.retry_after is None else "1")


def test_every_code_has_a_status() -> None:
    assert set(STATUS_OF_CODE) == set(CLASS_OF_CODE)
    assert get_http_status(Unavailable("x")) == 503


async def test_an_unknown_path_and_method_are_problems() -> None:
    async with client_of(Peers()) as client:
        unknown, wrong = await client.get("/v1/nothing"), await client.get("/v1/learn")
    assert [(r.status_code, r.headers["content-type"]) for r in (unknown, wrong)] == [(404, PROBLEM), (405, PROBLEM)]
    assert wrong.headers["Allow"] == "POST"


async def document() -> dict[str, Any]:
    async with client_of(Peers()) as client:
        read: dict[str, Any] = (await client.get("/openapi.json")).json()
    return read


async def test_the_document_describes_every_endpoint() -> None:
    described = await document()
    shown = {(verb.upper(), path) for path, verbs in described["paths"].items() for verb in verbs}
    assert shown == {(binding.verb, binding.path) for binding in BINDINGS} | {
        ("GET", "/health"),
        ("GET", "/v1/services"),
        ("GET", "/v1/about"),
        ("POST", "/workflow/run"),
        ("POST", "/v1/hooks/{agent}"),
        ("POST", "/api/organizer/run"),
        ("POST", "/api/advisor/run"),
        ("POST", "/api/proposal-quality/validate"),
    }
    for binding in BINDINGS:
        operation = described["paths"][binding.path][binding.verb.lower()]
        assert {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"} == set(
            binding.variables
        )
        assert ("requestBody" in operation) == (binding.verb not in ("GET", "DELETE"))


async def test_the_document_asks_for_the_token_where_one_is_set(tmp_path: Path) -> None:
    async with (
        open_access(tmp_path, GATEWAY_API_TOKEN="token") as system,
        client_of(Peers(), guard=system.guard) as client,
    ):
        described = (await client.get("/openapi.json", headers={"Authorization": "Bearer token"})).json()
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert described["security"] == [{"token": []}]
    assert described["paths"]["/health"]["get"]["security"] == []  # G-30
    assert (await document())["security"] == [{}, {"token": []}]


async def test_every_reference_of_the_document_is_defined() -> None:
    described = await document()
    schemas = described["components"]["schemas"]
    text = json.dumps(described)
    referred = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert referred <= set(schemas)
    assert {"hansei.gateway.v1.LearnRequest", "hansei.playbook.v1.Bullet", "Problem"} <= referred
    learn = schemas["hansei.gateway.v1.LearnRequest"]
    assert learn["required"] == ["trajectory", "dataset"]  # the key may be in a header
    assert schemas["hansei.search.v1.SearchResponse"]["properties"]["revision"] == {
        "type": "string",
        "format": "int64",
        "description": "The revision of the index.",
    }


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: f"{binding.verb} {binding.path}")
async def test_every_method_is_answered(binding: Binding) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.request(**request_arguments(binding))
    assert response.status_code == 200, response.text
    if binding.method.containing_service.name != "GatewayService":  # which is a chain of other calls
        assert peers.requests[0].DESCRIPTOR is binding.method.input_type
        assert {name: str(getattr(peers.requests[0], name)) for name in binding.variables} == {
            name: VALUES[name] for name in binding.variables
        }


async def test_a_repeated_field_takes_every_value_of_the_query() -> None:
    peers = Peers()
    async with client_of(peers) as client:
        await client.get("/v1/playbooks/d/bullets?ids=b-1&ids=b-2&sections=git")
    assert (list(peers.requests[0].ids), list(peers.requests[0].sections)) == (["b-1", "b-2"], ["git"])


async def test_path_and_body_are_one_request_and_may_not_contradict_each_other() -> None:
    peers = Peers()
    async with client_of(peers) as client:
        joined = await client.post("/v1/playbooks/d/restore", json=RESTORE)
        same = await client.post("/v1/playbooks/d/restore", json={**RESTORE, "dataset": "d"})
        other = await client.post("/v1/playbooks/d/restore", json={**RESTORE, "dataset": "e"})
    assert [joined.status_code, same.status_code, other.status_code] == [200, 200, 400]
    assert [request.dataset for request in peers.requests] == ["d", "d"]
    assert other.json()["detail"] == "dataset is 'e' in the body and 'd' in the path"


async def test_the_gateway_says_what_it_runs_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    monkeypatch.setenv("LLM_MODEL", "small-model")
    monkeypatch.setenv("HANSEI_DATA_DIR", str(tmp_path))
    async with client_of(Peers(), get_grpc_address=lambda: "127.0.0.1:43050") as client:
        facts = (await client.get("/v1/about")).json()
    assert facts["grpc_port"] == 43050
    assert (facts["llm_provider"], facts["llm_model"]) == ("openai", "small-model")
    assert facts["data_directory"] == str(tmp_path)
    assert facts["version"]


async def test_the_paths_of_a_gateway_with_credentials_are_not_shown(tmp_path: Path) -> None:
    async with (
        open_access(tmp_path, GATEWAY_API_TOKEN="token") as system,
        client_of(Peers(), guard=system.guard) as client,
    ):
        refused = await client.get("/v1/about")
        found = await client.get("/v1/about", headers={"Authorization": "Bearer token"})
    assert refused.status_code == 401
    assert found.json()["data_directory"] == ""


async def test_the_health_of_the_services_is_reported() -> None:
    async with client_of(Peers()) as client:
        response = await client.get("/v1/services")
    assert response.json()["services"] == [
        {"name": "curator", "state": "SERVING", "detail": ""},
        {"name": "search", "state": "UNREACHABLE", "detail": "search does not answer"},
    ]
