"""The HTTP face as a caller sees it: the gateway's own process before real services, over real sockets."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.http.reports import DOCUMENTS
from tests.fakes.openai_answers import Answer, chat, chat_json, error
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems
from tests.support.processes import ModuleCommand, Process, start
from tests.support.shared_resources import CODE

DASHBOARD = DOCUMENTS["run"]["requestBody"]["content"]["application/json"]["example"]["dashboard"]
SECONDS = 60
LESSON = "六の七倍は四十二 {x}"
LEARN: dict[str, Any] = {
    "request_id": "0b6c4f6e-6c0a-4a2e-9f27-6d1c5b8f0a11",
    "dataset": "http-example",
    "ground_truth": "42",
    "trajectory": {
        "id": "run-1",
        "dataset": "http-example",
        "query": "6 times 7?",
        "generated_answer": "41",
        "status": "TRAJECTORY_STATUS_FAILURE",
    },
}


@dataclass(frozen=True)
class RunningGateway:
    """A running gateway: where it serves HTTP and gRPC, and its process."""

    url: str
    address: str
    process: Process

    def client(self, **headers: str) -> httpx.Client:
        """Return a client of the HTTP server."""
        return httpx.Client(base_url=self.url, timeout=SECONDS, headers=headers)


@contextmanager
def gateway_before(
    data: Path, peers: dict[str, str], module: str = "gateway", **environment: str
) -> Iterator[RunningGateway]:
    """Yield the process of the gateway, or of another service, until the block ends."""
    address, http = f"127.0.0.1:{systems.free_port()}", f"127.0.0.1:{systems.free_port()}"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HANSEI_", "OPENAI_", "LLM_", "GATEWAY_"))}
    own = {"HANSEI_LISTEN_ADDRESS": address, "HANSEI_HTTP_ADDRESS": http, "PYTHONPATH": CODE, **peers, **environment}
    with (data / f"{module}.log").open("wb") as log:
        process = start(ModuleCommand(module, str(data), {**inherited, **own}), log, log)
        try:
            system = systems.System("one service", {module: address}, data, {}, {module: process})
            systems.wait_until_serving(system, module, address)
            yield RunningGateway(f"http://{http}", address, process)
        finally:
            process.terminate()
            process.wait(systems.STOP_SECONDS)


@pytest.fixture(scope="module")
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture(autouse=True)
def default_answer(model: OpenAIServer) -> Iterator[None]:
    """Each test begins with a model that answers the same to everybody."""
    model.answer_with(chat("答え {x}"))
    yield
    model.release()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, model: OpenAIServer) -> Iterator[dict[str, str]]:
    """Yield the addresses of all services behind the gateway."""
    model.answer_with(chat("答え {x}"))
    environment = {
        "LLM_PROVIDER": "openai",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": model.base_url,
        "LLM_RETRIES": "0",
    }
    with systems.one_process(tmp_path_factory.mktemp("stack"), **environment) as system:
        yield dict.fromkeys(systems.PEERS, system.address)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, stack: dict[str, str]) -> Iterator[RunningGateway]:
    with gateway_before(tmp_path_factory.mktemp("front"), stack) as running:
        yield running


@pytest.fixture(scope="module")
def lone_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with a token and only a validator without a key behind it; nobody else is there."""
    dead = dict.fromkeys(systems.PEERS, f"127.0.0.1:{systems.free_port()}")
    data = tmp_path_factory.mktemp("alone")
    with (
        gateway_before(data, {}, "services.validator", LEADERBOARD_DB=str(data / "leaderboard.db")) as validator,
        gateway_before(data, {**dead, "VALIDATOR_ADDR": validator.address}, GATEWAY_API_TOKEN="token") as running,
    ):
        yield running


def test_the_workflow_answers_in_style_plain(front: RunningGateway, model: OpenAIServer) -> None:
    before = len(model.requests)
    with front.client() as client:
        response = client.post("/workflow/run", json={"query": "Q {y}", "dataset": "http-empty"})
    assert (response.status_code, response.json()) == (
        200,
        {"llm_response": "答え {x}", "search_results_count": 0},
    )  # G-19, G-36
    assert "答え".encode() in response.content  # G-31
    assert model.requests[before].prompt == "Context:\n\n\nQuery: Q {y}\n\nAnswer:"  # G-35, G-67


def test_a_failed_generation_is_502(front: RunningGateway, model: OpenAIServer) -> None:
    model.answer_with(error(400, "no such model"))
    with front.client() as client:
        response = client.post("/workflow/run", json={"query": "Q", "dataset": "http-empty"})
    assert response.status_code == 502  # G-21
    assert "400" in response.json()["detail"]


def test_errors_of_a_request_name_field_and_rule(front: RunningGateway) -> None:
    with front.client() as client:
        assert client.post("/workflow/run", json={"dataset": "d"}).status_code == 422  # G-20
        named = client.post("/workflow/run", json={"query": "Q", "dataset": "a b"})
    assert (named.status_code, named.json()) == (400, {"detail": "Invalid dataset name: 'a b'"})  # G-20


