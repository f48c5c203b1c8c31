"""Measure what a tenant notices of another one: `python -m bench.fairness [import] [search] [learn]`.

One process serves two tenants, unless a row names another form. *acme* sends one call after the other; *evil* first
does nothing, then
- `import`: imports a playbook of 90,000 bullets (`--bullets`),
- `search`: searches with 200 clients of a process of its own, by turns without shares (`HANSEI_AUTH_TENANT_CALLS=0`)
  and with the default, twice each,
- `learn`: learns with 200 clients, at one process and at a process for each service, with their resident memory after
  each round, and their processor time a Learn, the delivery to the archive included.

All runs share this machine, clients included, so that only comparisons within one run say anything. With all parts it
writes `bench/results/fairness.json` and the table in `bench/README.md`; otherwise it prints.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from bench.load import cpu_seconds, wait_until_idle
from bench.report import machine, write
from chassis.errors import HanseiError
from hansei.client import AsyncClient, Client
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, Delta
from tests.support import systems
from tests.support.bulk_jobs import build_trajectory
from tests.support.systems import System
from tests.support.tenants import ALL, key_of

CLIENTS = 200
CALLS = 200
FLOOD_SECONDS = 30.0
"""The longest time for which acme's calls beside a flood are measured."""
IMPORTED = 90_000
LEARN_ROUNDS = 3
LEARNS = 400
DELIVERY_SECONDS = 1.0
"""The time after a round in which the last trajectories reach the archive."""
PLAYBOOK = "".join(f"[b-{n:05}] Before call {n} of the orders API, look up page {n % 97}.\n" for n in range(1_000))
QUERY = "look up the page before a call of the orders API"


@contextmanager
def two_tenants(
    run: Callable[..., AbstractContextManager[System]], **environment: str
) -> Iterator[tuple[str, dict[str, str], list[int]]]:
    """Yield address, keys and process ids of a system for the tenants acme and evil, each with a playbook."""
    with (
        tempfile.TemporaryDirectory() as folder,
        run(
            Path(folder), GATEWAY_API_TOKEN="root", HANSEI_LOG_LEVEL="ERROR", HANSEI_EMBEDDING_PROVIDER="hashing",
            **environment,
        ) as system,
        Client(system.address, token="root") as operator,
    ):  # fmt: skip
        keys = {name: key_of(operator, "bench", name, *ALL) for name in ("acme", "evil")}
        for name in keys:
            operator.import_playbook(f"{name}--faq", PLAYBOOK.encode())
        yield system.address, keys, [process.pid for process in system.processes.values()]


def _build_delta(number: int) -> Delta:
    return Delta(type=DELTA_TYPE_ADD, section="others", content=f"Lesson {number} of acme.")


def flood(address: str, key: str, what: str, started: Event, ends: Event, learned: Any) -> None:
    """Call with many clients until `ends` is set; for `learn`, until LEARNS are learned, and return the durations."""
    durations: list[float] = []

    async def call_again_and_again(client: AsyncClient, numbers: Iterator[int]) -> None:
        for number in numbers:
            if ends.is_set():
                return
            began = time.perf_counter()
            try:
                if what == "learn":
                    await client.learn(build_trajectory("evil--faq", number), request_id=str(uuid.uuid4()))
                else:
                    await client.search("evil--faq", QUERY)
            except HanseiError:
                await asyncio.sleep(0.1)
                continue
            durations.append(time.perf_counter() - began)
            started.set()

    async def call_all() -> None:
        numbers = iter(range(LEARNS if what == "learn" else 10**9))
        async with AsyncClient(address, token=key) as client:
            await asyncio.gather(*(call_again_and_again(client, numbers) for _ in range(CLIENTS)))

    asyncio.run(call_all())
    learned.put(durations)


@contextmanager
def run_flood(address: str, key: str, what: str) -> Iterator[list[float]]:
    """Run a flood in a process of its own; at the end the yielded list holds its durations in seconds."""
    context = multiprocessing.get_context("spawn")
    started, ends, durations = context.Event(), context.Event(), context.Queue()
    process = context.Process(target=flood, args=(address, key, what, started, ends, durations))
    process.start()
    started.wait(120)
    found: list[float] = []
    try:
        yield found
    finally:
        if what != "learn":
            ends.set()
        found += durations.get(timeout=600)
        process.join(60)


