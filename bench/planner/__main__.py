"""Measures the planner beside its peers: ``python -m bench.planner`` writes results.json and prints the table."""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import platform
import random
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.planner import ours
from bench.planner.dags import Dag, random_dag

HERE = Path(__file__).parent
AT_ONCE = 8


def quantile(values: list[float], share: float) -> float:
    """The value below which so large a share lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def ratios(dags: list[Dag], spans: list[float]) -> dict[str, float]:
    """Makespans over critical paths."""
    found = [span / dag.critical_path for dag, span in zip(dags, spans, strict=True)]
    return {"median": statistics.median(found), "max": max(found)}


async def spans_of(makespan: Callable[[Dag], Awaitable[float]], dags: list[Dag]) -> list[float]:
    """Makespans in the order of the DAGs; a few at a time, since they mostly sleep."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(dag: Dag) -> float:
        async with places:
            return await makespan(dag)

    return list(await asyncio.gather(*(one(dag) for dag in dags)))


async def of_langgraph(folder: Path, dags: list[Dag], plans: int) -> dict[str, Any]:
    """Figures of LangGraph."""
    from bench.planner.langgraph_peer import LangGraphPeer

    peer = LangGraphPeer(folder)
    await peer.open()
    try:
        spans = await spans_of(peer.makespan, dags)
        cpu = await peer.cpu_per_step(plans)
    finally:
        await peer.close()
    return {"makespan over critical path": ratios(dags, spans), "CPU per durable step, ms": 1e3 * cpu}


async def of_ours(folder: Path, dags: list[Dag], plans: int, paused: int) -> dict[str, Any]:
    """Figures of hansei."""
    async with ours.planner(folder / "ours.db") as executions:
        spans = await spans_of(lambda dag: ours.makespan(executions, dag), dags)
        executions.plans = {}
        cpu = await ours.cpu_per_step(executions, plans)
    place = folder / "paused.db"
    async with ours.planner(place) as executions:
        await ours.pause(executions, 1_000)
        before_bytes, before_memory = size_of(place), ours.peak_memory()
        ids = await ours.pause(executions, paused)
        stored, memory = size_of(place) - before_bytes, ours.peak_memory() - before_memory
        chosen = random.Random(1).sample(ids, min(500, len(ids)))
        resumed = [await ours.resume(executions, each) for each in chosen]
    return {
        "makespan over critical path": ratios(dags, spans),
        "CPU per durable step, ms": 1e3 * cpu,
        "paused executions": paused,
        "bytes per paused execution": stored / paused,
        "payload of a paused execution, bytes": ours.payload_of_a_pause(),
        "storage over payload": stored / paused / ours.payload_of_a_pause(),
        "growth of peak memory while pausing, MiB": memory / 2**20,
        "resume p50, ms": 1e3 * statistics.median(resumed),
        "resume p99, ms": 1e3 * quantile(resumed, 0.99),
    }


def size_of(place: Path) -> int:
    """Bytes of a SQLite database with its log."""
    return sum(path.stat().st_size for path in place.parent.glob(place.name + "*") if not path.name.endswith("-shm"))


async def of_dbos(folder: Path, dags: list[Dag], plans: int) -> dict[str, Any]:
    """Figures of DBOS."""
    from bench.planner.dbos_peer import DbosPeer

    peer = DbosPeer(folder)
    try:
        spans = await spans_of(peer.makespan, dags)
        cpu = await peer.cpu_per_step(plans)
    finally:
        peer.close()
    return {"makespan over critical path": ratios(dags, spans), "CPU per durable step, ms": 1e3 * cpu}


async def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(arguments.seed)
    dags = [random_dag(rng, arguments.scale) for _ in range(arguments.dags)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        results = {
            "hansei": await of_ours(folder, dags, arguments.plans, arguments.paused),
            "ideal scheduler in waves": {"makespan over critical path": ratios(dags, [dag.in_waves for dag in dags])},
        }
        if not arguments.alone:
            name = "LangGraph " + importlib.metadata.version("langgraph")
            results[name] = await of_langgraph(folder, dags, arguments.plans)
            results["DBOS " + importlib.metadata.version("dbos")] = await of_dbos(folder, dags, arguments.plans)
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "load before": arguments.load}
    setting = {"dags": len(dags), "scale of times": arguments.scale, "seed": arguments.seed}
    return {"machine": machine, "setting": setting, "results": results}


def table(found: dict[str, Any]) -> str:
    """The figures as a table, one column a system."""
    systems = list(found["results"])
    rows: dict[str, dict[str, str]] = {}
    for system, figures in found["results"].items():
        for name, value in figures.items():
            for part, number in value.items() if isinstance(value, dict) else (("", value),):
                rows.setdefault(f"{name} {part}".strip(), {})[system] = (
                    f"{number:,.3g}" if number < 1e3 else f"{number:,.0f}"
                )
    lines = ["| | " + " | ".join(systems) + " |", "|---" * (len(systems) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells.get(s, "") for s in systems) + " |" for name, cells in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dags", type=int, default=200)
    parser.add_argument("--plans", type=int, default=50)
    parser.add_argument("--paused", type=int, default=100_000)
    parser.add_argument("--scale", type=float, default=3.0, help="1: steps of 20 to 400 ms")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--alone", action="store_true", help="without peers")
    arguments = parser.parse_args()
    arguments.load = round(os.getloadavg()[0], 1)
    found = asyncio.run(measured(arguments))
    (HERE / "results.json").write_text(json.dumps(found, indent=2) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