def learned_reply(content: str) -> Answer:
    """Return a reply that both the reflector and the curator can read."""
    lesson = dict.fromkeys(("what_happened", "cause", "better", "lesson"), content)
    operation = {"reasoning": "r", "lesson": 1, "op": "ADD", "section": "math", "content": content}
    return chat_json({"lessons": [lesson], "operations": [operation]})


def test_learned_bullets_are_searched_and_read(front: RunningGateway, model: OpenAIServer) -> None:
    dataset = LEARN["dataset"]
    model.answer_with(learned_reply(LESSON))
    with front.client() as client:
        learned = client.post("/v1/learn", json=LEARN)
        again = client.post("/v1/learn", json=LEARN)
        book = client.get(f"/v1/playbooks/{dataset}").json()["playbook"]
        history = client.get(f"/v1/playbooks/{dataset}/history", params={"page_size": 5}).json()
        diff = client.get(f"/v1/playbooks/{dataset}/diff", params={"from_revision": 0}).json()
        query = {"dataset": dataset, "query": {"query_text": "commit fails"}, "min_revision": "1"}
        found = client.post("/v1/search", json=query).json()
    assert (learned.status_code, learned.json()["curation"]["revision"]) == (200, "1")
    repeated = {"already_learned": True, "usage": again.json()["usage"]}
    assert again.json() == learned.json() | repeated  # exactly once per request_id
    assert (learned.json()["usage"]["calls"], again.json()["usage"]["calls"]) == (2, 0)
    assert [bullet["content"] for bullet in book["bullets"]] == [LESSON]  # G-31, G-67
    assert [revision["revision"] for revision in history["revisions"]] == ["1"]
    assert [change["after"]["content"] for change in diff["changes"]] == [LESSON]
    assert [result["bullet"]["content"] for result in found["results"]] == [LESSON]


def test_a_key_in_the_header_makes_a_change_happen_once(front: RunningGateway, model: OpenAIServer) -> None:
    model.answer_with(learned_reply("Two halves make a whole"))
    key = "5d1c2a7e-4a53-4f6c-9a0f-2f8d1f1f7a01"
    body = {**LEARN, "dataset": "header-key", "trajectory": {**LEARN["trajectory"], "dataset": "header-key"}}
    del body["request_id"]
    with front.client(**{"Idempotency-Key": f'"{key}"'}) as client:
        first, second = (client.post("/v1/learn", json=body) for _ in range(2))
        events = client.post("/v1/learn/events", json=body)
        other = client.post("/v1/learn", json={**body, "request_id": LEARN["request_id"]})
    with front.client(**{"Idempotency-Key": "order-7"}) as client:
        no_key = client.post("/v1/learn", json=body)
        history = client.get("/v1/playbooks/header-key/history").json()
    repeated = {"already_learned": True, "usage": second.json()["usage"]}
    assert (first.status_code, second.json()) == (200, first.json() | repeated)
    assert "event: end" in events.text
    assert len(history["revisions"]) == 1
    assert (other.status_code, no_key.status_code) == (400, 400)
    assert no_key.json()["violations"][0]["field"] == "Idempotency-Key"


def test_the_document_serves_generators_and_people(front: RunningGateway) -> None:
    with front.client() as client:
        document = client.get("/openapi.json").json()
        page = client.get("/docs")
        missing = client.get("/v1/executions/no-such-execution")
    operations = [operation for verbs in document["paths"].values() for operation in verbs.values()]
    ids = {operation["operationId"] for operation in operations}
    assert len(ids) == len(operations)
    assert [name for name in ids if not re.fullmatch(r"[A-Z][A-Za-z]+_[A-Z][A-Za-z]+(_\d)?", name)] == []
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["security"] == [{}, {"token": []}]
    learn = document["paths"]["/v1/learn"]["post"]["parameters"]
    assert [(parameter["name"], parameter["in"]) for parameter in learn] == [("Idempotency-Key", "header")]
    assert (page.status_code, page.headers["location"]) == (307, "/console/#/api")
    assert (missing.status_code, missing.json()["reason"]) == (404, "EXECUTION_NOT_FOUND")


def test_an_organizer_report_is_made_rendered_and_checked(front: RunningGateway, model: OpenAIServer) -> None:
    keys = ("decomposition_proposals", "grouping_proposals", "relation_proposals")
    made: dict[str, Any] = {**{key: [] for key in keys}, "summary": "まず状況を確認する案があります。"}
    model.answer_with(chat_json(made))
    with front.client() as client:
        run = client.post("/api/organizer/run", json={"dashboard": DASHBOARD})
        checked = client.post("/api/proposal-quality/validate", json={"type": "organizer", "report": made})
    assert run.status_code == 200, run.text
    assert run.json() == {"ok": True, "report": made, "errors": [], "warnings": [], "rendered": run.json()["rendered"]}
    assert run.json()["rendered"].startswith("まず状況を確認する案があります。")  # G-22
    assert (checked.status_code, checked.json()) == (200, {"ok": True, "errors": [], "warnings": []})  # G-27


