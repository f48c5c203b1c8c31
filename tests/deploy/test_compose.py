"""Run deploy/compose.yaml as a user does: start, call, restart, stop, remove and start it again.

It runs under a name, with passwords and on ports of its own, beside whatever else the engine runs. That takes an engine
with compose, and the images: `make compose-check` builds them and has these tests run; elsewhere they are skipped and
say so.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import pytest

from chassis.errors import Unauthenticated
from hansei.client import Client
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
from tests.deploy.engine import NO_RIGHTS, docker, rights
from tests.deploy.readme import make_env_file, variables
from tests.deploy.walk import check_lesson_is_used, learn_from_trajectory
from tests.support.systems import ROOT, SERVICES, free_port

FILE = ROOT / "deploy/compose.yaml"
CONTAINERS = [*SERVICES, "postgres"]
# Variables that may differ between machines; the README's commands set all the others.
MACHINE = {"POSTGRES_IMAGE"}
START_SECONDS = "300"

pytestmark = pytest.mark.skipif(
    not os.environ.get("HANSEI_REQUIRE_COMPOSE"), reason="compose.yaml was not run: make compose-check does"
)


@dataclass(frozen=True)
class Stack:
    """The containers that compose started from the file."""

    project: str
    settings: Path

    @cached_property
    def env_file_variables(self) -> dict[str, str]:
        return variables(self.settings)

    def compose(self, *arguments: str) -> str:
        file_variables = set(re.findall(r"\$\{(\w+)", FILE.read_text())) - MACHINE
        environment = {name: value for name, value in os.environ.items() if name not in file_variables}
        named = ["--project-name", self.project, "--env-file", str(self.settings), "--file", str(FILE)]
        return docker("compose", *named, *arguments, environment=environment)

    def start(self) -> None:
        """Start the containers, and wait until every one reports that it is healthy."""
        try:
            self.compose("up", "--detach", "--wait", "--wait-timeout", START_SECONDS)
        except AssertionError as error:
            error.add_note(self.compose("ps", "--all") + self.compose("logs", "--tail", "20"))
            raise

    def container(self, service: str) -> str:
        return self.compose("ps", "--all", "--quiet", service).strip()

    def inspect(self, service: str) -> dict[str, Any]:
        (found,) = json.loads(docker("inspect", self.container(service)))
        return dict(found)

    def log(self) -> str:
        """Return the logs of the services since their containers were created."""
        return "".join(docker("logs", self.container(service)) for service in SERVICES)

    def complaints(self) -> list[dict[str, Any]]:
        """Return the records of failures; every line must be a record, so a bare Python traceback fails."""
        records = [json.loads(line) for line in self.log().splitlines()]
        return [record for record in records if record["level"] in ("error", "critical")]

    def client(self, token: str | None = None) -> Client:
        return Client(
            f"127.0.0.1:{self.env_file_variables['GRPC_PORT']}",
            token=self.env_file_variables["GATEWAY_API_TOKEN"] if token is None else token,
        )

    def http(self, method: str, path: str, **options: Any) -> httpx.Response:
        return httpx.request(
            method, f"http://127.0.0.1:{self.env_file_variables['HTTP_PORT']}{path}", timeout=30, **options
        )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = make_env_file(tmp_path_factory.mktemp("compose"))
    with settings.open("a") as more:
        more.write(f"GRPC_PORT={free_port()}\nHTTP_PORT={free_port()}\n")
    made = Stack(f"hansei-check-{uuid.uuid4().hex[:8]}", settings)
    try:
        made.start()
        yield made
    finally:
        made.compose("down", "--volumes")


@pytest.fixture(scope="module")
def learned_trajectory(stack: Stack) -> tuple[str, LearnResponse]:
    with stack.client() as client:
        return learn_from_trajectory(client)


@pytest.mark.parametrize("service", CONTAINERS)
def test_each_container_starts_at_the_first_attempt(stack: Stack, service: str) -> None:
    inspection = stack.inspect(service)
    assert inspection["State"]["Health"]["Status"] == "healthy"
    assert inspection["RestartCount"] == 0


@pytest.mark.parametrize("service", CONTAINERS)
def test_each_container_has_the_limits_of_the_file(stack: Stack, service: str) -> None:
    limits = stack.inspect(service)["HostConfig"]
    assert limits["ReadonlyRootfs"] is True
    assert limits["CapDrop"] == ["ALL"]
    assert limits["SecurityOpt"] == ["no-new-privileges:true"]
    assert limits["Privileged"] is False


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_no_rights(stack: Stack, service: str) -> None:
    assert rights(stack.container(service)) == NO_RIGHTS


def test_only_the_gateway_is_reachable_and_only_from_this_machine(stack: Stack) -> None:
    bound = {container: stack.inspect(container)["HostConfig"]["PortBindings"] or {} for container in CONTAINERS}
    assert {container: ports for container, ports in bound.items() if ports} == {
        "gateway": {
            "50050/tcp": [{"HostIp": "127.0.0.1", "HostPort": stack.env_file_variables["GRPC_PORT"]}],
            "8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": stack.env_file_variables["HTTP_PORT"]}],
        }
    }


def test_what_is_learned_is_found_answered_and_planned_with(
    stack: Stack, learned_trajectory: tuple[str, LearnResponse]
) -> None:
    with stack.client() as client:
        check_lesson_is_used(client, *learned_trajectory)


def test_calls_need_the_token(stack: Stack, learned_trajectory: tuple[str, LearnResponse]) -> None:
    with stack.client(token="") as client, pytest.raises(Unauthenticated):
        client.search(learned_trajectory[0], "What went wrong?")


def test_http_admits_callers_with_the_token(
    stack: Stack, learned_trajectory: tuple[str, LearnResponse]
) -> None:  # G-18, G-30
    assert stack.http("GET", "/health").json() == {"status": "ok"}
    request: dict[str, Any] = {"json": {"query": "What went wrong?", "dataset": learned_trajectory[0]}}
    assert stack.http("POST", "/workflow/run", **request).status_code == 401
    bearing = {"Authorization": f"Bearer {stack.env_file_variables['GATEWAY_API_TOKEN']}"}
    answered = stack.http("POST", "/workflow/run", headers=bearing, **request)
    assert answered.status_code == 200
    assert answered.json()["llm_response"]


def test_no_secret_is_logged(stack: Stack, learned_trajectory: tuple[str, LearnResponse]) -> None:
    log = stack.log()
    assert "server started" in log
    secrets = {name for name in stack.env_file_variables if name.endswith(("_PASSWORD", "_TOKEN"))}
    assert {name for name in secrets if stack.env_file_variables[name] in log} == set()


@pytest.mark.parametrize("interruption", ["stop", "down", "restart"])
def test_learned_lessons_survive_a_restart(
    stack: Stack, learned_trajectory: tuple[str, LearnResponse], interruption: str
) -> None:
    dataset, answer = learned_trajectory
    with stack.client() as client:
        before = client.playbooks.get(dataset=dataset)
    stack.compose(interruption)
    if interruption == "stop":
        assert {container: stack.inspect(container)["State"]["ExitCode"] for container in CONTAINERS} == dict.fromkeys(
            CONTAINERS, 0
        )
    stack.start()
    if interruption != "restart":  # It stops PostgreSQL while services still use it, and they log this.
        assert stack.complaints() == []
    with stack.client() as client:
        assert client.playbooks.get(dataset=dataset) == before
        check_lesson_is_used(client, dataset, answer)
