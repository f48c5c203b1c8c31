"""Compare the simulation with four search processes: utilisation, and the mean time that calls wait.

The four processes share one core, and the caller has another one, so that the rest of the machine matters little; the
simulation has the same two cores, the same routing, and the same calls at the same times. Costs are those of single
calls, and what the processes do without any call, both measured before and after. Calls come as they
were drawn (Poisson), whether or not others have ended, and the simulation gets the times at which they really began.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.capacity.cluster import EMBEDDING_THREADS, QUANTUM_SECONDS, Link, compute_spread, draw_seconds
from bench.capacity.events import Action, Core, SimulatedClock, Threads
from bench.capacity.material import build_words
from bench.load import cpu_seconds
from bench.report import machine
from bench.search.corpus import create_corpus
from bench.search.server import run_server, write_snapshot
from chassis.channels import Peers
from chassis.replicas import Replicas
from chassis.retry import RetryPolicy
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc

PROCESSES, DATASETS, BULLETS = 4, 20, 1_000
UTILISATIONS = (0.3, 0.6)
CALLS_ALONE, CALLS, PARTS = 60, 200, 5
"""Single calls in each measurement of costs, calls of a part, and parts of a row, each between two measurements."""
IDLE_SECONDS = 2.0
BACKGROUND_SECONDS = 0.01
"""In the simulation one process after the other does its work of no call in turns of this period."""
PRIORITY = -15
TOLERANCE = 0.2
STARTING = RetryPolicy(attempts=240, first_pause=0.5, factor=1, is_exact=True)
SERVERS_CORE, CALLER_CORE = 1, 0

Searcher = Callable[[str, str], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class CallCost:
    """Seconds of processor time of a call: on the event loop of search, for its embedding, and of the caller."""

    loop: float
    embedding: float
    caller: float
    alone: float
    """The time of a call that is alone."""
    idle: float
    """The share of the servers' core that the processes use without calls."""
    spread: float
    """The standard deviation of the search process's seconds, as a share of their mean."""

    @property
    def server(self) -> float:
        """Return the seconds of the search process."""
        return self.loop + self.embedding


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call that is due at a time, by the number of its dataset."""

    when: float
    dataset: str
    query: str


@dataclass(frozen=True, slots=True)
class CoreMeasurement:
    """The utilisation of the servers' core, and the mean seconds that a call took."""

    utilisation: float
    time: float


def check() -> dict[str, Any]:
    """Measure, simulate, and return both with the deviations."""
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("the check needs two cores: one for the search processes, one for the caller")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        corpus = create_corpus(BULLETS, 1)
        for number in range(DATASETS):
            write_snapshot(Path(folder), f"d{number}", corpus)
        servers = [
            stack.enter_context(
                run_server(
                    "services.search", Path(folder), f"search-{n}", {"HANSEI_SEARCH_COMPILE_AFTER_SECONDS": "3600"}
                )
            )
            for n in range(PROCESSES)
        ]
        addresses, pids = [address for address, _ in servers], [process.pid for _, process in servers]
        uvloop.run(_load_indexes(addresses))
        stack.enter_context(_run_on_cores(pids))
        return uvloop.run(_compare(addresses, pids))


async def _load_indexes(addresses: Sequence[str]) -> None:
    """Wait until each process serves and has loaded all indexes."""
    for address in addresses:
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = search_service_pb2_grpc.SearchServiceStub(channel)
            for number in range(DATASETS):
                request = _build_request(f"d{number}", "word1")
                await STARTING.run(partial(stub.Search, request, timeout=60), _is_unavailable)


def _is_unavailable(error: BaseException) -> bool:
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE


def _build_request(dataset: str, query: str) -> search_service_pb2.SearchRequest:
    return search_service_pb2.SearchRequest(dataset=dataset, query=search_pb2.SearchQuery(query_text=query, top_k=5))


@contextmanager
def _run_on_cores(pids: Sequence[int]) -> Iterator[None]:
    """Keep processes on the servers' core, and this one on the other, at a high priority where that is permitted."""
    affinity, priority = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    for pid, core in (*((pid, SERVERS_CORE) for pid in pids), (os.getpid(), CALLER_CORE)):
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):
            with suppress(ProcessLookupError):  # the thread has ended
                os.sched_setaffinity(thread, {core})
            with suppress(PermissionError, ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, thread, PRIORITY)
    try:
        yield
    finally:
        os.sched_setaffinity(0, affinity)
        os.setpriority(os.PRIO_PROCESS, 0, priority)


