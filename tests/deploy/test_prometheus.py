"""A real Prometheus scrapes production over TLS, by the scrapes and alerts of the overlay; it answers the dashboard."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from chassis.errors import HanseiError
from hansei.client import Client
from hansei.client.tls import Tls
from hansei.planner.v1.planner_pb2 import ACTION_ASK_USER, ACTION_RAG_SEARCH, Plan, PlanStep
from tests.deploy.cluster import Cluster, Pod, cluster
from tests.deploy.manifests import load_manifests, pod, write_test_overlay
from tests.fakes.openai_answers import chat
from tests.fakes.openai_server import OpenAIServer
from tests.support.bulk_jobs import build_trajectories, parts
from tests.support.postgres_server import find_postgres_programs_or_skip, postgres_server
from tests.support.systems import ROOT, SERVICES, free_port

WAIT_SECONDS = 90
PAUSE_SECONDS = 0.3
RUN = ROOT / "examples/trajectories/git-commit-identity.json"
DASHBOARD = json.loads((ROOT / "deploy/kubernetes/components/monitoring/dashboard.json").read_text())
QUERIES = {
    panel["title"]: target["expr"].replace("$__rate_interval", "2m")
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", [])
}
# This failure does not occur in the tests, so only the metric and its labels are checked.
NEVER_HERE = {"Conflicts": 'hansei_playbook_deltas_total{outcome!=""}'}


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        assert not os.environ.get("HANSEI_REQUIRE_PROMETHEUS"), f"{name} is not installed"
        pytest.skip(f"{name} is not installed: no metrics were read")
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    _program("prometheus")
    data = tmp_path_factory.mktemp("production")
    with (
        OpenAIServer(otherwise=chat("Set user.email first.")) as model,
        postgres_server(find_postgres_programs_or_skip()) as postgres,
        cluster(
            load_manifests(write_test_overlay(data)),
            postgres,
            data,
            extra={
                "planner": {
                    "LLM_PROVIDER": "openai",
                    "LLM_MODEL": "gpt-4o-mini",
                    "OPENAI_API_KEY": "none",
                    "OPENAI_BASE_URL": model.base_url,
                }
            },
        ) as running,
    ):
        yield running


class Prometheus:
    """A running server."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def get(self, path: str, **parameters: str) -> Any:
        return self._client.get(path, params=parameters).raise_for_status().json()["data"]

    def is_ready(self) -> bool:
        """Return whether it answers queries; it listens earlier."""
        return self._client.get("/-/ready").is_success

    def wait_for(self, found: Callable[[], Any], what: str) -> Any:
        """Call `found` until it returns a true value, and return that."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            try:
                if result := found():
                    return result
            except httpx.TransportError:
                pass
            time.sleep(PAUSE_SECONDS)
        raise AssertionError(f"{what}: no result within {WAIT_SECONDS} s")

    def result(self, query: str) -> Any:
        """Return the result of a query as soon as it is not empty."""
        return self.wait_for(lambda: self.get("/api/v1/query", query=query)["result"], query)


def settings_here(running: Cluster, folder: Path) -> Path:
    """The files that Prometheus is given, with the addresses of this machine; names in certificates are checked."""
    volumes = {volume["name"]: volume for volume in pod(running.manifests.workloads()["prometheus"])["volumes"]}
    files = running.manifests.manifest("ConfigMap", volumes["settings"]["configMap"]["name"])["data"]
    (folder / "ca.crt").write_bytes(running.authority.pem)
    settings = yaml.safe_load(files["prometheus.yml"])
    settings["global"] = dict.fromkeys(settings["global"], "1s")
    for job in settings["scrape_configs"]:
        (names,) = job.pop("dns_sd_configs")
        (name,) = names["names"]
        job["static_configs"] = [{"targets": [running.network.test_address(Pod(name), names["port"])]}]
        job["tls_config"]["ca_file"] = str(folder / "ca.crt")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    for name in settings["rule_files"]:
        (folder / name).write_text(files[name])
    return folder / "prometheus.yml"


@pytest.fixture(scope="module")
def prometheus(running: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    settings, address = settings_here(running, folder), f"127.0.0.1:{free_port()}"
    subprocess.run([_program("promtool"), "check", "config", str(settings)], check=True, timeout=60)
    command = [
        _program("prometheus"),
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=30, trust_env=False) as client:
            server = Prometheus(client)
            server.wait_for(server.is_ready, "Prometheus")
            yield server
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def exercise_every_service(running: Cluster, prometheus: Prometheus) -> None:
    """Learn directly and by a job, vote, search, plan, answer a question and call a model."""
    environment = running.environment("gateway")
    tls = Tls(authorities=environment["HANSEI_TLS_AUTHORITIES"])
    address = running.address("gateway", SERVICES["gateway"]["listen"])
    with Client(address, token=environment["GATEWAY_API_TOKEN"], tls=tls) as client:
        (parsed,) = client.reflector.parse_trajectories(content=RUN.read_bytes(), dataset="seen").trajectories
        parsed.trajectory.dataset = "seen"
        learned = client.learn(parsed.trajectory, ground_truth=parsed.ground_truth, test_report=parsed.test_report)
        (bullet, *_) = client.search("seen", "commit", min_revision=learned.curation.revision).results
        parsed.trajectory.id, parsed.trajectory.used_bullet_ids[:] = "again", [bullet.bullet.id]
        client.learn(parsed.trajectory, ground_truth=parsed.ground_truth, test_report=parsed.test_report)
        client.gateway.run_workflow(query="How do I commit?", dataset="seen")
        client.planner.run_plan(plan=a_plan(ACTION_RAG_SEARCH, "How do I commit?"))
        list(client.planner.execute_plan(plan=a_plan(ACTION_ASK_USER, "Which name?")))
        job = client.jobs.submit(parts("queued", build_trajectories("queued", 3), str(uuid.uuid4()))).job
        list(client.jobs.watch(job_id=job.job_id))
        with pytest.raises(HanseiError):
            client.curator.get_curation(request_id=str(uuid.uuid4()), dataset="nowhere")


def a_plan(action: Any, query: str) -> Plan:
    step = PlanStep(step_id=1, action=action, description="a step", query=query, collection="seen")
    return Plan(plan_id=uuid.uuid4().hex[:12], original_query=query, complexity=0.5, steps=[step])


def test_every_service_is_scraped(prometheus: Prometheus) -> None:
    prometheus.wait_for(lambda: len(prometheus.result("up == 1")) == len(SERVICES), "all services up")


@pytest.mark.parametrize("title", QUERIES)
def test_the_dashboard_uses_only_existing_metrics(
    exercise_every_service: None, prometheus: Prometheus, title: str
) -> None:
    assert prometheus.result(NEVER_HERE.get(title, QUERIES[title]))


def test_alerts_use_only_existing_metrics(exercise_every_service: None, prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]
    metrics = {name for rule in rules for name in re.findall(r"(?<!by \()\b([a-z]\w+)(?=[{\[)]| [<>])", rule["query"])}
    assert len(metrics) == len(rules)  # one alert has two, and two alerts have the same one
    for metric in metrics:
        prometheus.result(metric)


def test_alerts_are_evaluated_and_do_not_fire(exercise_every_service: None, prometheus: Prometheus) -> None:
    def has_only_expected_alerts() -> bool:
        rules = [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]
        raised = {rule["name"] for rule in rules if rule["state"] != "inactive"}
        # The certificates of the tests are valid for a day, so exactly this alert must fire.
        return all(rule["health"] == "ok" for rule in rules) and raised == {"HanseiCertificateExpires"}

    # For a moment, a starting process looks absent, and a finished job looks waiting.
    prometheus.wait_for(has_only_expected_alerts, "every alert but that of the certificates inactive")
    prometheus.result('ALERTS{alertname="HanseiCertificateExpires", job="curator"}')


def test_an_alert_fires_for_a_dead_service(
    exercise_every_service: None, running: Cluster, prometheus: Prometheus
) -> None:
    running.processes[Pod("validator")].kill()
    (found,) = prometheus.result('ALERTS{alertname="HanseiServiceMissing"}')
    assert found["metric"]["job"] == "validator"
