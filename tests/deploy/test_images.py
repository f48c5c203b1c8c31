"""The images, run as a cluster runs them: read-only, without root, without capabilities.

They are looked at where a container engine runs and `make images-check` has built them; elsewhere these tests are
skipped and say so. `HANSEI_IMAGES_VERSION` names the tag, and then nothing is skipped.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.deploy.engine import NO_RIGHTS, PYTHON, docker, python, rights
from tests.support.systems import SERVICES, free_port

VERSION = os.environ.get("HANSEI_IMAGES_VERSION", "")
START_SECONDS = 120
STOP_SECONDS = 40
HEALTHCHECK = (PYTHON, "/srv/hansei/healthcheck.py")

pytestmark = pytest.mark.skipif(not VERSION, reason="images were neither built nor run: make images-check does")


@pytest.fixture(scope="module", params=SERVICES)
def running(request: pytest.FixtureRequest) -> Iterator[tuple[str, str, str]]:
    """Yield the name, container and address of a service."""
    with _container(request.param) as (container, address):
        yield request.param, container, address


def test_an_image_serves_each_of_its_services(running: tuple[str, str, str]) -> None:
    name, container, address = running
    with grpc.insecure_channel(address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(), timeout=START_SECONDS, wait_for_ready=True
        )
        try:
            next(answer for answer in watch if answer.status == health_pb2.HealthCheckResponse.SERVING)
        except (grpc.RpcError, StopIteration) as error:
            raise AssertionError(f"{name} did not start: {error}\n{docker('logs', container)[-4000:]}") from error
        watch.cancel()
        for service in SERVICES[name]["serves"]:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=service), timeout=5
            )
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_the_health_check_of_the_image_passes(running: tuple[str, str, str]) -> None:
    assert docker("exec", running[1], *HEALTHCHECK).strip() == "SERVING"


def test_a_container_has_no_privileges(running: tuple[str, str, str]) -> None:
    assert rights(running[1]) == NO_RIGHTS


def test_an_image_has_its_labels(running: tuple[str, str, str]) -> None:
    image = json.loads(docker("image", "inspect", f"hansei/{running[0]}:{VERSION}"))[0]["Config"]
    assert image["User"] == "10001:10001"
    assert image["Labels"]["org.opencontainers.image.title"] == f"hansei {running[0]}"
    assert image["Labels"]["org.opencontainers.image.version"] == VERSION
    assert image["Healthcheck"]["Test"] == ["CMD", *HEALTHCHECK]


def test_an_image_has_no_code_of_other_services(running: tuple[str, str, str]) -> None:
    found = python(running[1], "import os; print(*os.listdir('/srv/hansei'))").split()
    assert ("gateway" in found) == (running[0] == "gateway")
    if "services" in found:
        inside = "import os; print(*os.listdir('/srv/hansei/services'))"
        assert python(running[1], inside).split() == [running[0]]


def test_a_container_drains_and_exits_with_0(running: tuple[str, str, str]) -> None:
    docker("stop", "--time", str(STOP_SECONDS), running[1])
    assert docker("inspect", "--format", "{{.State.ExitCode}}", running[1]).strip() == "0"


@contextmanager
def _container(name: str) -> Iterator[tuple[str, str]]:
    address = f"127.0.0.1:{free_port()}"
    container = f"hansei-check-{name}-{uuid.uuid4().hex[:8]}"
    environment = {
        "HANSEI_LISTEN_ADDRESS": address,
        "HANSEI_HTTP_ADDRESS": "127.0.0.1:0",
        "LLM_PROVIDER": "offline",
        "PLAYBOOK_DATA_DIR": "/tmp/playbooks",
        "HANSEI_SEARCH_DATABASE_URL": "/tmp/search.db",
        "HANSEI_PLANNER_DATABASE_URL": "/tmp/planner.db",
        "HANSEI_VALIDATOR_DATABASE_URL": "/tmp/leaderboard.db",
        "HANSEI_EVIDENCE_DATABASE_URL": "/tmp/evidence.db",
        "HANSEI_GATEWAY_DATABASE_URL": "/tmp/gateway.db",
        "HANSEI_SEARCH_SNAPSHOT_DIR": "/tmp/snapshots",
    }
    limits = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp:size=256m"]
    variables = [f"--env={key}={value}" for key, value in environment.items()]
    # The host's network, so that loopback works with engines that create no bridge.
    docker("run", "--detach", "--name", container, "--network=host", *limits, *variables, f"hansei/{name}:{VERSION}")
    try:
        yield container, address
    finally:
        docker("rm", "--force", container)
