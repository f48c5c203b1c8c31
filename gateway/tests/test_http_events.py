"""Streams of the contracts as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor

from chassis.errors import NotFound, Unavailable
from chassis.server.progress import CallsInProgress
from gateway.tests.scripted_http import Peers, client_of, example_of
from hansei.planner.v1 import planner_service_pb2 as planner
from hansei.playbook.v1 import playbook_service_pb2 as playbook

EXECUTION = "0a1b2c3d4e5f"


def events_of(text: str) -> list[tuple[str, str, Any]]:
    """Id, name and data of each event; comments are left out."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


def watch_responses(*numbers: int) -> list[planner.WatchExecutionResponse]:
    answers = []
    for number in numbers:
        answer = planner.WatchExecutionResponse()
        answer.event.sequence = number
        answer.event.execution_id = EXECUTION
        answers.append(answer)
    return answers


async def test_learning_reports_its_stages_and_ends() -> None:
    async with client_of(Peers()) as client:
        response = await client.post(
            "/v1/learn/events", json=example_of("gateway.v1.GatewayService/LearnWithProgress")["learn"]
        )
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response.text)
    assert [name for _, name, _ in events] == ["message", "message", "message", "end"]
    assert [data["stage"] for _, _, data in events[:3]] == [
        "LEARN_STAGE_LOADED",
        "LEARN_STAGE_REFLECTED",
        "LEARN_STAGE_CURATED",
    ]
    assert events[2][2]["response"]["curation"]["revision"] == "4"


async def test_an_execution_is_followed_and_resumed_after_the_last_event_seen() -> None:
    peers = Peers(answers={"WatchExecution": watch_responses(3, 4)})
    async with client_of(peers) as client:
        first = await client.get(f"/v1/executions/{EXECUTION}/events?after_sequence=2")
        last = {"Last-Event-ID": events_of(first.text)[1][0]}
        again = await client.get(f"/v1/executions/{EXECUTION}/events?after_sequence=2", headers=last)
    assert [identity for identity, _, _ in events_of(first.text)] == ["3", "4", ""]
    assert [request.after_sequence for request in peers.requests] == [2, 4]
    assert again.status_code == 200


async def test_a_feed_that_is_resumed_needs_no_snapshot() -> None:
    feed = [playbook.WatchPlaybookResponse() for _ in range(3)]
    feed[0].snapshot.playbook.revision, feed[0].snapshot.last = 6, False
    feed[1].snapshot.playbook.revision, feed[1].snapshot.last = 6, True
    feed[2].revision.revision = 7
    peers = Peers(answers={"WatchPlaybook": feed})
    async with client_of(peers) as client:
        first = await client.get("/v1/playbooks/d/events?snapshot=true")
        await client.get("/v1/playbooks/d/events?snapshot=true", headers={"Last-Event-ID": "7"})
    assert [identity for identity, _, _ in events_of(first.text)] == ["", "6", "7", ""]
    assert [(request.snapshot, request.from_revision) for request in peers.requests] == [(True, 0), (False, 7)]


@pytest.mark.parametrize("identity", ["x", "-1", "1" * 19, "1 2"])
async def test_an_invalid_last_event_id_is_a_problem(identity: str) -> None:
    peers = Peers()
    async with client_of(peers) as client:
        response = await client.get("/v1/playbooks/d/events", headers={"Last-Event-ID": identity})
    assert response.status_code == 400
    assert response.json()["violations"][0]["field"] == "last-event-id"
    assert peers.requests == []


async def test_a_stream_that_fails_at_once_has_an_error_status() -> None:
    peers = Peers(answers={"WatchExecution": []}, raises={"WatchExecution": NotFound("no execution", reason="NO_SUCH")})
    async with client_of(peers) as client:
        response = await client.get(f"/v1/executions/{EXECUTION}/events")
    assert (response.status_code, response.json()["reason"]) == (404, "NO_SUCH")


async def test_a_later_failure_is_reported_by_the_last_event() -> None:
    gone = Unavailable("planner does not answer", reason="PEER_UNAVAILABLE", retry_after=0.2)
    peers = Peers(answers={"WatchExecution": watch_responses(1)}, raises={"WatchExecution": gone})
    async with client_of(peers) as client:
        response = await client.get(f"/v1/executions/{EXECUTION}/events")
    assert response.status_code == 200
    assert [name for _, name, _ in events_of(response.text)] == ["message", "error"]
    assert events_of(response.text)[1][2]["reason"] == "PEER_UNAVAILABLE"


async def test_an_unexpected_failure_reveals_no_text() -> None:
    peers = Peers(answers={"WatchExecution": watch_responses(1)}, raises={"WatchExecution": RuntimeError("secret")})
    async with client_of(peers) as client:
        response = await client.get(f"/v1/executions/{EXECUTION}/events")
    assert events_of(response.text)[1][2]["reason"] == "INTERNAL"
    assert "secret" not in response.text


class EndlessFeedPeers(Peers):
    """A feed that tells one thing and then waits for ever."""

    def get_function(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        async def feed(request: Any) -> AsyncIterator[Any]:
            self.opened.set()
            try:
                yield playbook.WatchPlaybookResponse(progress=playbook.Progress(revision=5)).SerializeToString()
                await asyncio.Event().wait()
            finally:
                self.left.set()

        return feed if method.name == "WatchPlaybook" else super().get_function(method)

    opened: asyncio.Event
    left: asyncio.Event


async def test_an_endless_stream_ends_when_the_server_stops() -> None:
    peers, progress = EndlessFeedPeers(), CallsInProgress()
    peers.opened, peers.left = asyncio.Event(), asyncio.Event()
    async with client_of(peers, progress=progress) as client:
        watching = asyncio.create_task(client.get("/v1/playbooks/d/events"))
        await peers.opened.wait()
        progress.end_endless()
        response = await watching
        late = await client.get("/v1/playbooks/d/events")
    assert peers.left.is_set()
    events = events_of(response.text)
    assert (events[-1][1], events[-1][2]["reason"]) == ("error", "SERVER_DRAINING")
    assert (late.status_code, late.json()["reason"]) == (503, "SERVER_DRAINING")


async def test_streams_have_a_limit_of_their_own_and_take_no_slots_of_requests() -> None:
    peers, progress = EndlessFeedPeers(), CallsInProgress()
    peers.opened, peers.left = asyncio.Event(), asyncio.Event()
    async with client_of(peers, progress=progress, limit=1) as client:
        watching = asyncio.create_task(client.get("/v1/playbooks/d/events"))
        await peers.opened.wait()
        refused = await client.get("/v1/playbooks/d/events")
        read = await client.get("/v1/playbooks/d")
        progress.end_endless()
        await watching
    assert (refused.status_code, refused.json()["reason"]) == (429, "OVERLOADED")
    assert read.status_code == 200
