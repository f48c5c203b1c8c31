"""Measure commits (alone, concurrent, in a long log), reads, and the delay until a watcher gets a revision.

`python -m bench.curator [revisions of the longest log]` (default 100000) writes `bench/curator/results.json` and the
table in `bench/curator/README.md`. Commits that are compared with each other take turns, so that all meet the same
machine; the ratios count.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.report import machine
from services.curator.adapters.feed import RevisionFeed
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import DeltaContextItem, Proposal
from services.curator.domain.log import Origin, Revision, RevisionKind
from services.curator.usecases.commit import EditBatch, commit
from services.curator.usecases.ports import DatasetTransaction
from tests.support.postgres_server import find_postgres_programs, postgres_server

HERE = Path(__file__).parent
ORIGIN = Origin(RevisionKind.APPLY, "bench")
WRITERS = 32
COMMITS = 320
TURNS = 3
READ_BULLETS = 10_000
LOG_SIZES = [1_000, 10_000, int(sys.argv[1]) if len(sys.argv) > 1 else 100_000]
LOG_COMMITS = 100
WATCHED = 100


def batch(content: str, kind: str = "ADD", bullet_id: str | None = None) -> EditBatch:
    item = {"type": kind, "section": "general", "bullet_id": bullet_id, "content": content, "reasoning": ""}
    return EditBatch(ORIGIN, [Proposal(DeltaContextItem.model_validate(item))])


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[tuple[SqlPlaybookStore, RevisionFeed]]:
    def publish(revision: Revision) -> None:
        feed.publish(revision)

    store = SqlPlaybookStore(url, on_commit=publish)
    feed = RevisionFeed(store, poll_seconds=3600)
    await store.open()
    yield store, feed
    await store.close()


async def measure_commit_rate(store: SqlPlaybookStore, writers: int, turn: int) -> float:
    async def writer(name: int) -> None:
        for number in range(COMMITS // writers):
            await store.write("commits", partial(commit, batch=batch(f"lesson {turn} {writers} {name} {number}")))

    began = time.perf_counter()
    await asyncio.gather(*(writer(name) for name in range(writers)))
    return COMMITS / (time.perf_counter() - began)


async def writing(store: SqlPlaybookStore) -> list[dict[str, Any]]:
    rates: dict[int, list[float]] = {1: [], WRITERS: []}
    for turn in range(TURNS):
        for writers, seen in rates.items():
            seen.append(await measure_commit_rate(store, writers, turn))
    alone = statistics.median(rates[1])
    return [
        {
            "what": f"commits a second, {writers} writer{'s' * (writers > 1)}",
            "value": statistics.median(seen),
            "to_first": statistics.median(seen) / alone,
        }
        for writers, seen in rates.items()
    ]


def grow(transaction: DatasetTransaction, to: int) -> None:
    """Appends revisions, each an update of one of ten bullets."""
    while transaction.revision < to:
        has_targets = transaction.bullets >= 10
        target = f"gene-{transaction.revision % 10 + 1:05d}" if has_targets else None
        commit(transaction, batch(f"text {transaction.revision}", "UPDATE" if has_targets else "ADD", target))


async def long_logs(store: SqlPlaybookStore) -> list[dict[str, Any]]:
    """Return the cost of a commit in logs of several lengths, the commits taking turns."""
    for size in LOG_SIZES:
        while (head := (await store.load(f"log{size}")).revision) < size:
            await store.write(f"log{size}", partial(grow, to=min(size, head + 2_000)))
    seconds: dict[int, list[float]] = {size: [] for size in LOG_SIZES}
    for number in range(LOG_COMMITS):
        for size, seen in seconds.items():
            began = time.perf_counter()
            await store.write(f"log{size}", partial(grow, to=size + number + 1))
            seen.append(time.perf_counter() - began)
    first = statistics.median(seconds[LOG_SIZES[0]])
    return [
        {
            "what": f"ms a commit after {size:,} revisions",
            "value": statistics.median(seen) * 1e3,
            "to_first": statistics.median(seen) / first,
        }
        for size, seen in seconds.items()
    ]


async def reading(url: str, store: SqlPlaybookStore) -> list[dict[str, Any]]:
    proposals = [batch(f"a lesson of ordinary length, number {n}").proposals[0] for n in range(READ_BULLETS)]
    for start in range(0, READ_BULLETS, 1_000):
        await store.write("read", partial(commit, batch=EditBatch(ORIGIN, proposals[start : start + 1_000])))
    cold: list[float] = []
    warm: list[float] = []
    for _ in range(5):
        async with open_store(url) as (fresh, _feed):
            for seen in (cold, warm):
                began = time.perf_counter()
                await fresh.load("read")
                seen.append(time.perf_counter() - began)
    first = statistics.median(cold)
    return [
        {"what": f"ms to read {READ_BULLETS:,} bullets, {name}", "value": median * 1e3, "to_first": median / first}
        for name, median in (("first time", first), ("again", statistics.median(warm)))
    ]


async def watching(store: SqlPlaybookStore, feed: RevisionFeed) -> list[dict[str, Any]]:
    """From the answer of a commit to the watcher holding the revision; below zero it was first."""
    late: list[float] = []
    for number in range(WATCHED):
        head = (await store.load("watched")).revision
        arrived: list[float] = []

        async def watcher(head: int = head, arrived: list[float] = arrived) -> None:
            while not await feed.list_revisions_after("watched", head):
                await feed.wait("watched", head, 60)
            arrived.append(time.perf_counter())

        waiting = asyncio.create_task(watcher())
        await asyncio.sleep(0)
        await store.write("watched", partial(commit, batch=batch(f"lesson {number}")))
        answered = time.perf_counter()
        await waiting
        late.append(abs(arrived[0] - answered))
    return [{"what": "ms between commit and event, p50", "value": statistics.median(late) * 1e3, "to_first": 1.0}]


async def measure_engine(engine: str, url: str) -> list[dict[str, Any]]:
    async with open_store(url) as (store, feed):
        rows = [
            *await writing(store),
            *await watching(store, feed),
            *await reading(url, store),
            *await long_logs(store),
        ]
    return [{"engine": engine, **row} for row in rows]


def on_postgres(measure: Callable[[str, str], Any]) -> list[dict[str, Any]]:
    programs = find_postgres_programs()
    if programs is None:
        print("PostgreSQL is not installed: it is not measured")
        return []
    with postgres_server(programs) as server:
        rows: list[dict[str, Any]] = asyncio.run(measure("PostgreSQL", server.url))
        return rows


def main() -> None:
    """Measures both engines and writes the results, those of SQLite as soon as they are there."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(measure_engine("SQLite", f"sqlite:///{Path(folder) / 'bench.db'}"))
    write_results(rows)
    write_results(rows + on_postgres(measure_engine))


def write_results(rows: list[dict[str, Any]]) -> None:
    """Write the figures as JSON and as a table."""
    (HERE / "results.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2) + "\n")
    lines = ["| engine | what | value | to the first of its kind |", "| --- | --- | --- | --- |"]
    lines += [f"| {row['engine']} | {row['what']} | {row['value']:.3g} | {row['to_first']:.2f} |" for row in rows]
    readme = HERE / "README.md"
    marked = re.sub(
        r"(<!-- commits -->\n).*?(<!-- end -->)",
        lambda found: "\n".join([found[1] + lines[0], *lines[1:], found[2]]),
        readme.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    readme.write_text(marked, encoding="utf-8")
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
