"""Compare the simulation with four search processes: utilisation, and the mean time that calls wait.

The four processes share one core, the servers' core, and the caller has another one, so that the rest of the machine
matters little; the simulation has the same two cores, the same routing, and the same calls at the same times. Calls
come as they were drawn (Poisson), whether or not others have ended, and the simulation gets the times at which they
really began.

A busy period begins with a call while no other runs, and ends when none runs any more. The utilisation is simulated
with the costs of single calls: those that had a busy period of their own. The speed of a processor that others use as
well changes within seconds, and queues multiply each change, so the waiting is simulated with the mean cost of a call
in each busy period. A hypervisor that takes the servers' core away makes the simulated core slower by the same share.
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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.capacity.cluster import EMBEDDING_THREADS, QUANTUM_SECONDS, Link
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
CALLS_CACHED, CALLS, PARTS = 60, 200, 8
"""Calls that measure the cost without the embedding, calls of a part, and parts of a row."""
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call to a dataset, and the time at which it is due or has begun."""

    when: float
    dataset: str
    query: str


@dataclass(slots=True)
class BusyPeriod:
    """The number of calls between two moments at which none runs, their processor seconds, and the duration."""

    calls: int = 0
    servers: float = 0.0
    caller: float = 0.0
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that has ended, with the time at which it really began."""

    begun: Arrival
    seconds: float
    period: BusyPeriod


@dataclass(frozen=True, slots=True)
class CoreSeconds:
    """Seconds for which the servers' core has worked, for any process, and for which a hypervisor has taken it away."""

    worked: float
    stolen: float


@dataclass(frozen=True, slots=True)
class Part:
    """Real calls in the order of their beginnings, the seconds until all had ended, and the use of the core."""

    calls: Sequence[EndedCall]
    seconds: float
    used: float
    """Processor seconds of the search processes."""
    core: CoreSeconds

    @property
    def slowdown(self) -> float:
        """Return the seconds that work took, as a multiple of its processor seconds."""
        return 1 + self.core.stolen / self.core.worked


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
    stub: Any = search_service_pb2_grpc.SearchServiceStub(peers.get_channel("search"))

    async def search(dataset: str, query: str) -> Any:
        return await stub.Search(_build_request(dataset, query), timeout=60)

    for number in range(DATASETS):  # connections become ready
        await search(f"d{number}", "word1")
        await asyncio.sleep(0.02)
    loop_share, server = await _measure_loop(search, pids)
    rows = []
    for utilisation in UTILISATIONS:
        parts = []
        for number in range(PARTS):
            arrivals = draw_arrivals(utilisation / server, CALLS, random.Random(f"{utilisation} {number}"))
            idle = await _measure_idle(pids)
            part = await _observe(search, pids, arrivals)
            parts.append(_compare_part(part, loop_share, (idle + await _measure_idle(pids)) / 2, addresses))
        rows.append({"utilisation_wanted": utilisation} | _summarise_parts(parts))
    await peers.close()
    deviations = [row[f"{what}_deviation"] for row in rows for what in ("utilisation", "waiting")]
    return {
        "machine": machine() | {"load": f"{os.getloadavg()[0]:.1f}"},
        "cost_ms": {"loop": loop_share * server * 1e3, "server": server * 1e3},
        "rows": rows,
        "within_tolerance": all(abs(deviation) <= TOLERANCE for deviation in deviations),
    }


