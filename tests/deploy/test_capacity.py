"""The simulation of `bench/capacity`: queues with known formulas, a small cluster, and the overlay that follows it."""

from __future__ import annotations

import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.capacity.__main__ import PAGE
from bench.capacity.cluster import GOALS, Costs, Options, Workload
from bench.capacity.events import Action, Core, GroupCommits, SimulatedClock, Threads
from bench.capacity.sizing import LEAST_PODS, TARGET_UTILISATION, compute_demand, find_goals, find_pods, lose_node
from bench.report import HERE
from tests.deploy.manifests import NAMES, OVERLAYS, container, load_manifests, parse_bytes, pod
from tests.deploy.readme import read_connections
from tests.support.shared_resources import CODE
from tests.support.systems import SERVICES

SERVICE_SECONDS = 0.01
CUSTOMERS = 60_000
SCALER = "HorizontalPodAutoscaler"


def measure_mean_wait(utilisation: float, draw: Callable[[random.Random], float], quantum: float = math.inf) -> float:
    """Return the mean seconds for which a job waits for one thread on one core; jobs arrive at random (Poisson)."""
    rng, clock = random.Random(7), SimulatedClock()
    core = Core(clock, quantum)
    thread = Threads(core, 1 if quantum == math.inf else CUSTOMERS)
    waits: list[float] = []

    def draw_jobs() -> Iterator[tuple[float, Action]]:
        now = 0.0
        for _ in range(CUSTOMERS):
            now += rng.expovariate(utilisation / SERVICE_SECONDS)
            yield now, prepare(now, draw(rng))

    def prepare(arrived: float, seconds: float) -> Action:
        return lambda: thread.run(seconds, lambda: waits.append(clock.now - arrived - seconds))

    clock.follow(draw_jobs())
    clock.run()
    assert len(waits) == CUSTOMERS
    assert core.busy_seconds / clock.now == pytest.approx(utilisation, rel=0.03)
    return statistics.mean(waits)


def draw_exponential(rng: random.Random) -> float:
    return rng.expovariate(1 / SERVICE_SECONDS)


def draw_constant(_: random.Random) -> float:
    return SERVICE_SECONDS


@pytest.mark.parametrize("utilisation", [0.3, 0.5, 0.7])
def test_jobs_wait_as_long_as_in_the_formulas(utilisation: float) -> None:
    mm1 = utilisation / (1 - utilisation) * SERVICE_SECONDS
    assert measure_mean_wait(utilisation, draw_exponential) == pytest.approx(mm1, rel=0.05)
    assert measure_mean_wait(utilisation, draw_constant) == pytest.approx(mm1 / 2, rel=0.05)


def test_threads_that_share_a_core_wait_as_under_processor_sharing() -> None:
    """The mean of processor sharing depends on the mean of the jobs alone: that of M/M/1, here with constant jobs."""
    shared = measure_mean_wait(0.6, draw_constant, quantum=SERVICE_SECONDS / 20)
    assert shared == pytest.approx(0.6 / 0.4 * SERVICE_SECONDS, rel=0.08)


def test_callers_that_wait_for_a_flush_share_the_next_one() -> None:
    clock = SimulatedClock()
    commits = GroupCommits(clock, 1.0, 3)
    ended: list[float] = []
    for _ in range(5):
        commits.commit(lambda: ended.append(clock.now))
    clock.run()
    assert (ended, commits.commits) == ([1.0, 2.0, 2.0, 2.0, 3.0], 3)


def build_costs() -> Costs:
    """Return costs with round numbers: milliseconds of each process."""
    used = {
        "Recall": {"gateway": 1.0, "evidence": 1.0, "search": 2.0, "postgres": 0.5},
        "CheckCall": {"gateway": 0.5, "evidence": 1.0},
        "ReportCall": {"gateway": 0.5, "evidence": 1.0, "postgres": 0.5},
        "ReportOutcome": {"gateway": 0.5, "evidence": 1.0, "postgres": 0.5},
        "Learn": {"gateway": 3.0, "curator": 10.0, "reflector": 5.0, "postgres": 2.0, "search": 1.0},
    }
    costs = [
        {
            "method": method,
            "size": size,
            "cpu_ms": cpu,
            "spread": dict.fromkeys(cpu, 0.2),
            "loop_share": dict.fromkeys(cpu, 0.7),
        }
        for method, cpu in used.items()
        for size in ("small", "medium", "large")
    ]
    embedding = {"method": "Embed", "size": "small", "cpu_ms": {"search": 5.0}, "spread": {"search": 0.1}}
    datasets = [
        {"size": size, "index_bytes": count * 2_000, "load_cpu_ms": {"search": count / 10}}
        for size, count in (("small", 100), ("medium", 1_000), ("large", 10_000))
    ]
    return Costs({"costs": [*costs, embedding, embedding], "datasets": datasets})


WORKLOAD = Workload(sessions_a_day=200_000, datasets=300)


def test_the_formula_is_rate_by_cost() -> None:
    demand = compute_demand(build_costs(), WORKLOAD, Options())
    peak = 200_000 / 86_400 * 1.8
    assert demand["gateway"].cores == pytest.approx(peak * (1 + 10 * 0.5 + 10 * 0.5 + 0.5 + 3) / 1e3)
    assert demand["search"].cores == pytest.approx(peak * (2 + 5 + 1) / 1e3)
    assert demand["search"].index_bytes == pytest.approx(300 * 2_000 * (0.7 * 100 + 0.25 * 1_000 + 0.05 * 10_000))


