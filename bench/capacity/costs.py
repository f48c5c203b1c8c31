"""Measure what a call costs: processor time in each process that takes part, memory, disk, and bytes on the wire.

Every service runs in a process of its own on one PostgreSQL, as on a cluster, with the rules instead of a chat model,
and with the embedding model `hashing`, whose vectors cost next to nothing; the model `minilm-int8` is measured by
itself (`Embed`), because its cost depends on the text alone. Calls go through the gateway. Processor time is that of
the processes' own clocks, so that other work on the machine disturbs it little; that of an idle process is subtracted.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from bench.capacity import material
from bench.capacity.cluster import compute_spread
from bench.capacity.material import SIZES, Size
from bench.capacity.processes import ProcessMeter
from bench.load import cpu_seconds
from bench.report import machine
from hansei.curator.v1 import curator_service_pb2, curator_service_pb2_grpc
from hansei.evidence.v1 import (
    evidence_service_pb2,
    evidence_service_pb2_grpc,
    guard_service_pb2,
    guard_service_pb2_grpc,
)
from hansei.gateway.v1 import gateway_service_pb2, gateway_service_pb2_grpc
from hansei.planner.v1 import planner_service_pb2_grpc
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.reflector.v1 import reflector_service_pb2, reflector_service_pb2_grpc
from hansei.search.v1 import search_service_pb2, search_service_pb2_grpc
from hansei.validator.v1 import validator_service_pb2_grpc
from tests.support import systems
from tests.support.postgres_server import find_postgres_programs, postgres_server

WARM_UP, ALONE, TOGETHER, CALLERS = 4, 24, 60, 4
"""Calls before those that count, calls one after the other, calls of several callers at once, and those callers."""
LEAST_ALONE, PHASE_SECONDS = 6, 2.5
"""Slow calls are fewer: no new one begins after that time."""
UNUSED_NUMBERS = 10_000
LEAST_CPU_SECONDS = 2e-5
IDLE_SECONDS, IDLE_SHARE, SETTLE_SECONDS = 3.0, 0.05, 0.3
FLUSHES = 40
EMBEDDED_WORDS = (material.QUERY_WORDS, material.BULLET_WORDS, 60)
"""The words of a query, of a bullet, and of a long text."""
TIMEOUT = 120

Exchange = tuple[Any, Any]
Call = Callable[[int], Awaitable[Exchange]]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one call.

    ``cpu_ms`` is by process, of several callers at once; ``spread`` the standard deviation of single calls as a share
    of their mean; ``loop_share`` the share of the event loop, which no other call can use meanwhile; ``alone_ms`` the
    median time of a call that is alone.
    """

    method: str
    size: str
    cpu_ms: Mapping[str, float]
    spread: Mapping[str, float]
    loop_share: Mapping[str, float]
    alone_ms: float
    request_bytes: int
    response_bytes: int
    stored_bytes: int
    log_bytes: int


@dataclass
class Stubs:
    """The services behind one address."""

    channel: grpc.aio.Channel
    created: dict[type, Any] = field(default_factory=dict)

    def call(self, stub: Any, method: str, request: Any) -> Awaitable[Any]:
        """Call a method of a service, which this address serves."""
        if stub not in self.created:
            self.created[stub] = stub(self.channel)
        return getattr(self.created[stub], method)(request, timeout=TIMEOUT)  # type: ignore[no-any-return]


async def measure_costs() -> dict[str, Any]:
    """Return the costs of all methods at all sizes, the memory of a dataset, and what the machine is."""
    programs = find_postgres_programs()
    if programs is None:
        raise SystemExit("PostgreSQL is not installed: initdb and pg_ctl are not there")
    with tempfile.TemporaryDirectory() as folder, postgres_server(programs) as server:
        data = Path(folder)
        environment = {**systems.server_databases(server), **systems.METRICS, "HANSEI_LOG_LEVEL": "INFO"}
        with systems.run_system(systems.create_system("capacity", data, {}, environment)) as system:
            meter = ProcessMeter(system, server)
            async with grpc.aio.insecure_channel(system.address) as channel:
                bench = _Bench(system, meter, Stubs(channel))
                await bench.measure_all()
        embedding = await _measure_embedding(data)
        flush_ms = _measure_flush(data)
    return {
        "machine": machine() | {"load": f"{os.getloadavg()[0]:.1f}"},
        "most_calls": {"alone": ALONE, "together": TOGETHER, "callers": CALLERS},
        "flush_ms": round(flush_ms, 2),
        "idle_cpu_share": {name: round(share, 4) for name, share in bench.idle.items()},
        "resident_mb": {name: round(size / 1e6) for name, size in bench.resident.items()},
        "datasets": bench.datasets,
        "costs": [_describe(cost) for cost in (*bench.costs, *embedding)],
    }