def _compare_part(part: Part, loop_share: float, idle: float, addresses: Sequence[str]) -> dict[str, float]:
    """Return utilisation and waiting of a part, real and simulated.

    `idle` is the share of the core that the processes use without calls.
    """
    single = [call.period for call in part.calls if call.period.calls == 1]
    caller = statistics.mean(period.caller for period in single)

    def cost(periods: Iterable[BusyPeriod]) -> CallCost:
        server = statistics.mean((period.servers - idle * period.time) / period.calls for period in periods)
        return CallCost(loop_share * server, (1 - loop_share) * server, caller)

    run = partial(simulate, [call.begun for call in part.calls], addresses, idle=idle, slowdown=part.slowdown)
    utilisation, by_single_calls = run([cost(single)] * len(part.calls))
    _, by_busy_periods = run([cost([call.period]) for call in part.calls])

    def wait(times: Sequence[float]) -> float:
        """Return the mean milliseconds of a call beyond those of the calls that were really single."""
        alone = (seconds for call, seconds in zip(part.calls, times, strict=True) if call.period.calls == 1)
        return (statistics.mean(times) - statistics.mean(alone)) * 1e3

    return {
        "seconds": part.seconds,
        "other": part.core.worked - part.used,
        "single": len(single) / len(part.calls),
        "slowdown": part.slowdown,
        "utilisation": part.used / part.seconds,
        "utilisation_simulated": utilisation,
        "waiting_ms": wait([call.seconds for call in part.calls]),
        "waiting_ms_simulated": wait(by_busy_periods),
        "waiting_ms_by_single_calls": wait(by_single_calls),
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
    row |= {name: mean[name] for name in ("waiting_ms_by_single_calls", "slowdown")}
    return row | {"other_work_on_core": max(0.0, sum(part["other"] for part in parts) / seconds)}


async def _measure_idle(pids: list[int]) -> float:
    """Return the share of the servers' core that the processes use without calls."""
    used, began = _sum_cpu(pids), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    return (_sum_cpu(pids) - used) / (time.perf_counter() - began)


async def _measure_loop(search: Searcher, pids: list[int]) -> tuple[float, float]:
    """Return the share of a call's processor seconds that is not for its embedding, and those of the whole call."""
    seconds = [0.0, 0.0]
    rng = random.Random(3)
    for number in range(CALLS_CACHED):
        dataset, query = f"d{rng.randrange(DATASETS)}", build_words(6, ("alone", number))
        for is_new in (True, False):
            used = _sum_cpu(pids)
            await search(dataset, query)
            seconds[is_new] += _sum_cpu(pids) - used
    cached, new = seconds
    return cached / new, new / CALLS_CACHED


def draw_arrivals(rate: float, count: int, rng: random.Random) -> list[Arrival]:
    """Return calls with exponential gaps between them, to datasets that are drawn by Zipf's law."""
    weights = [1 / rank for rank in range(1, DATASETS + 1)]
    arrivals, now = [], 0.0
    for number in range(count):
        now += rng.expovariate(rate)
        (dataset,) = rng.choices(range(DATASETS), weights)
        arrivals.append(Arrival(now, f"d{dataset}", build_words(6, (rng.random(), number))))
    return arrivals


async def _observe(search: Searcher, pids: list[int], arrivals: Sequence[Arrival]) -> Part:
    """Make these calls at their times; return how long they took, and how the servers' core was used."""
    calls: list[EndedCall] = []
    running = 0
    period = BusyPeriod()
    core, used, began = _read_core(), _sum_cpu(pids), time.perf_counter()

    async def call(arrival: Arrival) -> None:
        nonlocal running, period
        if not running:
            period = BusyPeriod(0, -_sum_cpu(pids), -time.process_time(), -time.perf_counter())
        running += 1
        period.calls += 1
        mine, begins = period, time.perf_counter()
        await search(arrival.dataset, arrival.query)
        calls.append(EndedCall(replace(arrival, when=begins - began), time.perf_counter() - begins, mine))
        running -= 1
        if not running:
            period.servers += _sum_cpu(pids)
            period.caller += time.process_time()
            period.time += time.perf_counter()

    async with asyncio.TaskGroup() as group:
        for arrival in arrivals:
            await asyncio.sleep(began + arrival.when - time.perf_counter())
            group.create_task(call(arrival))
    seconds, used, now = time.perf_counter() - began, _sum_cpu(pids) - used, _read_core()
    calls.sort(key=lambda call: call.begun.when)
    return Part(calls, seconds, used, CoreSeconds(now.worked - core.worked, now.stolen - core.stolen))


def simulate(
    arrivals: Sequence[Arrival], names: Sequence[str], costs: Sequence[CallCost], idle: float, slowdown: float
) -> tuple[float, list[float]]:
    """Return the utilisation of the servers' core and the seconds of each call, where the caller has another core."""
    clock = SimulatedClock()
    core, caller = Core(clock, QUANTUM_SECONDS), Threads(Core(clock))
    processes = {name: (Threads(core, is_urgent=True), Threads(core, EMBEDDING_THREADS)) for name in names}
    times = [0.0] * len(arrivals)

    connect: Any = lambda _: Link(lambda: True)  # noqa: E731
    replicas = Replicas("search", f"ipv4:{','.join(names)}", connect)

    def send(number: int, arrival: Arrival, cost: CallCost) -> None:
        replica = replicas.choose(arrival.dataset)[0]
        replicas.record_call_start(replica)
        loop, pool = processes[replica.address.name]
        on_loop = slowdown * cost.loop / 2

        def end() -> None:
            replicas.record_call_end(replica)
            times[number] = clock.now - arrival.when

        def reply() -> None:
            loop.run(on_loop, lambda: caller.run(cost.caller / 2, end))

        loop.run(on_loop, lambda: pool.run(slowdown * cost.embedding, reply))

    def prepare(number: int, arrival: Arrival, cost: CallCost) -> Action:
        return lambda: caller.run(cost.caller / 2, lambda: send(number, arrival, cost))

    def draw_background() -> Iterator[tuple[float, Action]]:
        seconds = slowdown * idle * BACKGROUND_SECONDS
        loops = itertools.cycle(loop for loop, _ in processes.values())
        for number in range(int(arrivals[-1].when / BACKGROUND_SECONDS)):
            loop = next(loops)
            yield number * BACKGROUND_SECONDS, partial(loop.run, seconds, lambda: None)

    numbered = enumerate(zip(arrivals, costs, strict=True))
    calls = ((arrival.when, prepare(number, arrival, cost)) for number, (arrival, cost) in numbered)
    clock.follow(heapq.merge(calls, draw_background(), key=itemgetter(0)))
    clock.run()
    return core.busy_seconds / clock.now / slowdown, times


def _sum_cpu(pids: Sequence[int]) -> float:
    return sum(cpu_seconds(pid) for pid in pids)


def _read_core() -> CoreSeconds:
    """Return what the servers' core has done."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{SERVERS_CORE}":
            user, nice, system, _, _, interrupts, soft_interrupts, stolen = (int(ticks) for ticks in fields[:8])
            second = os.sysconf("SC_CLK_TCK")
            return CoreSeconds((user + nice + system + interrupts + soft_interrupts) / second, stolen / second)
    raise SystemExit(f"/proc/stat has no cpu{SERVERS_CORE}")
