"""Jobs and files over HTTP: the messages of a stream as a list, the bytes of a field as the body itself."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from chassis.errors import NotFound
from gateway.access.tests.access_system import open_access
from gateway.http.problems import PROBLEM
from gateway.tests.scripted_http import VALUES, Peers, client_of, example_of
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from hansei.reflector.v1 import reflector_service_pb2 as reflector

JOB = VALUES["job_id"]
MESSAGES = example_of("gateway.v1.BulkService/SubmitTrajectories")


def job_for(dataset: str) -> list[Any]:
    """Return the example, for another dataset."""
    messages: list[Any] = copy.deepcopy(MESSAGES)
    messages[0]["head"]["dataset"] = dataset
    for item in messages[1]["batch"]["trajectories"]:
        item["trajectory"]["dataset"] = dataset
    return messages


async def test_the_messages_of_a_stream_arrive_in_their_order() -> None:
    accepted = service.SubmitTrajectoriesResponse(job=bulk.Job(job_id=JOB, edits=7))
    peers = Peers(answers={"SubmitTrajectories": [accepted]})
    async with client_of(peers) as client:
        response = await client.post("/v1/jobs", json=MESSAGES)
    assert (response.status_code, response.json()["job"]["edits"]) == (200, "7")
    assert [request.WhichOneof("part") for request in peers.requests] == ["head", "batch"]


@pytest.mark.parametrize("body", [{}, {"head": MESSAGES[0]["head"]}, [5], "[", None])
async def test_a_body_that_is_no_list_of_messages_is_refused(body: Any) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/v1/jobs", json=body)
    assert (response.status_code, response.headers["content-type"]) == (400, PROBLEM)
    assert response.json()["reason"] == "BODY_NOT_JSON_LIST"
    assert peers.requests == []


async def test_a_wrong_message_is_an_error_with_its_position_and_nothing_is_sent() -> None:
    wrong = job_for("d")
    wrong[1]["batch"]["trajectories"][0]["trajectory"]["dataset"] = "a b"
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/v1/jobs", json=wrong)
    assert response.status_code == 400
    assert response.json()["detail"] == "[1] Invalid dataset name: 'a b'"
    (violation,) = response.json()["violations"]
    assert violation["field"] == "[1].batch.trajectories[0].trajectory.dataset"
    assert peers.requests == []


async def test_a_file_is_the_body_and_the_other_fields_are_in_the_query() -> None:
    parsed = reflector.ParseTrajectoriesResponse(format=reflector.TRAJECTORY_FORMAT_OPENAI)
    peers = Peers(answers={"ParseTrajectories": [parsed]})
    query = {"dataset": "d", "format": "TRAJECTORY_FORMAT_OPENAI"}
    async with client_of(peers) as client:
        response = await client.post("/v1/trajectories/parse", params=query, content=b"\x00\xff[")
    assert response.json() == {"trajectories": [], "format": "TRAJECTORY_FORMAT_OPENAI"}
    (request,) = peers.requests
    assert (request.content, request.dataset, request.format) == (b"\x00\xff[", "d", reflector.TRAJECTORY_FORMAT_OPENAI)


@pytest.mark.parametrize(
    ("query", "content", "field"),
    [
        ({}, b"[]", "dataset"),
        ({"dataset": "d"}, b"", "content"),
        ({"dataset": "a b"}, b"[]", "dataset"),
        ({"dataset": "d", "content": "W10="}, b"", "content"),
    ],
)
async def test_a_file_without_its_required_parameters_is_refused(
    query: dict[str, str], content: bytes, field: str
) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.post("/v1/trajectories/parse", params=query, content=content)
    assert (response.status_code, response.json()["violations"][0]["field"]) == (400, field)
    assert peers.requests == []


async def test_a_job_is_followed_until_it_has_ended() -> None:
    ran = [bulk.Job(job_id=JOB, state=bulk.JOB_STATE_RUNNING), bulk.Job(job_id=JOB, state=bulk.JOB_STATE_COMPLETED)]
    peers = Peers(answers={"WatchJob": [service.WatchJobResponse(job=job) for job in ran]})
    async with client_of(peers) as client:
        response = await client.get(f"/v1/jobs/{JOB}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert [line for line in response.text.splitlines() if line.startswith("event")] == [
        "event: message",
        "event: message",
        "event: end",
    ]


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/dead-letters"),
        ("POST", "/cancel"),
        ("POST", "/dead-letters/retry"),
    ],
)
async def test_a_job_belongs_to_its_creator_over_http_too(tmp_path: Path, verb: str, path: str) -> None:
    """A job of another tenant gets the response for a missing job, and its service is not called."""
    created = service.SubmitTrajectoriesResponse(job=bulk.Job(job_id=JOB))
    peers = Peers(answers={"SubmitTrajectories": [created]})
    change: dict[str, Any] = {} if verb == "GET" else {"json": {"request_id": "5d0c9d0e-3a4e-4b57-8c0c-0d8f3f5f2c02"}}
    unknown = "00000000-0000-4000-8000-000000000000"
    async with open_access(tmp_path) as system, client_of(peers, guard=system.guard) as client:
        acme, evil = [{"Authorization": await system.key(name, "read", "learn")} for name in ("acme", "evil")]
        made = await client.post("/v1/jobs", json=job_for("acme--d"), headers=acme)
        own = await client.request(verb, f"/v1/jobs/{JOB}{path}", headers=acme, **change)
        peers.requests.clear()
        foreign = await client.request(verb, f"/v1/jobs/{JOB}{path}", headers=evil, **change)
        absent = await client.request(verb, f"/v1/jobs/{unknown}{path}", headers=evil, **change)
    assert [made.status_code, own.status_code, foreign.status_code, absent.status_code] == [200, 200, 404, 404]
    assert foreign.text.replace(JOB, unknown) == absent.text
    assert peers.requests == []


async def test_a_stream_is_checked_message_by_message(tmp_path: Path) -> None:
    """A head with the tenant's own dataset does not permit trajectories of other tenants' datasets."""
    mixed = job_for("acme--d")
    mixed[1]["batch"]["trajectories"][0]["trajectory"]["dataset"] = "evil--d"
    peers = Peers()
    async with open_access(tmp_path) as system, client_of(peers, guard=system.guard) as client:
        headers = {"Authorization": await system.key("acme", "learn")}
        response = await client.post("/v1/jobs", json=mixed, headers=headers)
        listed = await client.get("/v1/jobs", headers={"Authorization": await system.key("acme", "read")})
    assert (response.status_code, listed.status_code) == (404, 404)  # only the operator may list jobs without a dataset
    assert [request.WhichOneof("part") for request in peers.requests] == ["head"]


async def test_a_credential_with_the_scope_read_submits_no_job(tmp_path: Path) -> None:
    peers = Peers()
    async with open_access(tmp_path) as system, client_of(peers, guard=system.guard) as client:
        headers = {"Authorization": await system.key("acme", "read")}
        response = await client.post("/v1/jobs", json=job_for("acme--d"), headers=headers)
    assert response.status_code == 403
    assert peers.requests == []


async def test_an_unknown_job_is_a_problem() -> None:
    peers = Peers(raises={"GetJob": NotFound("no such job", reason="JOB_NOT_FOUND")})
    async with client_of(peers) as client:
        response = await client.get(f"/v1/jobs/{JOB}")
    assert (response.status_code, response.json()["reason"]) == (404, "JOB_NOT_FOUND")
