"""The pods that a workload needs, by a formula and by the simulation; saturation; the cost of a lost node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.capacity.cluster import GOALS, PATHS, POSTGRES, Cluster, Costs, Options, Workload

TARGET_UTILISATION, TARGET_MEMORY = 0.6, 0.75
"""The shares of a core and of `HANSEI_SEARCH_MEMORY_MB` above which the autoscaler adds a pod."""
LEAST_PODS = 3
"""One in each zone."""
PEAK_HOUR = 12.0
SECONDS, SHORT_SECONDS = 60.0, 15.0
"""The simulated time, and that of the first simulation of an attempt, which shows most missed goals sooner."""
ZONES = 3
MAX_STEPS = 25
"""Attempts of the search for the least number of pods."""
GROWTH = 0.25
"""The share of its pods that a service gets in addition after an attempt, at least one pod."""
ABUNDANCE, SLACK = 8, 1.15
"""Pods with which calls hardly wait, as a multiple of those of the formula; and the waiting that a goal then allows."""
LOADS = (1.25, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True, slots=True)
class Demand:
    """The result of the formula for a service: cores at the peak, bytes of indexes, and pods."""

    cores: float
    index_bytes: int
    pods: int


def compute_demand(costs: Costs, workload: Workload, options: Options) -> dict[str, Demand]:
    """Return the demand of each service: pods = sessions/s · calls/session · CPU/call / target, or those for memory."""
    rate = workload.compute_rate(PEAK_HOUR)
    services = sorted(
        {
            process
            for method in PATHS
            for size in workload.sizes
            for process in (*PATHS[method], *costs.list_processes(method, size))
        }
    )
    found = {}
    for service in services:
        cores = rate * sum(
            count * costs.compute_mean(workload, method, service) for method, count in workload.count_calls().items()
        )
        index_bytes = 0
        if service == "search":
            index_bytes = round(
                sum(share * costs.index_bytes[size] for size, share in workload.sizes.items()) * workload.datasets
            )
        by_memory = math.ceil(index_bytes / (TARGET_MEMORY * options.index_memory_bytes))
        pods = max(LEAST_PODS, math.ceil(cores / TARGET_UTILISATION), by_memory)
        found[service] = Demand(cores, index_bytes, pods)
    return found


def find_goals(
    costs: Costs, workload: Workload, options: Options, demand: Mapping[str, Demand], seed: int
) -> dict[str, float]:
    """Return the goals; one that calls miss although they hardly wait is raised, because no pod can help."""
    many = {service: max(4, ABUNDANCE * needed.pods) for service, needed in demand.items()}
    cluster = simulate(costs, workload, options, many, seed)
    reached = {method: cluster.statistics[method].compute_quantile(0.99) for method in GOALS}
    return {method: goal if reached[method] <= goal else SLACK * reached[method] for method, goal in GOALS.items()}


def find_pods(
    costs: Costs,
    workload: Workload,
    options: Options,
    demand: Mapping[str, Demand],
    goals: Mapping[str, float],
    seed: int,
) -> tuple[dict[str, int], Cluster]:
    """Return the pods with which the goals hold at the peak, from those of the formula on, and their simulation.

    A missed goal adds pods to the service in which its calls waited longest.
    """
    pods = {service: needed.pods for service, needed in demand.items()}
    for _ in range(MAX_STEPS):
        cluster = simulate(costs, workload, options, pods, seed, seconds=SHORT_SECONDS)
        missed = list_missed_goals(cluster, goals)
        if not missed:
            cluster = simulate(costs, workload, options, pods, seed)
            missed = list_missed_goals(cluster, goals)
        if not missed:
            return pods, cluster
        service = cluster.statistics[missed[0]].find_longest_wait()
        pods[service] += math.ceil(pods[service] * GROWTH)
    raise SystemExit(f"the goals are missed after {MAX_STEPS} attempts, with {pods}")


def simulate(
    costs: Costs,
    workload: Workload,
    options: Options,
    pods: Mapping[str, int],
    seed: int,
    hour: float = PEAK_HOUR,
    seconds: float = SECONDS,
) -> Cluster:
    """Return a cluster that has served a part of an hour."""
    cluster = Cluster(costs, workload, pods, options, seed)
    cluster.run(hour, seconds)
    return cluster


def list_missed_goals(cluster: Cluster, goals: Mapping[str, float]) -> list[str]:
    """Return the methods whose 99th percentile is above the goal."""
    return [method for method, goal in goals.items() if cluster.statistics[method].compute_quantile(0.99) > goal]


def find_saturation(
    costs: Costs,
    workload: Workload,
    options: Options,
    pods: Mapping[str, int],
    goals: Mapping[str, float],
    seed: int,
) -> dict[str, Any]:
    """Return by how much the load may grow until a goal is missed, and the service in which the calls then wait."""
    for load in LOADS:
        grown = replace(workload, sessions_a_day=round(workload.sessions_a_day * load))
        cluster = simulate(costs, grown, options, pods, seed)
        missed = list_missed_goals(cluster, goals)
        if missed:
            utilisation = cluster.compute_utilisation()
            return {
                "load": load,
                "missed": missed,
                "waits_in": cluster.statistics[missed[0]].find_longest_wait(),
                "utilisation": {service: round(share, 3) for service, share in utilisation.items()},
            }
    return {"load": LOADS[-1], "missed": [], "waits_in": "", "utilisation": {}}


def lose_node(
    costs: Costs, workload: Workload, options: Options, pods: Mapping[str, int], seed: int
) -> dict[str, dict[str, Any]]:
    """Return the calls lost, and the 99th percentiles, until the loss of half a zone is detected and afterwards."""
    loss = {service: max(1, math.ceil(count / ZONES / 2)) for service, count in pods.items() if service != POSTGRES}
    cluster = Cluster(costs, workload, pods, options, seed)
    cluster.run(PEAK_HOUR, options.detection_seconds, loss=loss)
    before = describe_methods(cluster)
    cluster = Cluster(costs, workload, pods, options, seed)
    cluster.run(PEAK_HOUR, options.detection_seconds + SECONDS, loss=loss, count_from=options.detection_seconds)
    return {"lost_pods": loss, "until_detected": before, "until_rescheduled": describe_methods(cluster)}


def describe_methods(cluster: Cluster) -> dict[str, Any]:
    """Return the calls, the lost ones, and the quantiles of each method."""
    return {
        method: {
            "calls": len(found.times) + found.lost,
            "lost": found.lost,
            "p50_ms": round(found.compute_quantile(0.5) * 1e3, 2),
            "p99_ms": round(found.compute_quantile(0.99) * 1e3, 2),
        }
        for method, found in sorted(cluster.statistics.items())
    }
