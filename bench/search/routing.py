"""Datasets spread over search processes by routing: memory, hits, and a process that leaves and returns.

`python -m bench.search.routing [processes [datasets [bullets]]]`. One curator has all playbooks. Callers of one process
ask by Zipf's law, each time for the newest revision that was committed to the dataset, while a writer commits. The
shares are those of the processes' own metrics. `cpu_us` is the processor time that routing adds to a call.

One playbook is committed and indexed; its rows in the curator's database and the snapshot of its index are copied for
the other datasets. The copies of the snapshot are links to one file in the folders of both owners, which have them
after a rolling update; what they map from it is in memory once. `staying_mb` is the resident memory of the processes
that stay, mapped files included, divided by their number: with all processes, after they took over from the one that
left, and after it returned and they released its datasets. If less than `FREE_BYTES` of memory are available while
the playbooks are loaded, the others are left out.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from bench.loop import WORDS
from bench.search import results
from chassis.channels import Peers, build_key_reader
from chassis.errors import HanseiError
from chassis.replicas import Replicas, rank_names
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.support import systems

PROCESSES, DATASETS, BULLETS = 8, 2_000, 1_000
MEMORY_MB = 16_384
"""Limit of the indexes of a process: no index is evicted."""
FREE_BYTES = 5 * 2**30
RELEASE_SECONDS, SNAPSHOT_SECONDS = 60.0, 15.0
CALLERS, WRITES_PER_SECOND, WARM_UP_SECONDS, PHASE_SECONDS = 8, 5.0, 30.0, 15.0
PATH = "/hansei.search.v1.SearchService/Search"
METRIC = re.compile(
    r"^hansei_search_index_(memory_bytes|playbooks|lookups_total|releases_total)(?:\{(.*)\})? (\S+)$", re.MULTILINE
)


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
    failed_writes: list[str] = field(default_factory=list)
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
            try:
                await self.commit(int(rng.integers(self.datasets)), 1)
            except HanseiError as error:
                self.failed_writes.append(f"{error.reason}: {error.message}")
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
        common = {
            "HANSEI_LOG_LEVEL": "ERROR",
            "CURATOR_ADDR": curator,
            "HANSEI_SEARCH_COMPILE_AFTER_SECONDS": "3600",
            "HANSEI_SEARCH_MEMORY_MB": str(MEMORY_MB),
            "HANSEI_SEARCH_OWN_IP": "127.0.0.1",
            "HANSEI_SEARCH_RELEASE_SECONDS": str(RELEASE_SECONDS),
            "HANSEI_SEARCH_SNAPSHOT_SECONDS": str(SNAPSHOT_SECONDS),
            "SEARCH_ADDR": f"ipv4:{','.join(addresses.values())}",
            "PLAYBOOK_DATA_DIR": str(data / "playbooks"),
        }
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
        await _fill(planned, curator, addresses, datasets, bullets)
        with systems.run_system(planned):
            peers, traffic = _connect(curator, addresses.values(), datasets)
            row = await _observe(traffic, planned, names, scraped)
            cpu = await _measure_routing(f"ipv4:{','.join(addresses.values())}")
            await peers.close()
        return {"processes": processes, "bullets": bullets, **row, **cpu}


def _connect(curator: str, addresses: Iterable[str], datasets: int) -> tuple[Peers, Traffic]:
    peers = Peers({"curator": curator, "search": f"ipv4:{','.join(addresses)}"}, routed=True)
    search = search_service_pb2_grpc.SearchServiceStub(peers.get_channel("search"))
    playbooks = playbook_service_pb2_grpc.PlaybookServiceStub(peers.get_channel("curator"))
    return peers, Traffic(search, playbooks, datasets, dict.fromkeys(range(datasets), 1))


async def _fill(
    system: systems.System, curator: str, addresses: Mapping[str, str], datasets: int, bullets: int
) -> None:
    """Commit and index one playbook, and copy it."""
    first = next(iter(addresses))
    with systems.run_system(system, ("curator", first)):
        peers, traffic = _connect(curator, [addresses[first]], datasets)
        await traffic.commit(0, bullets)
        await traffic.ask(0)
        await peers.close()
    _copy_rows(system.data / "playbooks/playbooks.db", datasets)
    snapshots = system.data / "snapshots"
    (snapshots / first / "d0.index").rename(snapshots / "d0.index")
    names = {address: name for name, address in addresses.items()}
    for name in addresses:
        (snapshots / name).mkdir(exist_ok=True)
    for number in range(datasets):
        for owner in rank_names(f"d{number}", names)[:2]:
            (snapshots / names[owner] / f"d{number}.index").hardlink_to(snapshots / "d0.index")
    print("playbook copied", flush=True)


def _copy_rows(file: Path, datasets: int) -> None:
    """Copy the rows of the first dataset to the others."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "CREATE TEMP TABLE copied AS WITH RECURSIVE n(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n"
            f" WHERE number < {datasets - 1}) SELECT 'd' || number AS name FROM n"
        )
        for table in ("dataset", "revision", "change", "bullet"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            key = "name" if table == "dataset" else "dataset"
            selected = ", ".join("copied.name" if name == key else f"t.{name}" for name in names)
            rows = f"SELECT {selected} FROM copied, {table} t WHERE t.{key} = 'd0'"
            connection.execute(f"INSERT INTO {table} ({', '.join(names)}) {rows}")


async def _observe(
    traffic: Traffic, system: systems.System, names: list[str], scraped: dict[str, str]
) -> dict[str, Any]:
    loaded = 0
    while loaded < traffic.datasets and _read_available_bytes() > FREE_BYTES:
        goal = min(loaded + 50, traffic.datasets)
        await _for_each(range(loaded, goal), traffic.ask)
        loaded = goal
        print(f"{loaded:,} playbooks loaded, {_read_available_bytes() / 1e9:.1f} GB available", flush=True)
    traffic.datasets = loaded
    first = _scrape(scraped.values())
    bytes_of_one = sum(first["memory"]) / sum(first["playbooks"])
    row: dict[str, Any] = {"datasets": loaded, "playbook_mb": bytes_of_one / 1e6}
    row["resident_mb"] = max(_read_resident_bytes(system, name, "RssAnon") for name in names) / 1e6
    leaving = names[-1]
    staying = [scraped[name] for name in names[:-1]]

    def read_staying_mb() -> float:
        return sum(_read_resident_bytes(system, name, "VmRSS") for name in names[:-1]) / len(staying) / 1e6

    async with traffic.running():
        await asyncio.sleep(WARM_UP_SECONDS)
        warm = _scrape(scraped.values())
        await asyncio.sleep(PHASE_SECONDS)
        after = _scrape(scraped.values())
        hits, misses = (sum(after[kind]) - sum(warm[kind]) for kind in ("hit", "miss"))
        row["memory_share"] = max(after["memory"]) / (bytes_of_one * traffic.datasets)
        row["most_playbooks"] = int(max(after["playbooks"]))
        row["hit_share"] = hits / (hits + misses)
        row["staying_mb"] = read_staying_mb()
        before = sum(_scrape(staying)["miss"])
        await asyncio.to_thread(system.stop, leaving)
        await asyncio.sleep(PHASE_SECONDS)
        row["reloaded_when_leaving"] = (sum(_scrape(staying)["miss"]) - before) / traffic.datasets
        row["staying_mb_after_leaving"] = read_staying_mb()
        took_over = _scrape(staying)
        before = sum(took_over["miss"])
        system.start(leaving)
        await asyncio.to_thread(system.wait_until_started, leaving)
        await asyncio.sleep(PHASE_SECONDS)
        returned = sum(_scrape([scraped[leaving]])["miss"])
        row["reloaded_when_returning"] = (sum(_scrape(staying)["miss"]) - before + returned) / traffic.datasets
        await asyncio.sleep(RELEASE_SECONDS + 2 * SNAPSHOT_SECONDS)
        row["staying_mb_after_returning"] = read_staying_mb()
        released = _scrape(staying)
        row["released"] = int(sum(released["releases"]) - sum(took_over["releases"]))
        row["staying_estimate_change_mb"] = (sum(released["memory"]) - sum(took_over["memory"])) / len(staying) / 1e6
    for failure in (*traffic.failed[:5], *traffic.failed_writes[:5]):
        print(failure, flush=True)
    failed = {"failed": len(traffic.failed), "failed_writes": len(traffic.failed_writes)}
    return row | {"calls": traffic.calls, **failed, "older_than_asked": traffic.older}


def _scrape(addresses: Any) -> dict[str, list[float]]:
    """Return the memory, playbooks, hits, misses and releases of each process."""
    found: dict[str, list[float]] = {kind: [] for kind in ("memory", "playbooks", "hit", "miss", "releases")}
    for address in addresses:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as response:
            text = response.read().decode()
        for name, labels, value in METRIC.findall(text):
            kind = ("hit" if "hit" in labels else "miss") if name == "lookups_total" else name.partition("_")[0]
            found[kind].append(float(value))
    return found


def _read_available_bytes() -> int:
    return _read_kilobytes("/proc/meminfo", "MemAvailable") * 1024


def _read_resident_bytes(system: systems.System, name: str, field: str) -> int:
    """Return the memory of a process: `VmRSS`, or without mapped files, `RssAnon`."""
    return _read_kilobytes(f"/proc/{system.processes[name].pid}/status", field) * 1024


def _read_kilobytes(file: str, field: str) -> int:
    (line,) = [line for line in Path(file).read_text().splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1])


async def _measure_routing(target: str) -> dict[str, float]:
    """Return the microseconds of processor time that the choice of a replica takes, for messages and for bytes."""
    peers = Peers({"search": target}, routed=True)
    search_service_pb2_grpc.SearchServiceStub(peers.get_channel("search"))
    replicas: Replicas = peers.get_channel("search").replicas  # type: ignore[assignment]
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
