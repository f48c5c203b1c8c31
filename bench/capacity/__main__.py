"""`python -m bench.capacity` measures costs, `--simulate [COSTS]` simulates a cluster, `--check` checks the simulation.

They write `bench/results/capacity*.json` and the tables of `docs/operations/capacity.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import uvloop

from bench.capacity.cluster import GOALS, Costs, Options, Workload
from bench.capacity.sizing import (
    compute_demand,
    describe_methods,
    find_goals,
    find_pods,
    find_saturation,
    lose_node,
    simulate,
)
from bench.report import HERE, write_json, write_table

PAGE = HERE.parent / "docs/operations/capacity.md"
COSTS = HERE / "results/capacity.json"
COLUMNS = ("gateway", "evidence", "search", "curator", "reflector", "planner", "validator", "postgres")
HOURS = (0, 6, 9, 12)


def main() -> None:
    """Run the command that the arguments name."""
    arguments = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    arguments.add_argument(
        "--simulate", nargs="?", const=COSTS, type=Path, metavar="COSTS", help="simulate with these costs"
    )
    arguments.add_argument("--check", action="store_true", help="compare the simulation with four search processes")
    arguments.add_argument("--sessions", type=int, default=Workload().sessions_a_day, help="agent sessions a day")
    arguments.add_argument("--seed", type=int, default=1, help="of the simulation")
    chosen = arguments.parse_args()
    if chosen.check:
        check_simulation()
    elif chosen.simulate:
        simulate_cluster(chosen.simulate, Workload(sessions_a_day=chosen.sessions), chosen.seed)
    else:
        measure()


def measure() -> None:
    """Measure the costs of all methods."""
    from bench.capacity.costs import measure_costs

    results = uvloop.run(measure_costs())
    write_json("capacity", results)
    write_table(PAGE, "capacity", [_flatten(cost) for cost in results["costs"]])
    write_table(PAGE, "capacity-datasets", [_flatten_dataset(dataset) for dataset in results["datasets"]])


def simulate_cluster(path: Path, workload: Workload, seed: int) -> None:
    """Simulate a cluster with measured costs."""
    measured = json.loads(path.read_text())
    costs, options = Costs(measured), Options()
    demand = compute_demand(costs, workload, options)
    goals = find_goals(costs, workload, options, demand, seed)
    pods, cluster = find_pods(costs, workload, options, demand, goals, seed)
    utilisation = cluster.compute_utilisation()
    rows = [
        {
            "service": service,
            "cores_at_peak": round(needed.cores, 2),
            "index_gb": round(needed.index_bytes / 1e9, 1),
            "pods_by_formula": needed.pods,
            "pods": pods[service],
            "utilisation": round(utilisation[service], 3),
        }
        for service, needed in demand.items()
    ]
    day = []
    for hour in HOURS:
        at_hour = simulate(costs, workload, options, pods, seed, hour=hour)
        found = describe_methods(at_hour)
        day.append(
            {"hour": hour, "sessions_per_second": round(workload.compute_rate(hour), 1)}
            | {f"{method}_p99_ms": found[method]["p99_ms"] for method in GOALS}
            | {f"{service}_utilisation": round(share, 2) for service, share in at_hour.compute_utilisation().items()}
        )
    results: dict[str, Any] = {
        "seed": seed,
        "goals_ms": {method: round(goal * 1e3, 1) for method, goal in goals.items()},
        "rows": rows,
        "methods": describe_methods(cluster),
        "index_misses": round(cluster.misses / max(1, cluster.lookups), 4),
        "day": day,
        "saturation": find_saturation(costs, workload, options, pods, goals, seed),
        "lost_node": lose_node(costs, workload, options, pods, seed),
    }
    write_json("capacity-simulation", results)
    write_table(PAGE, "capacity-pods", rows)
    write_table(PAGE, "capacity-day", day)
    write_table(PAGE, "capacity-lost", _list_lost(results))
    print(json.dumps({name: results[name] for name in ("goals_ms", "methods", "index_misses", "saturation")}, indent=2))


def check_simulation() -> None:
    """Compare the simulation with real processes."""
    from bench.capacity.check import check

    results = check()
    write_json("capacity-check", results)
    write_table(PAGE, "capacity-check", results["rows"])
    print("within 20 %" if results["within_tolerance"] else "NOT within 20 %")


def _flatten(cost: dict[str, Any]) -> dict[str, Any]:
    used = {name: float(cost["cpu_ms"][name]) if name in cost["cpu_ms"] else "" for name in COLUMNS}
    rest = ("alone_ms", "request_bytes", "response_bytes", "stored_bytes", "log_bytes")
    return {"method": cost["method"], "size": cost["size"], **used, **{name: cost[name] for name in rest}}


def _flatten_dataset(dataset: dict[str, Any]) -> dict[str, Any]:
    return {
        "size": dataset["size"],
        "bullets": dataset["bullets"],
        "index_mb": round(dataset["index_bytes"] / 1e6, 2),
        "resident_mb": round(dataset["resident_bytes"] / 1e6, 2),
        "load_search_ms": dataset["load_cpu_ms"]["search"],
        "load_curator_ms": dataset["load_cpu_ms"]["curator"],
        "load_time_ms": dataset["load_ms"],
    }


def _list_lost(results: dict[str, Any]) -> list[dict[str, Any]]:
    before, afterwards = results["lost_node"]["until_detected"], results["lost_node"]["until_rescheduled"]
    return [
        {
            "method": method,
            "p99_ms": found["p99_ms"],
            "lost_until_detected": f"{before[method]['lost'] / before[method]['calls']:.1%}",
            "p99_ms_until_detected": before[method]["p99_ms"],
            "lost_afterwards": afterwards[method]["lost"],
            "p99_ms_until_rescheduled": afterwards[method]["p99_ms"],
        }
        for method, found in results["methods"].items()
    ]


if __name__ == "__main__":
    main()
