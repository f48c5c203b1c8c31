"""The measurements of a system, each in a new process and a new folder."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop

from bench.planner.dags import Dag
from bench.planner.life import SYSTEMS
from bench.planner.planner_system import payload_of_a_pause
from bench.planner.system import Floor, measure_size

RESUMED = 500
BASELINES_RESUMED = 50

Figures = dict[str, Any]


def quantile(values: list[float], share: float) -> float:
    """Return the quantile of values at a share."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def ratios(dags: list[Dag], spans: list[float]) -> Figures:
    """Return the distribution of makespans over critical paths."""
    found = [span / dag.critical_path for dag, span in zip(dags, spans, strict=True)]
    return {"median": statistics.median(found), "p90": quantile(found, 0.9), "max": max(found)}


async def measure_makespans(folder: Path, names: list[str], dags: list[Dag], at_once: int) -> dict[str, Figures]:
    """Return the makespans of every DAG on every system, in turns, so that other load affects all of them."""
    async with AsyncExitStack() as stack:
        contenders: dict[str, Callable[[Dag], Awaitable[float]]] = {"no durability": Floor().makespan}
        # DBOS shuts down the executor of the loop, so close it last.
        for name in reversed(names):
            system = SYSTEMS[name]()
            await system.open(folder)
            stack.push_async_callback(system.close)
            contenders[name] = system.makespan
        slots = asyncio.Semaphore(at_once)

        async def measure_dag(number: int) -> dict[str, float]:
            # Each DAG begins with another system, so that none is always the first.
            turn = number % len(contenders)
            order = [*contenders.items()][turn:] + [*contenders.items()][:turn]
            async with slots:
                return {name: await makespan(dags[number]) for name, makespan in order}

        spans = await asyncio.gather(*(measure_dag(number) for number in range(len(dags))))
    found = {
        name: {"makespan over critical path": ratios(dags, [durations[name] for durations in spans])}
        for name in (*names, "no durability")
    }
    for name in names:
        values = [durations[name] / durations["no durability"] for durations in spans]
        found[name]["makespan over no durability"] = {"median": statistics.median(values), "max": max(values)}
    found["ideal scheduler in waves"] = {"makespan over critical path": ratios(dags, [dag.in_waves for dag in dags])}
    return found


async def cpu_per_step(folder: Path, name: str, plans: int, steps: int = 20) -> Figures:
    """Return the CPU time of a durable step that does nothing, over all threads of the process."""
    system = SYSTEMS[name]()
    await system.open(folder)
    await system.line(steps)
    began = time.process_time()
    for _ in range(plans):
        await system.line(steps)
    spent = time.process_time() - began
    await system.close()
    return {"CPU per durable step, ms": 1e3 * spent / (plans * steps)}


async def measure_pauses(folder: Path, name: str, count: int) -> Figures:
    """Return the cost of paused executions, and the time to resume one of them."""
    system = SYSTEMS[name]()
    await system.open(folder)
    await system.pause(min(1_000, count))
    bytes_before, memory_before = measure_size(folder), peak_memory()
    began = time.perf_counter()
    ids = await system.pause(count)
    took, stored, memory = (
        time.perf_counter() - began,
        measure_size(folder) - bytes_before,
        peak_memory() - memory_before,
    )
    chosen = random.Random(1).sample(ids, min(RESUMED if name == "hansei" else BASELINES_RESUMED, count))
    resumed = [await system.resume(durations) for durations in chosen]
    await system.close()
    own = {"storage over payload": stored / count / payload_of_a_pause()} if name == "hansei" else {}
    return {
        "paused executions": count,
        "ms to begin and pause one": 1e3 * took / count,
        "bytes per paused execution": stored / count,
        **own,
        "growth of peak memory while pausing, MiB": memory / 2**20,
        "resume p50, ms": 1e3 * statistics.median(resumed),
        "resume p99, ms": 1e3 * quantile(resumed, 0.99),
    }


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run_in_process(measure: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    """Return the result of a measurement in a new process and a new folder."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        return processes.submit(_in_a_folder, measure, arguments).result()


def _in_a_folder(measure: Callable[..., Coroutine[Any, Any, Any]], arguments: tuple[Any, ...]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return uvloop.run(measure(Path(folder), *arguments))