class _Bench:
    """Measures one method after the other, at one size after the other."""

    def __init__(self, system: systems.System, meter: ProcessMeter, stubs: Stubs) -> None:
        self._system = system
        self._meter = meter
        self._call = stubs.call
        self.costs: list[Cost] = []
        self.datasets: list[dict[str, Any]] = []
        self.idle: dict[str, float] = {}
        self.resident: dict[str, int] = {}
        self._reflections: list[Any] = []

    async def measure_all(self) -> None:
        self.idle = await self._measure_idle()
        self.resident = self._meter.read_memory()
        for size in SIZES:
            await self._prepare(size)
            for method, call, parts in self._list_methods(size):
                self.costs.append(await self._measure(method, size, call, parts))
            print(f"{size.name}: measured", flush=True)

    async def _measure_idle(self) -> dict[str, float]:
        """Return the share of a core that each idle process uses, once search has compiled its loops."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                before, began = self._meter.read_cpu(), time.monotonic()
                await asyncio.sleep(IDLE_SECONDS)
                used, seconds = self._meter.read_cpu(), time.monotonic() - began
                shares = {name: (used[name] - before[name]) / seconds for name in used}
                if max(shares.values()) < IDLE_SHARE:
                    return shares

    async def _prepare(self, size: Size) -> None:
        """Fill the playbook of a size, load its index, and start its trials, its guards and a session."""
        revision = 0
        for request in material.build_fill(size):
            response = await self._call(playbook_service_pb2_grpc.PlaybookServiceStub, "ApplyDeltas", request)
            revision = response.revision
        self.datasets.append(await self._load(size, revision))
        trials = evidence_service_pb2.StartTrialsRequest(
            request_id=material.build_delta(size, 0).request_id, dataset=size.dataset
        )
        await self._call(evidence_service_pb2_grpc.EvidenceServiceStub, "StartTrials", trials)
        for number in range(size.steps):
            await self._call(guard_service_pb2_grpc.GuardServiceStub, "ReportCall", material.build_report(size, number))
        await self._wait_for_guards(size)

    async def _wait_for_guards(self, size: Size) -> None:
        """Wait until the evidence service has read the guards of the playbook."""
        request = guard_service_pb2.ListGuardsRequest(dataset=size.dataset, page_size=1_000)
        async with asyncio.timeout(TIMEOUT):
            while True:
                response = await self._call(guard_service_pb2_grpc.GuardServiceStub, "ListGuards", request)
                if len(response.guards) == size.steps:
                    return
                await asyncio.sleep(0.1)

    async def _load(self, size: Size, revision: int) -> dict[str, Any]:
        """Return the cost of the first search, which loads the index from the change feed."""
        before, memory = self._meter.read_cpu(), self._meter.read_memory()["search"]
        index = self._read_index_bytes()
        began = time.perf_counter()
        await self._call(
            search_service_pb2_grpc.SearchServiceStub, "Search", material.build_search(size, -1, min_revision=revision)
        )
        seconds = time.perf_counter() - began
        await asyncio.sleep(SETTLE_SECONDS)
        after = self._meter.read_cpu()
        return {
            "size": size.name,
            "bullets": size.bullets,
            "load_cpu_ms": {name: round((after[name] - before[name]) * 1e3, 1) for name in ("search", "curator")},
            "load_ms": round(seconds * 1e3, 1),
            "index_bytes": round(self._read_index_bytes() - index),
            "resident_bytes": self._meter.read_memory()["search"] - memory,
        }

    def _read_index_bytes(self) -> float:
        return sum(self._system.read_metric("hansei_search_index_memory_bytes", "search").values())

    def _list_methods(self, size: Size) -> list[tuple[str, Call, int]]:
        """Return the methods in the order of their measurement, each with the parts of a call that the cost is of."""
        servings: list[str] = []
        reflections: list[Any] = []

        def simply(stub: Any, method: str, build: Callable[[Size, int], Any]) -> Call:
            async def call(number: int) -> Exchange:
                request = build(size, number)
                return request, await self._call(stub, method, request)

            return call

        async def recall(number: int) -> Exchange:
            request = material.build_recall(size, number)
            response = await self._call(evidence_service_pb2_grpc.EvidenceServiceStub, "Recall", request)
            servings.append(response.serving_id)
            return request, response

        async def report_outcome(number: int) -> Exchange:
            if not servings:  # Recall was so slow that there were fewer of its calls
                await recall(number + UNUSED_NUMBERS)
            request = evidence_service_pb2.ReportOutcomeRequest(
                dataset=size.dataset, serving_id=servings.pop(), succeeded=number % 2 == 0
            )
            return request, await self._call(evidence_service_pb2_grpc.EvidenceServiceStub, "ReportOutcome", request)

        async def get_playbook(_: int) -> Exchange:
            request = playbook_service_pb2.GetPlaybookRequest(dataset=size.dataset)
            return request, await self._call(playbook_service_pb2_grpc.PlaybookServiceStub, "GetPlaybook", request)

        async def reflect(number: int) -> Exchange:
            trajectory = material.build_trajectory(size, number, "reflect")
            request = reflector_service_pb2.ReflectRequest(trajectory=trajectory, dataset=size.dataset)
            response = await self._call(reflector_service_pb2_grpc.ReflectorServiceStub, "Reflect", request)
            reflections.append(response.result)
            return request, response

        async def curate(number: int) -> Exchange:
            if not reflections:
                await reflect(number + UNUSED_NUMBERS)
            request = curator_service_pb2.CurateRequest(
                request_id=material.build_delta(size, 0).request_id,
                reflection_result=reflections.pop(),
                dataset=size.dataset,
            )
            return request, await self._call(curator_service_pb2_grpc.CuratorServiceStub, "Curate", request)

        async def learn(number: int) -> Exchange:
            request = gateway_service_pb2.LearnRequest(
                request_id=material.build_delta(size, 0).request_id,
                dataset=size.dataset,
                trajectory=material.build_trajectory(size, number, "learn"),
            )
            response = await self._call(gateway_service_pb2_grpc.GatewayServiceStub, "Learn", request)
            assert response.curation.saved, response.curation.error
            return request, response

        async def run_plan(_: int) -> Exchange:
            request = material.build_plan(size)
            return request, await self._call(planner_service_pb2_grpc.PlannerServiceStub, "RunPlan", request)

        guards = guard_service_pb2_grpc.GuardServiceStub
        reports = validator_service_pb2_grpc.ValidatorServiceStub
        return [
            ("Search", simply(search_service_pb2_grpc.SearchServiceStub, "Search", material.build_search), 1),
            ("Answer", simply(gateway_service_pb2_grpc.GatewayServiceStub, "Answer", material.build_answer), 1),
            ("Recall", recall, 1),
            ("ReportOutcome", report_outcome, 1),
            ("CheckCall", simply(guards, "CheckCall", material.build_check), 1),
            ("ReportCall", simply(guards, "ReportCall", material.build_report), 1),
            ("GetPlaybook", get_playbook, 1),
            ("RunPlan, a step", run_plan, size.plan_steps),
            ("ValidateReport", simply(reports, "ValidateReport", material.build_report_of_a_team), 1),
            ("Reflect", reflect, 1),
            ("Curate", curate, 1),
            ("Learn", learn, 1),
            (
                "ApplyDeltas",
                simply(playbook_service_pb2_grpc.PlaybookServiceStub, "ApplyDeltas", material.build_delta),
                1,
            ),
        ]

    async def _measure(self, method: str, size: Size, call: Call, parts: int) -> Cost:
        numbers = itertools.count()
        for _ in range(WARM_UP):
            await call(next(numbers))
        await asyncio.sleep(SETTLE_SECONDS)
        stored, log = self._meter.read_disk()
        alone: list[dict[str, float]] = []
        times: list[float] = []
        until = time.monotonic() + PHASE_SECONDS
        while len(times) < LEAST_ALONE or (len(times) < ALONE and time.monotonic() < until):
            before, began = self._meter.read_cpu(), time.perf_counter()
            await call(next(numbers))
            times.append(time.perf_counter() - began)
            after = self._meter.read_cpu()
            alone.append({name: after[name] - before[name] for name in before})
        await asyncio.sleep(SETTLE_SECONDS)
        exchanged: list[Exchange] = []
        until = time.monotonic() + PHASE_SECONDS

        async def work(count: int) -> None:
            for _ in range(count):
                exchanged.append(await call(next(numbers)))
                if time.monotonic() > until:
                    return

        before, loops, began = self._meter.read_cpu(), self._meter.read_loops(), time.monotonic()
        await asyncio.gather(*(work(TOGETHER // CALLERS) for _ in range(CALLERS)))
        await asyncio.sleep(SETTLE_SECONDS)  # work that a call leaves behind: outbox, change feed
        after, seconds = self._meter.read_cpu(), time.monotonic() - began
        loops = {name: used - loops[name] for name, used in self._meter.read_loops().items()}
        stored_after, log_after = self._meter.read_disk()
        counted = len(exchanged) * parts
        used = {name: max(0.0, after[name] - before[name] - self.idle[name] * seconds) / counted for name in before}
        stored_by = (len(times) + len(exchanged)) * parts
        return Cost(
            method,
            size.name,
            cpu_ms={name: value * 1e3 for name, value in used.items() if value >= LEAST_CPU_SECONDS},
            spread={name: compute_spread([used_alone[name] for used_alone in alone]) for name in used},
            loop_share={name: min(1.0, share / max(1e-9, after[name] - before[name])) for name, share in loops.items()},
            alone_ms=statistics.median(times) * 1e3 / parts,
            request_bytes=_average_bytes(exchanged, 0) // parts,
            response_bytes=_average_bytes(exchanged, 1) // parts,
            stored_bytes=max(0, stored_after - stored) // stored_by,
            log_bytes=(log_after - log) // stored_by,
        )


async def _measure_embedding(data: Path) -> list[Cost]:
    """Return the cost of embedding a text with `minilm-int8`: a query, a bullet, and a long text."""
    found = []
    peer = f"127.0.0.1:{systems.free_port()}"  # no curator: nothing is followed
    environment = {
        "EMBEDDING_PROVIDER": "minilm-int8",
        "HANSEI_EMBEDDING_MODEL_DIR": str(data / "models"),
        "CURATOR_ADDR": peer,
        "HANSEI_SEARCH_DATABASE_URL": str(data / "embed.db"),
        "HANSEI_SEARCH_COMPILE_AFTER_SECONDS": "3600",  # nothing is ranked, and compiling would be counted
    }
    with systems.one_service(data, "search", **environment) as system:
        pid = system.processes["search"].pid
        async with grpc.aio.insecure_channel(system.addresses["search"]) as channel:
            stub: Any = search_service_pb2_grpc.SearchServiceStub(channel)
            for size, words in zip(SIZES, EMBEDDED_WORDS, strict=True):
                used, times = [], []
                for number in range(WARM_UP + ALONE):
                    request = search_service_pb2.EmbedRequest(
                        texts=[material.build_words(words, (size.name, number))],
                        purpose=search_service_pb2.EMBED_PURPOSE_QUERY,
                    )
                    before, began = cpu_seconds(pid), time.perf_counter()
                    response = await stub.Embed(request, timeout=TIMEOUT)
                    times.append(time.perf_counter() - began)
                    used.append(cpu_seconds(pid) - before)
                used, times = used[WARM_UP:], times[WARM_UP:]
                found.append(
                    Cost(
                        f"Embed, {words} words",
                        size.name,
                        {"search": statistics.mean(used) * 1e3},
                        {"search": compute_spread(used)},
                        {},
                        statistics.median(times) * 1e3,
                        request.ByteSize(),
                        response.ByteSize(),
                        0,
                        0,
                    )
                )
    return found


def _measure_flush(folder: Path) -> float:
    """Return the median milliseconds in which this disk stores a page."""
    times = []
    with (folder / "flush").open("wb") as file:
        for _ in range(FLUSHES):
            began = time.perf_counter()
            file.write(b"x" * 8192)
            file.flush()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def _average_bytes(exchanged: list[Exchange], position: int) -> int:
    return sum(int(exchange[position].ByteSize()) for exchange in exchanged) // len(exchanged)


def _describe(cost: Cost) -> dict[str, Any]:
    return {
        "method": cost.method,
        "size": cost.size,
        "cpu_ms": {name: round(value, 3) for name, value in cost.cpu_ms.items()},
        "spread": {name: round(cost.spread[name], 2) for name in cost.cpu_ms},
        "loop_share": {name: round(cost.loop_share.get(name, 0.0), 2) for name in cost.cpu_ms},
        "alone_ms": round(cost.alone_ms, 2),
        "request_bytes": cost.request_bytes,
        "response_bytes": cost.response_bytes,
        "stored_bytes": cost.stored_bytes,
        "log_bytes": cost.log_bytes,
    }
