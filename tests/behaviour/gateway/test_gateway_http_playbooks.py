"""Playbooks, reviews and executions over HTTP: everything hansei in one process, over real sockets."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import systems

SECONDS = 60


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    address = f"127.0.0.1:{systems.free_port()}"
    data = tmp_path_factory.mktemp("http")
    with (
        systems.one_process(data, HANSEI_HTTP_ADDRESS=address),
        httpx.Client(base_url=f"http://{address}", timeout=SECONDS) as client,
    ):
        yield client


def new_id() -> str:
    return str(uuid.uuid4())


def add(client: httpx.Client, dataset: str, *texts: str) -> int:
    """Return the revision that holds new bullets."""
    deltas = [{"type": "DELTA_TYPE_ADD", "section": "s", "content": text, "reasoning": "r"} for text in texts]
    body = {"request_id": new_id(), "deltas": deltas, "author": "ann"}
    return int(client.post(f"/v1/playbooks/{dataset}/deltas", json=body).raise_for_status().json()["revision"])


def events(response: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """Id, name and data of each event as it comes."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
        elif "data" in fields:
            yield fields.pop("id", ""), fields.pop("event"), json.loads(fields.pop("data"))


def test_a_playbook_is_edited_read_compared_and_brought_back(client: httpx.Client) -> None:
    first = add(client, "http-book", "one", "二")
    second = add(client, "http-book", "three")
    assert "http-book" in [dataset["name"] for dataset in client.get("/v1/playbooks").json()["datasets"]]
    page = client.get("/v1/playbooks/http-book/bullets", params={"page_size": 2}).json()
    rest = client.get("/v1/playbooks/http-book/bullets", params={"page_token": page["next_page_token"]}).json()
    assert [bullet["content"] for bullet in page["bullets"] + rest["bullets"]] == ["one", "二", "three"]
    asof = client.get("/v1/playbooks/http-book", params={"revision": first}).json()["playbook"]
    assert [bullet["content"] for bullet in asof["bullets"]] == ["one", "二"]
    history = client.get(f"/v1/playbooks/http-book/bullets/{rest['bullets'][0]['id']}/history").json()
    assert [revision["revision"] for revision in history["revisions"]] == [str(second)]
    body = {"request_id": new_id(), "revision": str(first)}
    restored = client.post("/v1/playbooks/http-book/restore", json=body).json()
    assert [change["before"]["content"] for change in restored["changes"]] == ["three"]
    assert client.post("/v1/playbooks/http-book/restore", json=body).json() == restored  # once per request_id


def test_changes_that_wait_are_approved_and_rejected(client: httpx.Client) -> None:
    policy = {"request_id": new_id(), "policy": {"review_mode": "REVIEW_MODE_REVIEW"}}
    client.put("/v1/playbooks/http-review/policy", json=policy).raise_for_status()
    add(client, "http-review", "good", "bad")
    waiting = client.get("/v1/playbooks/http-review/pending").json()["changes"]
    good, bad = sorted(waiting, key=lambda change: str(change["delta"]["content"]), reverse=True)
    path = "/v1/playbooks/http-review/pending"
    approved = {"request_id": new_id(), "ids": [good["id"]], "decision": "DECISION_APPROVE"}
    rejected = {"request_id": new_id(), "ids": [bad["id"]], "decision": "DECISION_REJECT", "reason": "no"}
    assert client.post(path, json=approved).json()["changes"][0]["state"] == "PENDING_STATE_APPROVED"
    assert client.post(path, json=rejected).json()["changes"][0]["decision_reason"] == "no"
    shown = client.get("/v1/playbooks/http-review").json()["playbook"]["bullets"]
    assert [bullet["content"] for bullet in shown] == ["good"]


def test_a_playbook_is_followed_live_and_resumed(client: httpx.Client) -> None:
    revision = add(client, "http-feed", "one")
    path = "/v1/playbooks/http-feed/events"
    with client.stream("GET", path) as response:
        messages = events(response)
        assert next(messages)[0] == str(revision)
        later = add(client, "http-feed", "two")  # while it is watched
        identity, name, event = next(message for message in messages if "revision" in message[2])
    assert (identity, name) == (str(later), "message")
    assert event["revision"]["revision"] == str(later)
    with client.stream("GET", path, headers={"Last-Event-ID": str(revision)}) as response:
        assert next(events(response))[0] == str(later)


def test_a_feed_from_the_future_has_its_status(client: httpx.Client) -> None:
    response = client.get("/v1/playbooks/http-feed/events", params={"from_revision": 99})
    assert (response.status_code, response.json()["code"]) == (400, "OUT_OF_RANGE")


def test_a_plan_is_executed_asks_is_answered_and_followed(client: httpx.Client) -> None:
    step = {"step_id": 1, "action": "ACTION_ASK_USER", "description": "ask", "query": "Which colour?"}
    plan = {"plan_id": new_id()[-12:], "original_query": "Colour?", "complexity": 0.5, "steps": [step]}
    path = f"/v1/executions/{plan['plan_id']}"
    with client.stream("POST", "/v1/executions", json={"request_id": new_id(), "plan": plan}) as response:
        begun = list(events(response))
    assert begun[-1][1] == "end"
    paused = client.get(path).json()["execution"]
    assert paused["status"] == "EXECUTION_STATUS_PAUSED"
    assert "flowchart" in client.get(f"{path}/mermaid").json()["mermaid"]
    question = paused["intervention_request"]
    answer = {
        "answer_token": question["answer_token"],
        "plan_version": question["plan_version"],
        "step_id": question["step_id"],
        "response": {"user_input": "red"},
    }
    with client.stream("POST", f"{path}/answer", json=answer) as response:
        answered = list(events(response))
    assert [name for _, name, _ in answered if name != "message"] == ["end"]
    last_seen = begun[-2][0]
    with client.stream("GET", f"{path}/events", headers={"Last-Event-ID": last_seen}) as response:
        followed = [identity for identity, name, _ in events(response) if name == "message"]
    assert followed == [str(number) for number in range(int(last_seen) + 1, int(last_seen) + 1 + len(followed))]
    listed = client.get("/v1/executions", params={"query_contains": "Colour?"}).json()["executions"]
    assert plan["plan_id"] in [execution["execution_id"] for execution in listed]
    assert client.get(f"{path}/verification").json()["intact"] is True


def test_rounds_are_reported_one_by_one_and_ranked(client: httpx.Client) -> None:
    body = {
        "user_prompt": "How does one keep a changelog?",
        "execution_id": new_id(),
        "max_rounds": 1,
        "teams": [{"team_id": "a", "team_name": "A", "dataset": "http-book"}],
    }
    with client.stream("POST", "/v1/rounds", json=body) as response:
        messages = list(events(response))
    assert [name for _, name, _ in messages] == ["message", "message", "end"]
    assert messages[1][2]["result"]
    rows = client.get(f"/v1/rounds/{body['execution_id']}/ranking").json()["rows"]
    assert [row["team_id"] for row in rows] == ["a"]
    assert client.get(f"/v1/rounds/{body['execution_id']}/best").json()["entry"]["key"]["team_id"] == "a"


def test_the_services_behind_the_gateway_tell_how_they_are(client: httpx.Client) -> None:
    states = {service["name"]: service["state"] for service in client.get("/v1/services").json()["services"]}
    assert states == dict.fromkeys(("curator", "reflector", "search", "planner", "validator", "evidence"), "SERVING")
