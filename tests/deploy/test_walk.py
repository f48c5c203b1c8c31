"""The overlays, run as processes: with the values of the manifests, learn, search, plan and answer work.

`dev` as it is; `production`, where everything goes over mutual TLS, with what an operator adds to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import grpc
import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import OperationalError

from hansei.client import Client
from hansei.client.tls import Tls
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
from tests.deploy.cluster import Cluster, Pod, cluster
from tests.deploy.manifests import OVERLAYS, container, load_manifests, write_test_overlay
from tests.deploy.readme import read_connections
from tests.deploy.walk import check_lesson_is_used, learn_from_trajectory
from tests.support.postgres_server import find_postgres_programs_or_skip, postgres_server
from tests.support.systems import ROOT, SERVICES

SECONDS = 30
# A method of each service that takes no empty request.
NEEDS_MORE = {
    "curator": "/hansei.playbook.v1.PlaybookService/GetPlaybook",
    "reflector": "/hansei.reflector.v1.ReflectorService/Reflect",
    "search": "/hansei.search.v1.SearchService/Search",
    "planner": "/hansei.planner.v1.PlannerService/RunPlan",
    "validator": "/hansei.validator.v1.ValidatorService/ValidateReport",
    "evidence": "/hansei.evidence.v1.EvidenceService/Recall",
}


@pytest.fixture(scope="module", params=["dev", "production"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data = tmp_path_factory.mktemp(request.param)
    manifests = load_manifests(OVERLAYS / "dev" if request.param == "dev" else write_test_overlay(data))
    with postgres_server(find_postgres_programs_or_skip()) as postgres, cluster(manifests, postgres, data) as running:
        yield running


def tls_of(running: Cluster) -> Tls | Literal[False]:
    """Return the TLS settings of a client of the gateway."""
    environment = running.environment("gateway")
    return Tls(authorities=environment["HANSEI_TLS_AUTHORITIES"]) if "HANSEI_TLS_AUTHORITIES" in environment else False


def client_of(running: Cluster) -> Client:
    address = running.address("gateway", SERVICES["gateway"]["listen"])
    return Client(address, token=token_of(running), tls=tls_of(running))


def token_of(running: Cluster) -> str:
    return running.environment("gateway")["GATEWAY_API_TOKEN"]


@pytest.fixture(scope="module")
def learned_trajectory(running: Cluster) -> tuple[str, LearnResponse]:
    with client_of(running) as client:
        return learn_from_trajectory(client)


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("kind", ["readinessProbe", "livenessProbe"])
def test_probes_are_answered_in_time(running: Cluster, name: str, kind: str) -> None:
    seconds = container(running.manifests.workloads()[name])[kind]["timeoutSeconds"]
    assert running.probe(name, kind, seconds) == "SERVING"


def test_what_is_learned_is_found_planned_with_and_answered(
    running: Cluster, learned_trajectory: tuple[str, LearnResponse]
) -> None:
    with client_of(running) as client:
        check_lesson_is_used(client, *learned_trajectory)


def test_http_asks_for_the_token_of_the_secret(
    running: Cluster, learned_trajectory: tuple[str, LearnResponse]
) -> None:  # G-18, G-30
    port = SERVICES["gateway"]["http"]
    assert running.http("gateway", port, "/health").json() == {"status": "ok"}
    request: dict[str, Any] = {
        "method": "POST",
        "json": {"query": "What went wrong?", "dataset": learned_trajectory[0]},
    }
    assert running.http("gateway", port, "/workflow/run", **request).status_code == 401
    bearing = {"Authorization": f"Bearer {token_of(running)}"}
    assert running.http("gateway", port, "/workflow/run", headers=bearing, **request).status_code == 200


@pytest.mark.parametrize("name", SERVICES)
def test_metrics_are_where_they_are_scraped(running: Cluster, name: str) -> None:
    assert "process_cpu_seconds_total" in running.http(name, SERVICES[name]["metrics"], "/metrics").text


def test_alerts_use_only_existing_metrics(running: Cluster, learned_trajectory: tuple[str, LearnResponse]) -> None:
    text = (ROOT / "deploy/kubernetes/components/monitoring/alerts.yaml").read_text()
    rpc_metrics = re.findall(r"(rpc_\w+)\{(\w+)=", text)
    assert rpc_metrics
    metrics = running.http("gateway", SERVICES["gateway"]["metrics"], "/metrics").text
    for metric, label in rpc_metrics:
        assert re.search(rf'^{metric}\{{[^}}]*{label}="OK"[^}}]*rpc_service="', metrics, re.MULTILINE), metric


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "gateway"])
def test_a_service_takes_the_calls_of_its_callers_only(running: Cluster, name: str) -> None:
    if not tls_of(running):
        pytest.skip("plaintext: only the network policies restrict who connects")
    address = running.address(name, SERVICES[name]["listen"])
    for other, listed in SERVICES.items():
        environment = running.environment(other)
        own = Tls(
            environment["HANSEI_TLS_AUTHORITIES"], environment["HANSEI_TLS_CERTIFICATE"], environment["HANSEI_TLS_KEY"]
        )
        allowed = name == other or name in listed["calls"]
        expected = grpc.StatusCode.INVALID_ARGUMENT if allowed else grpc.StatusCode.PERMISSION_DENIED
        assert _answer(address, own.credentials(), NEEDS_MORE[name]) is expected, f"{other} calls {name}"
    without = Tls(authorities=environment["HANSEI_TLS_AUTHORITIES"]).credentials()
    assert _answer(address, without, NEEDS_MORE[name]) is grpc.StatusCode.UNAVAILABLE
    assert _answer(address, None, NEEDS_MORE[name]) is grpc.StatusCode.UNAVAILABLE


def _answer(address: str, credentials: grpc.ChannelCredentials | None, path: str) -> grpc.StatusCode:
    """Return the status of a call with an empty request, which all methods called here reject."""
    made = grpc.secure_channel(address, credentials) if credentials else grpc.insecure_channel(address)
    with made as channel:
        call: Any = channel.unary_unary(path, None, None)
        with pytest.raises(grpc.RpcError) as failed:
            call(b"", timeout=SECONDS)
    return failed.value.code()


@pytest.mark.parametrize("name", [name for name, listed in SERVICES.items() if "database" in listed])
def test_state_is_in_a_database_of_its_own(
    running: Cluster, learned_trajectory: tuple[str, LearnResponse], name: str
) -> None:
    engine = create_engine(_sqlalchemy(running.environment(name)[SERVICES[name]["database"]]))
    try:
        assert inspect(engine).get_table_names()
    finally:
        engine.dispose()


def test_a_service_opens_no_more_connections_than_the_page_states(
    running: Cluster, learned_trajectory: tuple[str, LearnResponse]
) -> None:
    engine = create_engine(_sqlalchemy(running.postgres.url))
    query = "SELECT usename, count(*) FROM pg_stat_activity WHERE datname = usename GROUP BY 1"
    try:
        with engine.connect() as connection:
            opened = {name: count for name, count in connection.execute(text(query)) if name in SERVICES}
    finally:
        engine.dispose()
    stated = read_connections()
    assert opened.keys() == stated.keys() == {name for name, listed in SERVICES.items() if "database" in listed}
    assert {name: count for name, count in opened.items() if count > stated[name]} == {}


def test_no_service_may_open_the_database_of_another(running: Cluster) -> None:
    curator = running.environment("curator")["HANSEI_CURATOR_DATABASE_URL"]
    engine = create_engine(_sqlalchemy(curator).rpartition("/")[0] + "/planner")
    try:
        with pytest.raises(OperationalError, match="permission denied for database"), engine.connect():
            pass
    finally:
        engine.dispose()


def test_pods_end_well_within_their_grace_period(running: Cluster) -> None:
    with ThreadPoolExecutor(len(SERVICES)) as together:
        ended = together.map(lambda name: running.terminate(Pod(name)), SERVICES)
        assert dict(zip(SERVICES, ended, strict=True)) == dict.fromkeys(SERVICES, 0)


def _sqlalchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")
