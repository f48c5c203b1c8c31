"""Measure a write to a log of 5 million revisions in PostgreSQL, while it vacuums and old revisions are dropped.

`python -m bench.curator.flat_writes [REVISIONS [DATASETS]]` (5,000,000 over 2,000) writes the tables of
`bench/curator/README.md`. Two curators serve a database each: a large one, and a small one that keeps 1 % of the
revisions. ApplyDeltas calls on both take turns, each on a dataset chosen at random: it rewords a bullet, and votes
for another one.

The revisions between the measurements are copies: one playbook is committed by ApplyDeltas, and SQL copies its rows to
all datasets, revision by revision, as if the datasets were written in turns. Vectors of copies have 64 bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import uvloop
from sqlalchemy import Table

from bench.report import machine, write_table
from chassis.channels import Peers
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.playbook.v1 import playbook_service_pb2 as playbooks
from hansei.playbook.v1 import playbook_service_pb2_grpc
from services.curator.adapters.sql import schema
from services.curator.adapters.sql.repository import SqlPlaybookStore
from tests.support import systems
from tests.support.postgres_server import PostgresServer, find_postgres_programs_or_skip, postgres_server

HERE = Path(__file__).parent
BULLETS = 100
STEPS = 50
"""Steps in which the copies are made."""
SHARES = (0.01, 0.2, 0.5, 1.0)
"""Shares of the revisions at which writes are measured."""
WRITES = 600
WARM_UP = 100
DROPPED_SHARE = 0.02
TEMPLATE = "template"
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = "Before call {0} of the orders API: look up the page with the newest token, or the call fails. " * 2
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "10min"}
LOG = {"revision": "number", "change": "revision", "vote": "cast_in"}
"""The tables of the log, with the column that numbers the revisions."""
REQUEST_ID = "md5(t.request_id || c.dataset)::uuid::text"


@dataclass
class Writer:
    """Calls the curator of one database."""

    stub: Any
    datasets: int
    rng: Random
    seconds: list[float] = field(default_factory=list)

    async def create(self, dataset: str) -> None:
        """Write the first revision of a playbook."""
        deltas = [_build_delta("ADD", content=TEXT.format(number)) for number in range(BULLETS)]
        await self.stub.ApplyDeltas(_build_request(dataset, "first", deltas=deltas))

    async def reword(self, dataset: str, number: int) -> None:
        """Write one revision: the new text of a bullet, and a vote for another one."""
        bullet_id, cited = (f"s-{n % BULLETS + 1:05}" for n in (number, number + BULLETS // 2))
        trajectory = f"trajectory-{number}"
        vote = playbook.Vote(bullet_id=cited, tag=playbook.VOTE_TAG_HELPFUL, trajectory_id=trajectory)
        delta = _build_delta("UPDATE", bullet_id=bullet_id, content=TEXT.format(f"{bullet_id}, version {number}"))
        response = await self.stub.ApplyDeltas(_build_request(dataset, trajectory, deltas=[delta], votes=[vote]))
        if not (response.operations[0].applied and response.votes[0].applied):
            raise AssertionError(f"not applied: {response}")

    async def measure(self, number: int) -> None:
        """Reword a bullet of any dataset, and note how long it took."""
        dataset = f"d{self.rng.randrange(self.datasets)}"
        began = time.perf_counter()
        await self.reword(dataset, number)
        self.seconds.append(time.perf_counter() - began)

    def take_times(self) -> list[float]:
        """Return the milliseconds since the last call, sorted."""
        times, self.seconds = sorted(seconds * 1e3 for seconds in self.seconds), []
        return times


def _build_delta(kind: str, **fields: Any) -> playbook.Delta:
    return playbook.Delta(type=playbook.DeltaType.Value(f"DELTA_TYPE_{kind}"), section="s", **fields)


def _build_request(dataset: str, reason: str, **fields: Any) -> playbooks.ApplyDeltasRequest:
    request_id = str(uuid.uuid4())
    return playbooks.ApplyDeltasRequest(request_id=request_id, dataset=dataset, author="bench", reason=reason, **fields)


class Copies:
    """The rows of one playbook, and their copies in all datasets of a database."""

    def __init__(self, url: str, datasets: int) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._datasets = datasets
        self.revisions = 0

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement, and return its rows."""
        cursor = self._connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []

    async def commit_template(self, writer: Writer, revisions: int) -> None:
        """Commit the revisions of one playbook by ApplyDeltas, and take its rows out of the tables."""
        self.run("CREATE TABLE template_bullet AS SELECT 0::BIGINT AS revision, * FROM bullet WHERE FALSE")
        await writer.create(TEMPLATE)
        for revision in range(1, revisions + 1):
            if revision > 1:
                await writer.reword(TEMPLATE, revision)
            self.run(
                f"INSERT INTO template_bullet SELECT {revision}, bullet.* FROM bullet JOIN change USING (dataset, slot)"
                f" WHERE dataset = '{TEMPLATE}' AND change.revision = {revision}"
            )
        for table in (*LOG, "dataset", "request", "embeddings"):
            self.run(f"CREATE TABLE template_{table} AS SELECT * FROM {table}")
        for table in (*LOG, "dataset", "request", "embeddings", "bullet"):
            self.run(f"DELETE FROM {table}")
        self.run(f"UPDATE template_revision SET committed = {_to_micros(BEGINNING)} + number * 60000000")
        self.run("ALTER TABLE template_request ADD COLUMN revision BIGINT")
        self.run(
            "UPDATE template_request r SET revision = t.number FROM template_revision t"
            " WHERE t.request_id = r.request_id"
        )
        self.run("ALTER TABLE template_embeddings ADD COLUMN revision BIGINT GENERATED ALWAYS AS IDENTITY")
        self.run(
            "CREATE TABLE copied AS SELECT 'd' || n AS dataset, 0::BIGINT AS shift"
            f" FROM generate_series(0, {self._datasets - 1}) n"
        )
        self._copy(schema.dataset, "template_dataset", {"name": "c.dataset", "revision": "0"})

    def grow(self, revisions: int) -> None:
        """Copy the revisions up to this number to all datasets, after those that were written to them."""
        between = f"t.revision BETWEEN {self.revisions + 1} AND {revisions}"
        in_turns = f"WHERE {between} ORDER BY t.revision, c.dataset"
        for table, number in LOG.items():
            values = {"dataset": "c.dataset", number: f"t.{number} + c.shift"}
            values |= {"request_id": REQUEST_ID} if table == "revision" else {}
            own = in_turns.replace("t.revision", f"t.{number}")
            self._copy(getattr(schema, table), f"template_{table}", values, own)
        values = {"request_id": REQUEST_ID, "dataset": "c.dataset"}
        self._copy(schema.requests.table, "template_request", values, in_turns)
        values = {"content_hash": "sha256(t.content_hash || c.dataset::bytea)", "vector": "substr(t.vector, 1, 64)"}
        self._copy(schema.embeddings, "template_embeddings", values, in_turns)
        self.run(
            "CREATE TEMP TABLE newest AS SELECT DISTINCT ON (slot) * FROM template_bullet t"
            f" WHERE {between} ORDER BY slot, revision DESC"
        )
        self.run("DELETE FROM bullet b USING copied c, newest n WHERE b.dataset = c.dataset AND b.slot = n.slot")
        self._copy(schema.bullet, "newest", {"dataset": "c.dataset"})
        self.run("DROP TABLE newest")
        self.run(
            "UPDATE dataset d SET revision = t.number + c.shift, committed = t.committed FROM template_revision t,"
            f" copied c WHERE t.number = {revisions} AND d.name = c.dataset"
        )
        self.revisions = revisions

    def count_writes(self) -> None:
        """Find how many revisions were written to each dataset besides the copies."""
        self.run(f"UPDATE copied c SET shift = d.revision - {self.revisions} FROM dataset d WHERE d.name = c.dataset")

    def _copy(self, table: Table, template: str, values: dict[str, str], where: str = "") -> None:
        """Insert the rows of a template into a table once for each dataset, with other values of some columns."""
        columns = table.c.keys()
        selected = ", ".join(values.get(name, f"t.{name}") for name in columns)
        self.run(
            f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT {selected} FROM {template} t, copied c {where}"
        )

    def measure_sizes(self) -> dict[str, float]:
        """Return the bytes of each table and its indexes, for each revision."""
        query = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname ~ %s"
        (revisions,) = self.run("SELECT count(*) FROM revision")[0]
        return {
            table: float(self.run(query, f"^{table}(_[0-9]+)?$")[0][0]) / revisions
            for table in (*LOG, "bullet", "request", "embeddings")
        }

    def count_vacuums(self) -> tuple[int, int]:
        """Return how often the server vacuumed and analysed tables by itself."""
        query = "SELECT sum(autovacuum_count)::bigint, sum(autoanalyze_count)::bigint FROM pg_stat_user_tables"
        vacuums, analyses = self.run(query)[0]
        return vacuums, analyses