async def _compare(addresses: list[str], pids: list[int]) -> dict[str, Any]:
    peers = Peers({"search": f"ipv4:{','.join(addresses)}"}, routed=True)
    stub: Any = search_service_pb2_grpc.SearchServiceStub(peers.channel("search"))

    async def search(dataset: str, query: str) -> Any:
        return await stub.Search(_build_request(dataset, query), timeout=60)

    for number in range(DATASETS):  # connections become ready
        await search(f"d{number}", "word1")
        await asyncio.sleep(0.02)
    cost = await _measure_cost(search, pids, "first", 0.0)
    costs, rows = [cost], []
    for utilisation in UTILISATIONS:
        rate = utilisation / cost.server
        pause = (1 - utilisation) / rate
        cost, parts = await _measure_cost(search, pids, f"{utilisation}", pause), []
        for number in range(PARTS):
            name, before, foreign = f"{utilisation} {number}", cost, _read_core_seconds()
            real, begun, seconds = await _observe(search, pids, draw_arrivals(rate, CALLS, random.Random(name)))
            foreign = _read_core_seconds() - foreign - real.utilisation * seconds
            cost = await _measure_cost(search, pids, name, pause)
            both = _average([before, cost])  # the speed of a processor that is shared changes within minutes
            parts.append(_compare_part(real, begun, seconds, both, addresses) | {"foreign": foreign})
            costs.append(both)
        rows.append({"utilisation_wanted": utilisation} | _summarise_parts(parts))
    await peers.close()
    cost = _average(costs)
    deviations = [row[f"{what}_deviation"] for row in rows for what in ("utilisation", "waiting")]
    return {
        "machine": machine() | {"load": f"{os.getloadavg()[0]:.1f}"},
        "cost_ms": {name: getattr(cost, name) * 1e3 for name in ("loop", "embedding", "caller", "alone")},
        "idle": cost.idle,
        "spread": cost.spread,
        "rows": rows,
        "within_tolerance": all(abs(deviation) <= TOLERANCE for deviation in deviations),
    }


def _compare_part(
    real: CoreMeasurement, begun: Sequence[Arrival], seconds: float, cost: CallCost, addresses: Sequence[str]
) -> dict[str, float]:
    """Return utilisation and waiting of a part, real and simulated."""
    simulated = simulate(begun, addresses, cost)
    alone = simulate([replace(call, when=float(n)) for n, call in enumerate(begun)], addresses, cost)
    return {
        "seconds": seconds,
        "utilisation": real.utilisation,
        "utilisation_simulated": simulated.utilisation,
        "waiting_ms": (real.time - cost.alone) * 1e3,
        "waiting_ms_simulated": (simulated.time - alone.time) * 1e3,
    }