def time_calls(call: Callable[[], object], goes_on: Callable[[int], bool] = lambda done: done < CALLS) -> list[float]:
    """Return the milliseconds of calls, for as long as `goes_on` allows with the number of those that are done."""
    found: list[float] = []
    while goes_on(len(found)):
        began = time.perf_counter()
        call()
        found.append((time.perf_counter() - began) * 1_000)
    return found


def build_row(
    what: str, shares: str, found: list[float], memory: float | str = "", cpu: float | str = ""
) -> dict[str, Any]:
    """Return a row with quantiles of milliseconds."""
    found = sorted(found)
    p50, p99 = found[len(found) // 2], found[min(len(found) - 1, int(len(found) * 0.99))]
    return {"what": what, "shares": shares, "calls": len(found), "p50_ms": p50, "p99_ms": p99, "max_ms": found[-1],
            "cpu_ms": cpu, "memory_mb": memory}  # fmt: skip


def read_memory(pids: Sequence[int]) -> float:
    """Return the resident memory of the processes in MB."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_searches() -> Iterator[dict[str, Any]]:
    """Yield the rows of acme's searches alone and beside a flood, by turns without and with shares."""
    for shares in ("none", "default") * 2:
        environment = {"HANSEI_AUTH_TENANT_CALLS": "0"} if shares == "none" else {}
        with (
            two_tenants(systems.one_process, **environment) as (address, keys, _),
            Client(address, token=keys["acme"]) as acme,
        ):
            search = lambda: acme.search("acme--faq", QUERY)  # noqa: E731  called in this turn only
            time_calls(search)
            yield build_row("acme searches, evil does nothing", shares, time_calls(search))
            with run_flood(address, keys["evil"], "search") as durations:
                ends = time.perf_counter() + FLOOD_SECONDS
                found = time_calls(search, lambda done: done < CALLS and time.perf_counter() < ends)  # noqa: B023
            yield build_row(f"acme searches, {CLIENTS} clients of evil search", shares, found)
            yield build_row("those of evil", shares, [seconds * 1_000 for seconds in durations])


def measure_learn() -> Iterator[dict[str, Any]]:
    """Yield the rows of Learn with many clients, round after round on one system of each form."""
    forms = {"one process": systems.one_process, "a process each": systems.separate_processes}
    for form, run in forms.items():
        with two_tenants(run) as (address, keys, pids):
            for pid in pids:
                wait_until_idle(pid)
            for number in range(LEARN_ROUNDS):
                used = sum(map(cpu_seconds, pids))
                with run_flood(address, keys["evil"], "learn") as durations:
                    pass
                time.sleep(DELIVERY_SECONDS)
                cpu_ms = (sum(map(cpu_seconds, pids)) - used) / len(durations) * 1_000
                found = [seconds * 1_000 for seconds in durations]
                what = f"{CLIENTS} clients of evil learn, {form}, round {number + 1}"
                yield build_row(what, "", found, read_memory(pids), cpu_ms)


def measure_import(bullets: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of acme's writes alone and during an import of evil."""
    content = "".join(f"[i-{n:06}] Lesson {n}: look up page {n % 997} first.\n" for n in range(bullets)).encode()
    with ExitStack() as stack:
        address, keys, _ = stack.enter_context(two_tenants(systems.one_process))
        acme = stack.enter_context(Client(address, token=keys["acme"]))
        evil = stack.enter_context(Client(address, token=keys["evil"]))
        numbers = iter(range(10**9))
        write_one = lambda: acme.playbooks.apply_deltas(dataset="acme--faq", deltas=[_build_delta(next(numbers))])  # noqa: E731
        yield build_row("acme writes, evil does nothing", "", time_calls(write_one))
        importing = threading.Thread(target=evil.import_playbook, args=("evil--large", content))
        importing.start()
        found = time_calls(write_one, lambda done: importing.is_alive() or not done)
        importing.join()
        yield build_row(f"acme writes, evil imports {bullets:,}", "", found)


def main() -> None:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="import, search, learn; all without any")
    parser.add_argument("--bullets", type=int, default=IMPORTED)
    options = parser.parse_args()
    parts = {
        "import": lambda: measure_import(options.bullets),
        "search": measure_searches,
        "learn": measure_learn,
    }
    if unknown := set(options.parts) - parts.keys():
        parser.error(f"PART must be one of {', '.join(parts)} (got {min(unknown)!r})")
    rows = []
    for part in options.parts or parts:
        for row in parts[part]():
            print(row, flush=True)
            rows.append(row)
    if not options.parts:
        write("fairness", {"machine": machine() | {"load": f"{os.getloadavg()[0]:.1f}"}, "rows": rows})


if __name__ == "__main__":
    main()