def test_a_cluster_that_is_large_enough_works_as_much_as_the_formula_says() -> None:
    costs = build_costs()
    demand = compute_demand(costs, WORKLOAD, Options())
    goals = find_goals(costs, WORKLOAD, Options(), demand, seed=1)
    assert goals == GOALS
    pods, cluster = find_pods(costs, WORKLOAD, Options(), demand, goals, seed=1)
    for service, share in cluster.compute_utilisation().items():
        assert share * pods[service] == pytest.approx(demand[service].cores, rel=0.15), service
    assert cluster.statistics["Recall"].lost == 0
    _, again = find_pods(costs, WORKLOAD, Options(), demand, goals, seed=1)
    assert again.statistics["Recall"].times == cluster.statistics["Recall"].times


def test_only_calls_to_lost_pods_are_lost_and_only_until_the_loss_is_detected() -> None:
    pods = {"gateway": 4, "evidence": 4, "search": 4, "curator": 2, "reflector": 2, "postgres": 2}
    found = lose_node(build_costs(), WORKLOAD, Options(), pods, seed=1)
    assert found["lost_pods"] == {"gateway": 1, "evidence": 1, "search": 1, "curator": 1, "reflector": 1}
    check = found["until_detected"]["CheckCall"]
    assert check["lost"] / check["calls"] == pytest.approx(1 - (3 / 4) ** 2, abs=0.06)
    assert {method: found["until_rescheduled"][method]["lost"] for method in ("CheckCall", "Recall")} == {
        "CheckCall": 0,
        "Recall": 0,
    }


def test_the_large_overlay_has_the_pods_of_the_simulation() -> None:
    simulated = json.loads((HERE / "results/capacity-simulation.json").read_text(encoding="utf-8"))
    pods = {row["service"]: row["pods"] for row in simulated["rows"]}
    manifests = load_manifests(OVERLAYS / "large")
    for name in SERVICES:
        scaler = manifests.manifest("HorizontalPodAutoscaler", name)["spec"]
        needed = pods.get(name, LEAST_PODS)  # no session of the simulation calls the planner and the validator
        assert scaler["minReplicas"] <= needed <= scaler["maxReplicas"] / 1.5, name
        metric, *others = scaler["metrics"]
        assert metric["resource"]["name"] == "cpu"
        assert [other["resource"]["name"] for other in others] == (["memory"] if name == "search" else []), name
        assert metric["resource"]["target"]["averageUtilization"] == TARGET_UTILISATION * 100, name
        assert container(manifests.workloads()[name])["resources"]["requests"]["cpu"] == "1", name
    (search,) = (row for row in simulated["rows"] if row["service"] == "search")
    scaler = manifests.manifest("HorizontalPodAutoscaler", "search")["spec"]
    assert scaler["minReplicas"] >= search["pods_by_formula"]
    # The indexes of the model add no pod.
    memory = parse_bytes(scaler["metrics"][1]["resource"]["target"]["averageValue"])
    assert search["index_gb"] * 1e9 / scaler["minReplicas"] < memory
    (limit,) = (
        variable["value"]
        for variable in container(manifests.workloads()["search"])["env"]
        if variable["name"] == "HANSEI_SEARCH_MEMORY_MB"
    )
    assert int(limit) * 2**20 == Options().index_memory_bytes


def test_the_large_overlay_lets_no_zone_have_most_pods() -> None:
    manifests = load_manifests(OVERLAYS / "large")
    for name in SERVICES:
        constraints = {
            constraint["topologyKey"]: constraint["whenUnsatisfiable"]
            for constraint in pod(manifests.workloads()[name])["topologySpreadConstraints"]
        }
        assert constraints == {
            "topology.kubernetes.io/zone": "DoNotSchedule",
            "kubernetes.io/hostname": "ScheduleAnyway",
        }, name


@pytest.mark.parametrize("overlay", NAMES)
def test_the_page_states_the_connections_of_all_pods_to_postgresql(overlay: str) -> None:
    manifests = load_manifests(OVERLAYS / overlay)
    pods = {scaler["metadata"]["name"]: scaler["spec"]["maxReplicas"] for scaler in manifests.kind(SCALER)}
    of_a_pod = read_connections()
    surges = {name: manifests.workloads()[name]["kind"] == "Deployment" for name in of_a_pod}
    most = sum(connections * (pods.get(name, 1) + surges[name]) for name, connections in of_a_pod.items())
    assert f"| {overlay} | {most} |" in PAGE.read_text(encoding="utf-8")


def test_a_curator_of_the_large_overlay_starts_within_three_quarters_of_its_memory(tmp_path: Path) -> None:
    """The rest is for calls. The peak of the start is the quantisation of the embedding model."""
    large = load_manifests(OVERLAYS / "large")
    settings = container(large.workloads()["curator"])["envFrom"]
    (provider,) = (
        large.manifest("ConfigMap", source["configMapRef"]["name"])["data"]["EMBEDDING_PROVIDER"] for source in settings
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": CODE,
        "LLM_PROVIDER": "offline",
        "EMBEDDING_PROVIDER": provider,
        "HANSEI_EMBEDDING_MODEL_DIR": str(tmp_path / "models"),
    }
    # A new interpreter, because a fork of this one has its memory.
    command = [sys.executable, "-m", "services.curator"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as curator:
        assert curator.stderr is not None
        assert any("server started" in line for line in curator.stderr)
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{curator.pid}/status").read_text())
        curator.terminate()
    assert list((tmp_path / "models").iterdir())
    limit = parse_bytes(container(large.workloads()["curator"])["resources"]["limits"]["memory"])
    assert int(peak) * 1024 <= 0.75 * limit
