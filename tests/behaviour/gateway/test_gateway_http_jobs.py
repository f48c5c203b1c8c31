"""Jobs, files and ids over HTTP, over real sockets before a real hansei."""

from __future__ import annotations

import http.client
import json
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from google.protobuf.json_format import MessageToDict

from tests.contract.readmes import ROOT, all_lines
from tests.support import systems
from tests.support.bulk_jobs import build_trajectories

SECONDS = 60
FILES = ROOT / "services/reflector/tests/files"


@dataclass(frozen=True)
class Stack:
    """A hansei in one process: where it is, and a client of its HTTP."""

    system: systems.System
    client: httpx.Client


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    address, data = f"127.0.0.1:{systems.free_port()}", tmp_path_factory.mktemp("http-jobs")
    with (
        systems.one_process(data, HANSEI_HTTP_ADDRESS=address) as system,
        httpx.Client(base_url=f"http://{address}", timeout=SECONDS) as client,
    ):
        yield Stack(system, client)


@pytest.fixture
def client(stack: Stack) -> httpx.Client:
    return stack.client


@pytest.fixture
def dataset() -> str:
    return f"http-{uuid.uuid4().hex[:8]}"


def job(dataset: str, count: int) -> list[dict[str, Any]]:
    """Return a job as its messages, with an id of its own."""
    written = [
        MessageToDict(trajectory, preserving_proto_field_name=True) for trajectory in build_trajectories(dataset, count)
    ]
    head = {"request_id": str(uuid.uuid4()), "dataset": dataset}
    return [{"head": head}, {"batch": {"trajectories": [{"trajectory": trajectory} for trajectory in written]}}]


def follow_job(client: httpx.Client, job_id: str, **headers: str) -> list[dict[str, Any]]:
    """Return a job at each of its events, to the end."""
    with client.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as response:
        lines = list(response.iter_lines())
    assert "event: end" in lines
    data = (line.removeprefix("data: ") for line in lines if line.startswith("data: "))
    return [event["job"] for event in map(json.loads, data) if event]


def test_a_job_is_submitted_followed_and_listed(client: httpx.Client, dataset: str) -> None:
    messages = job(dataset, 12)
    job_id = messages[0]["head"]["request_id"]
    made = client.post("/v1/jobs", json=messages).raise_for_status().json()["job"]
    assert (made["job_id"], made["total"]) == (job_id, 12)
    ended = follow_job(client, job_id)[-1]
    assert (ended["state"], ended["learned"], ended["waiting"]) == ("JOB_STATE_COMPLETED", 12, 0)
    assert client.post("/v1/jobs", json=messages).json()["job"] == ended  # once per request_id
    assert client.get(f"/v1/jobs/{job_id}").json()["job"] == ended
    assert client.get("/v1/jobs", params={"dataset": dataset}).json()["jobs"] == [ended]
    # A new stream starts with the current state, because each event is the whole job.
    assert follow_job(client, job_id, **{"Last-Event-ID": "3"}) == [ended]
    book = client.get(f"/v1/playbooks/{dataset}").json()["playbook"]
    assert int(book["revision"]) == int(ended["revision"]) > 0


def test_a_job_with_a_wrong_trajectory_is_taken_not_at_all(client: httpx.Client, dataset: str) -> None:
    messages = job(dataset, 3)
    messages[1]["batch"]["trajectories"][2]["trajectory"]["dataset"] = "other"
    refused = client.post("/v1/jobs", json=messages)
    assert (refused.status_code, refused.json()["detail"]) == (400, "dataset mismatch")
    assert refused.json()["violations"][0]["field"] == "trajectories[2].trajectory.dataset"
    assert client.get("/v1/jobs", params={"dataset": dataset}).json()["jobs"] == []
    gone = client.get(f"/v1/jobs/{messages[0]['head']['request_id']}")
    assert (gone.status_code, gone.json()["reason"]) == (404, "JOB_NOT_FOUND")