def _summarise_parts(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the means of all parts, and how far the simulated ones deviate."""
    seconds = sum(part["seconds"] for part in parts)
    mean = {name: statistics.mean(part[name] for part in parts) for name in parts[0]}
    row = {"calls_per_second": CALLS * len(parts) / seconds}
    for what in ("utilisation", "waiting_ms"):
        deviation = mean[f"{what}_simulated"] / mean[what] - 1
        row |= {
            what: mean[what],
            f"{what}_simulated": mean[f"{what}_simulated"],
            f"{what.removesuffix('_ms')}_deviation": deviation,
        }
    return row | {"other_work_on_core": max(0.0, sum(part["foreign"] for part in parts) / seconds)}


def _average(costs: Sequence[CallCost]) -> CallCost:
    return CallCost(*(statistics.mean(values) for values in zip(*map(astuple, costs), strict=True)))


async def _measure_cost(search: Searcher, pids: list[int], seed: str, pause_seconds: float) -> CallCost:
    """Return the cost of single calls: with queries that are new for each seed, and with one whose vector is cached.

    A processor that slept is slower at first, so pauses before the calls last as long as it sleeps between random ones.
    """
    used, began = _sum_cpu(pids), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    idle = (_sum_cpu(pids) - used) / (time.perf_counter() - began)
    new, cached, caller, times = [], 0.0, 0.0, 0.0
    rng = random.Random(3)
    for number in range(CALLS_ALONE):
        dataset = f"d{rng.randrange(DATASETS)}"
        query = build_words(6, ("alone", seed, number))
        await asyncio.sleep(rng.expovariate(1 / pause_seconds) if pause_seconds else 0)
        used, own, began = _sum_cpu(pids), time.process_time(), time.perf_counter()
        await search(dataset, query)
        times += time.perf_counter() - began
        caller += time.process_time() - own
        new.append((again := _sum_cpu(pids)) - used)
        await search(dataset, query)
        cached += _sum_cpu(pids) - again
    count = CALLS_ALONE
    loop, server = cached / count, statistics.mean(new)
    return CallCost(loop, server - loop, caller / count, times / count, idle, compute_spread(new))


def draw_arrivals(rate: float, count: int, rng: random.Random) -> list[Arrival]:
    """Return calls with exponential gaps, at datasets by Zipf's law."""
    weights = [1 / rank for rank in range(1, DATASETS + 1)]
    arrivals, now = [], 0.0
    for number in range(count):
        now += rng.expovariate(rate)
        (dataset,) = rng.choices(range(DATASETS), weights)
        arrivals.append(Arrival(now, f"d{dataset}", build_words(6, (rng.random(), number))))
    return arrivals


async def _observe(
    search: Searcher, pids: list[int], arrivals: Sequence[Arrival]
) -> tuple[CoreMeasurement, list[Arrival], float]:
    """Return what the processes did with these calls, when each began, and the seconds of all."""
    times: list[float] = []
    begun: list[Arrival] = []
    used, began = _sum_cpu(pids), time.perf_counter()

    async def call(arrival: Arrival) -> None:
        begins = time.perf_counter() - began
        begun.append(replace(arrival, when=begins))
        await search(arrival.dataset, arrival.query)
        times.append(time.perf_counter() - began - begins)

    async with asyncio.TaskGroup() as group:
        for arrival in arrivals:
            await asyncio.sleep(began + arrival.when - time.perf_counter())
            group.create_task(call(arrival))
    seconds = time.perf_counter() - began
    used = _sum_cpu(pids) - used
    return CoreMeasurement(used / seconds, statistics.mean(times)), begun, seconds


def simulate(arrivals: Sequence[Arrival], names: Sequence[str], cost: CallCost) -> CoreMeasurement:
    """Return what the simulation does with these calls: processes on one core, and the caller on another."""
    clock = SimulatedClock()
    core, caller = Core(clock, QUANTUM_SECONDS), Threads(Core(clock))
    processes = {name: (Threads(core, is_urgent=True), Threads(core, EMBEDDING_THREADS)) for name in names}
    times: list[float] = []
    rng = random.Random(5)

    connect: Any = lambda _: Link(lambda: True)  # noqa: E731
    replicas = Replicas("search", f"ipv4:{','.join(names)}", connect)

    def send(arrival: Arrival) -> None:
        replica = replicas.choose(arrival.dataset)[0]
        replicas.record_call_start(replica)
        loop, pool = processes[replica.address.name]

        def end() -> None:
            replicas.record_call_end(replica)
            times.append(clock.now - arrival.when)

        def embed() -> None:
            seconds = draw_seconds(rng, cost.embedding, cost.spread)
            pool.run(seconds, lambda: loop.run(cost.loop / 2, lambda: caller.run(cost.caller / 2, end)))

        loop.run(cost.loop / 2, embed)

    def prepare(arrival: Arrival) -> Action:
        return lambda: caller.run(cost.caller / 2, lambda: send(arrival))

    def draw_background() -> Iterator[tuple[float, Action]]:
        loops = itertools.cycle(loop for loop, _ in processes.values())
        for number in range(int(arrivals[-1].when / BACKGROUND_SECONDS)):
            loop = next(loops)
            yield number * BACKGROUND_SECONDS, partial(loop.run, cost.idle * BACKGROUND_SECONDS, lambda: None)

    calls = ((arrival.when, prepare(arrival)) for arrival in arrivals)
    clock.follow(heapq.merge(calls, draw_background(), key=itemgetter(0)))
    clock.run()
    return CoreMeasurement(core.busy_seconds / clock.now, statistics.mean(times))


def _sum_cpu(pids: Sequence[int]) -> float:
    return sum(cpu_seconds(pid) for pid in pids)


def _read_core_seconds() -> float:
    """Return the seconds for which the servers' core has worked, for anybody."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{SERVERS_CORE}":
            return sum(map(int, (*ticks[:3], *ticks[5:7]))) / os.sysconf("SC_CLK_TCK")
    raise SystemExit(f"/proc/stat has no cpu{SERVERS_CORE}")