def test_a_report_that_stays_invalid_is_an_answer_without_rendering(front: RunningGateway, model: OpenAIServer) -> None:
    model.answer_with(chat_json({"summary": "x"}))
    with front.client() as client:
        response = client.post("/api/advisor/run", json={"dashboard": DASHBOARD})
    assert response.status_code == 200  # G-22
    assert response.json()["ok"] is False
    assert response.json()["errors"]
    assert "rendered" not in response.json()  # G-74


@pytest.mark.parametrize("path", ["/api/organizer/run", "/api/advisor/run"])
@pytest.mark.parametrize("body", [{}, {"dashboard": 5}, {"dashboard": {"trays": []}}])
def test_an_invalid_dashboard_is_400(front: RunningGateway, path: str, body: dict[str, Any]) -> None:
    with front.client() as client:
        response = client.post(path, json=body)
    assert response.status_code == 400
    assert response.json() == {
        "ok": False,
        "report": None,
        "errors": ["dashboard is required (object with trays)"],
        "warnings": [],
    }  # G-23


def test_a_body_that_is_no_object_is_400(front: RunningGateway) -> None:
    with front.client() as client:
        response = client.post("/api/proposal-quality/validate", content=b"[]")
    assert response.status_code == 400
    assert response.json() == {"ok": False, "errors": ["body must be JSON object"], "warnings": []}  # G-29


def test_errors_of_services_are_problems_with_their_reasons(front: RunningGateway) -> None:
    with front.client() as client:
        response = client.get("/v1/playbooks/http-empty", params={"revision": 99, "allow_missing": True})
    assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json")
    assert response.json()["code"] == "OUT_OF_RANGE"


def test_the_advisor_example_of_the_document_is_valid(front: RunningGateway) -> None:
    with front.client() as client:
        described = client.get("/openapi.json").json()
        operation = described["paths"]["/api/proposal-quality/validate"]["post"]
        example = operation["requestBody"]["content"]["application/json"]["example"]
        response = client.post("/api/proposal-quality/validate", json=example)
    assert response.json() == {"ok": True, "errors": [], "warnings": []}


def test_health_responds_when_all_other_calls_are_refused(lone_gateway: RunningGateway) -> None:
    with lone_gateway.client() as client:
        response = client.get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})  # G-18, G-30


def test_without_the_token_every_other_call_is_refused(lone_gateway: RunningGateway) -> None:
    with lone_gateway.client() as client:
        response = client.post("/workflow/run", json={"query": "Q"})
    assert (response.status_code, response.json()) == (401, {"error": "Unauthorized"})  # G-30


def test_an_unavailable_service_is_503(lone_gateway: RunningGateway) -> None:
    with lone_gateway.client(Authorization="Bearer token") as client:
        response = client.post("/workflow/run", json={"query": "Q"})
    assert (response.status_code, response.json()) == (503, {"detail": "curator does not answer"})  # G-21


@pytest.mark.parametrize("path", ["/api/organizer/run", "/api/advisor/run"])
def test_a_missing_key_is_500(lone_gateway: RunningGateway, path: str) -> None:
    with lone_gateway.client(Authorization="Bearer token") as client:
        response = client.post(path, json={"dashboard": DASHBOARD})
    assert response.status_code == 500
    assert response.json() == {
        "ok": False,
        "report": None,
        "errors": ["OPENAI_API_KEY is not set"],
        "warnings": [],
    }  # G-09, G-24


def test_a_request_in_progress_is_finished_before_the_process_ends(
    tmp_path: Path, stack: dict[str, str], model: OpenAIServer
) -> None:
    responses: list[httpx.Response] = []

    def ask(url: str) -> None:
        responses.append(
            httpx.post(f"{url}/workflow/run", json={"query": "Q", "dataset": "http-empty"}, timeout=SECONDS)
        )

    with gateway_before(tmp_path, stack, HANSEI_LAME_DUCK_SECONDS="0") as leaving:
        model.hold()
        asking = threading.Thread(target=ask, args=(leaving.url,))
        before = len(model.requests)
        asking.start()
        model.wait_for_requests(before + 1)
        _terminate(leaving)
        model.release()
        asking.join(SECONDS)
        assert leaving.process.wait(systems.STOP_SECONDS) == 0
    assert [response.status_code for response in responses] == [200]


def _terminate(front: RunningGateway) -> None:
    """Send SIGTERM and wait until the process has begun to leave."""
    with grpc.insecure_channel(front.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        front.process.terminate()
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING


def test_an_address_that_is_taken_is_named(tmp_path: Path, front: RunningGateway) -> None:
    address = front.url.removeprefix("http://")
    status, output = systems.failed_start(tmp_path, "gateway", HANSEI_HTTP_ADDRESS=address)
    assert status == 1
    assert f"HANSEI_HTTP_ADDRESS: cannot listen on '{address}'" in output
    assert "Traceback" not in output