def _to_micros(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


@contextmanager
def vacuuming(url: str) -> Iterator[None]:
    """Vacuum the tables of the log again and again."""
    connection = psycopg.connect(url, autocommit=True)
    stopping = threading.Event()

    def vacuum_without_end() -> None:
        try:
            while not stopping.is_set():
                connection.execute(f"VACUUM (ANALYZE) {', '.join(LOG)}, bullet")
        except psycopg.errors.QueryCanceled:
            pass

    thread = threading.Thread(target=vacuum_without_end)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        connection.cancel()
        thread.join()
        connection.close()


async def take_turns(writers: list[Writer], numbers: Iterable[int]) -> None:
    """Write to each database in turn."""
    for number in numbers:
        for writer in writers[:: 1 if number % 2 else -1]:
            await writer.measure(number)


async def drop_old(url: str, revision: int) -> int:
    """Drop the revisions before this one, as the housekeeping of a curator does; return their number."""
    store = SqlPlaybookStore(url, clock=lambda: BEGINNING + timedelta(minutes=revision, days=1))
    await store.open()
    try:
        return await store.drop_old_revisions(timedelta(days=1))
    finally:
        await store.close()


async def observe(writers: list[Writer], url: str, copies: Copies, numbers: Iterator[int]) -> dict[str, Any]:
    """Return the milliseconds of a write to both databases, alone and while old revisions are dropped."""
    large, small = writers
    await take_turns(writers, (next(numbers) for _ in range(WARM_UP)))
    for writer in writers:
        writer.take_times()
    await take_turns(writers, (next(numbers) for _ in range(WRITES)))
    times, small_times = large.take_times(), small.take_times()
    row: dict[str, Any] = {"revisions": copies.run("SELECT count(*) FROM revision")[0][0]}
    row |= {"p50_ms": statistics.median(times), "p99_ms": times[len(times) * 99 // 100]}
    row |= {"small_p50_ms": statistics.median(small_times)}
    row["to_small"] = row["p50_ms"] / row["small_p50_ms"]
    with vacuuming(url):
        dropping = asyncio.create_task(drop_old(url, max(3, round(copies.revisions * DROPPED_SHARE))))
        while not dropping.done():
            await take_turns(writers, (next(numbers) for _ in range(10)))
        row["dropped"] = await dropping
    copies.count_writes()
    times, small_times = large.take_times(), small.take_times()
    row |= {"p50_ms_while_dropping": statistics.median(times), "p99_ms_while_dropping": times[len(times) * 99 // 100]}
    row["to_small_while_dropping"] = row["p50_ms_while_dropping"] / statistics.median(small_times)
    return row


async def measure(server: PostgresServer, revisions: int, datasets: int) -> dict[str, Any]:
    """Fill both databases, and measure writes in between."""
    length = revisions // datasets
    urls = {name: server.database(name) for name in ("large", "small")}
    for url in urls.values():
        store = SqlPlaybookStore(url)
        await store.open()
        await store.close()
    with tempfile.TemporaryDirectory() as folder, _serve(Path(folder), urls) as addresses:
        peers = Peers(addresses)
        writers = [
            Writer(playbook_service_pb2_grpc.PlaybookServiceStub(peers.get_channel(name)), datasets, Random(1))
            for name in urls
        ]
        copies = {name: Copies(url, datasets) for name, url in urls.items()}
        await copies["large"].commit_template(writers[0], length)
        first = max(1, round(length * SHARES[0]))
        await copies["small"].commit_template(writers[1], first)
        copies["small"].grow(first)
        rows, numbers, filling = [], iter(range(length + 1, 10**9)), 0.0
        for share in SHARES:
            goal, began = max(1, round(length * share)), time.perf_counter()
            while (now := copies["large"].revisions) < goal:
                await asyncio.to_thread(copies["large"].grow, min(goal, now + max(1, length // STEPS)))
                print(f"{copies['large'].revisions * datasets:,} revisions", flush=True)
            filling += time.perf_counter() - began
            rows.append(await observe(writers, urls["large"], copies["large"], numbers))
            print(rows[-1], flush=True)
        sizes = copies["large"].measure_sizes()
        vacuums, analyses = copies["large"].count_vacuums()
        await peers.close()
    for row in rows:
        row["to_first"] = row["p50_ms"] / rows[0]["p50_ms"]
    about = {"datasets": datasets, "autovacuums": vacuums, "autoanalyzes": analyses, "filling_seconds": round(filling)}
    return {"machine": machine(), **about, "rows": rows, "bytes_a_revision": sizes}


@contextmanager
def _serve(data: Path, urls: dict[str, str]) -> Iterator[dict[str, str]]:
    """Run a curator on each database; yield their addresses."""
    addresses = {name: f"127.0.0.1:{systems.free_port()}" for name in urls}
    programs = {
        name: systems.create_program(
            "services.curator",
            addresses[name],
            data,
            {"HANSEI_LOG_LEVEL": "ERROR", "HANSEI_CURATOR_DATABASE_URL": url, "EMBEDDING_PROVIDER": "hashing"},
        )
        for name, url in urls.items()
    }
    with systems.run_system(systems.System("flat writes", addresses, data, programs)):
        yield addresses


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.curator.flat_writes", description=__doc__)
    parser.add_argument("revisions", nargs="?", type=int, default=5_000_000)
    parser.add_argument("datasets", nargs="?", type=int, default=2_000)
    chosen = parser.parse_args()
    with postgres_server(find_postgres_programs_or_skip()) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            for name, value in SERVER.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        server.control("stop", "-m", "fast")
        server.start()
        results = uvloop.run(measure(server, chosen.revisions, chosen.datasets))
    (HERE / "flat_writes.json").write_text(json.dumps(results, indent=2) + "\n")
    write_table(HERE / "README.md", "flat-writes", results["rows"])
    write_table(HERE / "README.md", "flat-writes-sizes", [results["bytes_a_revision"]])


if __name__ == "__main__":
    main()
