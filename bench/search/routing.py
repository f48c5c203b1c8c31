"""Datasets spread over search processes by routing: memory, hits, and a process that leaves and returns.

`python -m bench.search.routing [processes [datasets [bullets]]]`. One curator has all playbooks. Callers of one process
ask by Zipf's law, each time for the newest revision that was committed to the dataset, while a writer commits. The
shares are those of the processes' own metrics. `cpu_us` is the processor time that routing adds to a call.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from bench.loop import WORDS
from bench.search import results
from chassis.channels import Peers, build_key_reader
from chassis.errors import HanseiError
from chassis.replicas import Replicas
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.support import systems

PROCESSES, DATASETS, BULLETS = 8, 2_000, 20
CALLERS, WRITES_PER_SECOND, WARM_UP_SECONDS, PHASE_SECONDS = 8, 5.0, 30.0, 15.0
PATH = "/hansei.search.v1.SearchService/Search"
METRIC = re.compile(r"^hansei_search_index_(memory_bytes|playbooks|lookups_total)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def main() -> None:
    """Measure and write."""
    sizes = [int(argument) for argument in sys.argv[1:]]
    processes, datasets, bullets = (*sizes, *(PROCESSES, DATASETS, BULLETS)[len(sizes) :])
    results.write("routing", [uvloop.run(_measure(processes, datasets, bullets))])


@dataclass
class Traffic:
    """Callers that ask for datasets by Zipf's law, and a writer, until it is stopped."""

    search: Any
    playbooks: Any
    datasets: int
    revisions: dict[int, int] = field(default_factory=dict)
    calls: int = 0
    failed: list[str] = field(default_factory=list)
    older: int = 0
    stopping: bool = False

    async def ask(self, number: int) -> None:
        """Search one dataset, at the newest revision that was committed."""
        min_revision = self.revisions[number]
        query = search_pb2.SearchQuery(query_text=" ".join(WORDS[:4]), top_k=5)
        request = search_service_pb2.SearchRequest(dataset=f"d{number}", query=query, min_revision=min_revision)
        try:
            response = await self.search.Search(request)
            self.older += response.revision < min_revision
        except HanseiError as error:
            self.failed.append(f"{error.reason}: {error.message}")
        self.calls += 1

    async def commit(self, number: int, count: int) -> None:
        """Add bullets to a dataset."""
        rng = np.random.default_rng()
        texts = [" ".join(rng.choice(WORDS, 12)) + f" {uuid.uuid4().hex[:6]}" for _ in range(count)]
        deltas = [playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="bench", content=text) for text in texts]
        request = playbook_service_pb2.ApplyDeltasRequest(
            request_id=str(uuid.uuid4()), dataset=f"d{number}", deltas=deltas
        )
        self.revisions[number] = int((await self.playbooks.ApplyDeltas(request)).revision)

    async def call_without_end(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        weights = 1 / np.arange(1, self.datasets + 1)
        while not self.stopping:
            for number in rng.choice(self.datasets, 100, p=weights / weights.sum()).tolist():
                await self.ask(number)
                if self.stopping:
                    return

    async def write_without_end(self) -> None:
        rng = np.random.default_rng(0)
        while not self.stopping:
            await self.commit(int(rng.integers(self.datasets)), 1)
            await asyncio.sleep(1 / WRITES_PER_SECOND)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Call and write in the background."""
        async with asyncio.TaskGroup() as group:
            for seed in range(CALLERS):
                group.create_task(self.call_without_end(seed))
            group.create_task(self.write_without_end())
            yield
            self.stopping = True


async def _for_each(numbers: range, work: Any) -> None:
    """Run `work(number)` for each number, eight at once."""
    rest = iter(numbers)

    async def take() -> None:
        for number in rest:
            await work(number)

    await asyncio.gather(*(take() for _ in range(CALLERS)))


async def _measure(processes: int, datasets: int, bullets: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        data, names = Path(folder), [f"search-{number}" for number in range(processes)]
        ports = {name: systems.free_port() for name in names}
        scraped = {name: f"127.0.0.1:{systems.free_port()}" for name in names}
        curator = f"127.0.0.1:{systems.free_port()}"
        addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        common = {"HANSEI_LOG_LEVEL": "ERROR", "CURATOR_ADDR": curator, "HANSEI_SEARCH_COMPILE_AFTER_SECONDS": "3600"}
        programs = {"curator": systems.create_program("services.curator", curator, data, common)} | {
            name: systems.create_program(
                "services.search",
                addresses[name],
                data,
                common
                | {
                    "HANSEI_METRICS_ADDRESS": scraped[name],
                    "HANSEI_SEARCH_DATABASE_URL": str(data / f"{name}.db"),
                    "HANSEI_SEARCH_SNAPSHOT_DIR": str(data / "snapshots" / name),
                },
            )
            for name in names
        }
        planned = systems.System("routing", addresses, data, programs)
        with systems.run_system(planned):
            target = f"ipv4:{','.join(addresses.values())}"
            peers = Peers({"curator": curator, "search": target}, routed=True)
            channel = peers.channel("search")
            traffic = Traffic(
                search_service_pb2_grpc.SearchServiceStub(channel),
                playbook_service_pb2_grpc.PlaybookServiceStub(peers.channel("curator")),
                datasets,
            )
            await _for_each(range(datasets), lambda number: traffic.commit(number, bullets))
            print("playbooks committed", flush=True)
            row = await _observe(traffic, planned, names, scraped)
            cpu = await _measure_routing(target)
            await peers.close()
        return {"processes": processes, "datasets": datasets, "bullets": bullets, **row, **cpu}


async def _observe(
    traffic: Traffic, system: systems.System, names: list[str], scraped: dict[str, str]
) -> dict[str, Any]:
    await _for_each(range(traffic.datasets), traffic.ask)
    print("each playbook asked once", flush=True)
    first = _scrape(scraped.values())
    bytes_of_one = sum(first["memory"]) / sum(first["playbooks"])
    row: dict[str, Any] = {}
    leaving = names[-1]
    staying = [scraped[name] for name in names[:-1]]
    async with traffic.running():
        await asyncio.sleep(WARM_UP_SECONDS)
        warm = _scrape(scraped.values())
        await asyncio.sleep(PHASE_SECONDS)
        after = _scrape(scraped.values())
        hits, misses = (sum(after[kind]) - sum(warm[kind]) for kind in ("hit", "miss"))
        row["memory_share"] = max(after["memory"]) / (bytes_of_one * traffic.datasets)
        row["most_playbooks"] = int(max(after["playbooks"]))
        row["hit_share"] = hits / (hits + misses)
        before = sum(_scrape(staying)["miss"])
        await asyncio.to_thread(system.stop, leaving)
        await asyncio.sleep(PHASE_SECONDS)
        row["reloaded_when_leaving"] = (sum(_scrape(staying)["miss"]) - before) / traffic.datasets
        before = sum(_scrape(staying)["miss"])
        system.start(leaving)
        await asyncio.to_thread(system.wait_until_started, leaving)
        await asyncio.sleep(PHASE_SECONDS)
        returned = sum(_scrape([scraped[leaving]])["miss"])
        row["reloaded_when_returning"] = (sum(_scrape(staying)["miss"]) - before + returned) / traffic.datasets
    for failure in traffic.failed[:5]:
        print(failure, flush=True)
    return row | {"calls": traffic.calls, "failed": len(traffic.failed), "older_than_asked": traffic.older}


def _scrape(addresses: Any) -> dict[str, list[float]]:
    """Return the memory, playbooks, hits and misses of each process."""
    found: dict[str, list[float]] = {"memory": [], "playbooks": [], "hit": [], "miss": []}
    for address in addresses:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as response:
            text = response.read().decode()
        for name, labels, value in METRIC.findall(text):
            kind = ("hit" if "hit" in labels else "miss") if name == "lookups_total" else name.partition("_")[0]
            found[kind].append(float(value))
    return found


async def _measure_routing(target: str) -> dict[str, float]:
    """Return the microseconds of processor time that the choice of a replica takes, for messages and for bytes."""
    peers = Peers({"search": target}, routed=True)
    search_service_pb2_grpc.SearchServiceStub(peers.channel("search"))
    replicas: Replicas = peers.channel("search").replicas  # type: ignore[assignment]
    read_key = build_key_reader(PATH, "dataset")
    query = search_pb2.SearchQuery(query_text=" ".join(WORDS[:8]), top_k=5)
    requests = [search_service_pb2.SearchRequest(dataset=f"d{number}", query=query) for number in range(1000)]
    async with asyncio.timeout(30):
        while not replicas.choose("d0"):  # noqa: ASYNC110  connections say nothing when they are ready
            await asyncio.sleep(0.1)
    taken = {}
    for kind, requests_of_kind in (
        ("message", requests),
        ("bytes", [request.SerializeToString() for request in requests]),
    ):
        times = []
        for _ in range(20):
            began = time.process_time()
            for request in requests_of_kind:
                key = read_key(request)
                replica = replicas.choose(key)[0]
                replicas.count(key, replica)
                replicas.record_call_start(replica)
                replicas.record_call_end(replica)
            times.append((time.process_time() - began) / len(requests_of_kind) * 1e6)
        taken[f"cpu_us_{kind}"] = float(np.median(times))
    await peers.close()
    return taken


if __name__ == "__main__":
    main()