def test_dead_letters_are_listed_and_retried(stack: Stack, tmp_path: Path, dataset: str) -> None:
    address = f"127.0.0.1:{systems.free_port()}"
    alone = {
        **dict.fromkeys(systems.PEERS, stack.system.address),
        "REFLECTOR_ADDR": f"127.0.0.1:{systems.free_port()}",
        "HANSEI_HTTP_ADDRESS": address,
        "HANSEI_BULK_ATTEMPTS": "1",
        "HANSEI_BULK_OUTAGE_SECONDS": "0",
    }
    with (
        systems.one_service(tmp_path, "gateway", **alone),
        httpx.Client(base_url=f"http://{address}", timeout=SECONDS) as client,
    ):
        job_id = client.post("/v1/jobs", json=job(dataset, 3)).json()["job"]["job_id"]
        assert follow_job(client, job_id)[-1]["state"] == "JOB_STATE_INCOMPLETE"
        path = f"/v1/jobs/{job_id}/dead-letters"
        first = client.get(path, params={"page_size": 2}).json()
        rest = client.get(path, params={"page_token": first["next_page_token"]}).json()
        letters = first["dead_letters"] + rest["dead_letters"]
        assert [letter["index"] for letter in letters] == [0, 1, 2]
        assert {letter["reason"] for letter in letters} == {"PEER_UNAVAILABLE"}
        again = client.post(f"{path}/retry", json={"request_id": str(uuid.uuid4())}).json()["job"]
        assert (again["state"], again["waiting"]) == ("JOB_STATE_RUNNING", 3)
        assert follow_job(client, job_id)[-1]["dead"] == 3


def test_a_cancelled_job_drops_its_waiting_trajectories(client: httpx.Client, dataset: str) -> None:
    job_id = client.post("/v1/jobs", json=job(dataset, 300)).json()["job"]["job_id"]
    cancelled = client.post(f"/v1/jobs/{job_id}/cancel", json={"request_id": str(uuid.uuid4())}).json()["job"]
    assert cancelled["dropped"] > 0
    ended = follow_job(client, job_id)[-1]
    assert (ended["state"], ended["waiting"]) == ("JOB_STATE_CANCELLED", 0)


@pytest.mark.parametrize(
    ("name", "expected"), [("anthropic.json", "ANTHROPIC"), ("atif.json", "ATIF"), ("swe_agent.traj", "SWE_AGENT")]
)
def test_the_trajectories_of_a_file_are_learned(client: httpx.Client, dataset: str, name: str, expected: str) -> None:
    content = (FILES / name).read_bytes()
    read = client.post("/v1/trajectories/parse", params={"dataset": dataset}, content=content).raise_for_status().json()
    assert read["format"] == f"TRAJECTORY_FORMAT_{expected}"
    (found,) = read["trajectories"]
    body = {"request_id": str(uuid.uuid4()), "dataset": dataset, **found}
    assert client.post("/v1/learn", json=body).raise_for_status().json()["curation"]["saved"] is True


def test_a_file_without_trajectories_is_refused_with_a_reason(client: httpx.Client) -> None:
    response = client.post("/v1/trajectories/parse", params={"dataset": "d"}, content=b"\xff\xfe not a run")
    assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json")
    assert response.json()["detail"]


def test_the_lines_of_the_readme_work(stack: Stack, dataset: str) -> None:
    """Run the lines of the README, with another port; endless streams are closed after a while."""
    lines = [line.command for line in all_lines(ROOT / "gateway/README.md") if line.command.startswith("curl ")]
    assert lines
    netloc = urlsplit(str(stack.client.base_url)).netloc
    delta = {"type": "DELTA_TYPE_ADD", "section": "s", "content": "Close the database before the backup"}
    edit = {"request_id": str(uuid.uuid4()), "deltas": [delta]}
    stack.client.post(f"/v1/playbooks/{dataset}/deltas", json=edit).raise_for_status()
    for line in lines:
        endless = "/playbooks/" in line and "/events" in line
        command = line.replace("127.0.0.1:8080", netloc).replace("gateway-readme", dataset)
        curl = ["curl", "--silent", "--fail-with-body", "--max-time", "2" if endless else str(SECONDS)]
        ran = subprocess.run([*curl, *shlex.split(command)[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == (28 if endless else 0), f"{line}\n{ran.stdout}"


@pytest.mark.parametrize("sent", ["a%2Fb", "%2E%2E", "%252F", "%E6%97%A5%2F%E6%9C%AC", "%3F", ".."])
def test_an_id_reaches_its_service_over_a_socket(client: httpx.Client, sent: str) -> None:
    """Send the path unchanged; the leaderboard accepts any text as the id of an execution."""
    address = urlsplit(str(client.base_url))
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=SECONDS)
    connection.request("GET", f"/v1/rounds/{sent}/best")
    response = connection.getresponse()
    error = json.loads(response.read())
    connection.close()
    assert (response.status, error["reason"]) == (404, "SUBMISSION_NOT_FOUND")
