"""Measure the costs of serving: `python -m bench.evidence.serving`.

The time of `Recall` against that of `Search` for the same bullets over gRPC, in turns in one run, with 1,000 bullets;
and the time of `GetEffects` after a million servings. Writes `archive.json` and the tables of the README.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
import uuid
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, func, insert, select

from bench.evidence.tables import write_tables
from hansei.client import Client
from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.client.errors import DeadlineExceeded
from hansei.evidence.v1 import evidence_service_pb2 as pb
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, Delta
from libs.storage.idempotency import IdempotencyKey
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.adapters.sql.schema import serving
from services.evidence.domain.policy import TrialPolicy
from services.evidence.rpc.convert import evidence as convert
from services.evidence.usecases.ports import OutcomeReport, RankedBullet

RESULTS = Path(__file__).with_name("archive.json")
DATASET = "bench"
BULLETS, WORDS, QUERY_WORDS = 1_000, 20, 6
ROUNDS, CALLS = 9, 60
REAL_SERVINGS, COPIES = 2_000, 499
TRIAL_BULLETS = 30
INDEX_SECONDS = 120


def measure_recall() -> list[dict[str, Any]]:
    """Return the median time of both calls, and their ratio by rounds, without trials and with them."""
    rng = random.Random(1)
    vocabulary = [f"word{number}" for number in range(2_000)]

    def choose_words(count: int) -> str:
        return " ".join(rng.choices(vocabulary, k=count))

    with TemporaryDirectory() as folder, Client.local(**build_temp_settings(Path(folder))) as client:
        for _ in range(0, BULLETS, 100):
            deltas = [Delta(type=DELTA_TYPE_ADD, section="bench", content=choose_words(WORDS)) for _ in range(100)]
            revision = client.playbooks.apply_deltas(dataset=DATASET, deltas=deltas).revision
        _wait_until_indexed(client, revision)
        rows = []
        for has_trials, top_k, is_new in product((False, True), (10, None), (True, False)):
            if has_trials:
                client.evidence.start_trials(dataset=DATASET)
            repeated = [choose_words(QUERY_WORDS) for _ in range(CALLS)]
            measured = []
            for _ in range(ROUNDS):
                searched, recalled = (
                    [choose_words(QUERY_WORDS) for _ in repeated] if is_new else repeated for _ in range(2)
                )
                searching = _time(searched, partial(_search, client, top_k))
                recalling = _time(recalled, partial(_recall, client, top_k))
                measured.append((searching, recalling))
            if not is_new:
                del measured[0]  # it embedded the queries
            rows.append(
                {
                    "trials": "running" if has_trials else "none",
                    "bullets": "10 best" if top_k else "8,000 tokens",
                    "queries": "new" if is_new else "repeated, so that their vectors are cached",
                    "Search, ms": f"{statistics.median(search for search, _ in measured):.2f}",
                    "Recall, ms": f"{statistics.median(recall for _, recall in measured):.2f}",
                    "ratio": f"{statistics.median(recall / search for search, recall in measured):.2f}",
                    "goal": "1.4",
                }
            )
        return rows


def _wait_until_indexed(client: Client, revision: int) -> None:
    """Wait until search holds the revision; on a busy machine that takes longer than one call may."""
    give_up = time.monotonic() + INDEX_SECONDS
    while True:
        try:
            client.search(DATASET, "word", min_revision=revision)
            return
        except DeadlineExceeded:
            if time.monotonic() > give_up:
                raise


def _search(client: Client, top_k: int | None, query: str) -> object:
    return client.search(DATASET, query, top_k=top_k, budget_tokens=None if top_k else 0)


def _recall(client: Client, top_k: int | None, query: str) -> object:
    return client.recall(DATASET, uuid.uuid4().hex, query, top_k=top_k)


def _time(queries: list[str], call: Callable[[str], object]) -> float:
    """Return the median time of a call, milliseconds."""
    times = []
    for query in queries:
        began = time.perf_counter()
        call(query)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


async def measure_effects(folder: Path) -> dict[str, Any]:
    """Return the time of the effects of a dataset with a million servings; most are copies of real ones."""
    store = EvidenceRepository(str(folder / "evidence.db"))
    await store.database.open()
    key = IdempotencyKey.for_message(pb.StartTrialsRequest(request_id=str(uuid.uuid4())))
    await store.start(key, DATASET, TrialPolicy())
    bullets = [RankedBullet(f"git-{number:05}", f"{number:016x}", None) for number in range(TRIAL_BULLETS)]
    for number in range(REAL_SERVINGS):
        first = number % (TRIAL_BULLETS - 10)
        serving_id, _ = await store.serve(DATASET, f"session-{number}", bullets[first : first + 10])
        await store.report(DATASET, OutcomeReport(serving_id, float(number % 2), is_correction=False))

    def copy(connection: Connection, number: int) -> None:
        columns = [column for column in serving.c if column.name != "serving_id"]
        original = ~serving.c.serving_id.contains("-copy-")
        copies = select((serving.c.serving_id + f"-copy-{number}").label("serving_id"), *columns).where(original)
        connection.execute(insert(serving).from_select(["serving_id", *(c.name for c in columns)], copies))

    for number in range(COPIES):
        await store.database.write(partial(copy, number=number))
    count = await store.database.read(lambda connection: connection.scalar(select(func.count()).select_from(serving)))
    times = []
    for _ in range(9):
        began = time.perf_counter()
        trials = await store.find_trials(DATASET)
        assert trials is not None
        convert.encode_bullet_effects(await store.list_bullet_trials(DATASET), trials.policy)
        times.append(time.perf_counter() - began)
    await store.database.close()
    return {
        "servings": f"{count:,}",
        "bullets on trial": TRIAL_BULLETS,
        "GetEffects, ms": f"{statistics.median(times) * 1e3:.1f}",
        "goal": "200",
    }


def main() -> None:
    """Measure effects and recall, and write their tables."""
    with TemporaryDirectory() as folder:
        effects = asyncio.run(measure_effects(Path(folder)))
    write_tables(RESULTS, {"recall": measure_recall(), "effects": [effects]})


if __name__ == "__main__":
    main()
