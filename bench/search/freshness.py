"""From an acknowledged commit to an answer that knows it, over RPC, for each embedder that makes vectors here.

`python -m bench.search.freshness [embedder ...]`. All services run in one process with 1,000 bullets; one bullet of
twelve new words is committed at a time. Timed are the write, and from its answer on the search that waits for its
revision. A bullet comes by `Curate`, as lessons do, or by `ApplyDeltas`, as when somebody writes by hand. The curator
embeds it before the commit, and search takes the vector from the feed.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import uvloop

from bench.loop import WORDS, fill_playbook
from bench.search import results
from hansei.curator.v1 import curator_service_pb2, curator_service_pb2_grpc
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from hansei.reflector.v1 import trajectory_pb2
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.support import systems

EMBEDDERS = ("hashing", "minilm-int8", "minilm")
BULLETS, COMMITS, WARM_UP = 1_000, 100, 10


def main() -> None:
    """Measure and write."""
    rows = [row for embedder in sys.argv[1:] or EMBEDDERS for row in uvloop.run(_rows(embedder))]
    results.write("freshness", rows)


async def _rows(embedder: str) -> results.Rows:
    with (
        tempfile.TemporaryDirectory() as folder,
        systems.one_process(Path(folder), HANSEI_LOG_LEVEL="WARNING", EMBEDDING_PROVIDER=embedder) as system,
    ):
        async with grpc.aio.insecure_channel(system.address) as channel:
            await fill_playbook(channel, "d", BULLETS)
            return [
                {"embedder": embedder, "committed by": how, **await _times(how, channel)} for how in COMMITS_BY_METHOD
            ]


async def _times(how: str, channel: grpc.aio.Channel) -> dict[str, float]:
    timed = [await _measure_commit(channel, how, number) for number in range(WARM_UP + COMMITS)][WARM_UP:]
    writes, fresh = np.array(timed).T
    return {
        "write_p50_ms": float(np.median(writes)),
        "p50_ms": float(np.median(fresh)),
        "p99_ms": float(np.percentile(fresh, 99)),
        "write_and_p50_ms": float(np.median(writes + fresh)),
    }


async def _measure_commit(channel: grpc.aio.Channel, how: str, number: int) -> tuple[float, float]:
    """Return the milliseconds of a commit, and those from its response to that of the search for it."""
    searches: Any = search_service_pb2_grpc.SearchServiceStub(channel)
    # The same query each time, so that its vector is cached.
    query = search_pb2.SearchQuery(query_text=" ".join(WORDS[:4]), top_k=10)
    words = np.random.default_rng(number).choice(WORDS, 11)
    began = time.perf_counter()
    revision = await COMMITS_BY_METHOD[how](channel, f"{' '.join(words)} {how}{number}")
    committed = time.perf_counter()
    request = search_service_pb2.SearchRequest(dataset="d", query=query, min_revision=revision)
    await searches.Search(request, timeout=300)
    return (committed - began) * 1000, (time.perf_counter() - committed) * 1000


async def _by_curate(channel: grpc.aio.Channel, lesson: str) -> int:
    curators: Any = curator_service_pb2_grpc.CuratorServiceStub(channel)
    insight = trajectory_pb2.Insight(
        reasoning="r",
        error_identification="e",
        root_cause_analysis="c",
        correct_approach="a",
        key_insight=lesson,
        steps=[0],
    )
    reflection = trajectory_pb2.ReflectionResult(insights=[insight], trajectory_id=lesson[-40:], iteration_count=1)
    curated = await curators.Curate(
        curator_service_pb2.CurateRequest(request_id=str(uuid.uuid4()), dataset="d", reflection_result=reflection)
    )
    if not (curated.saved and curated.operations):
        raise SystemExit(f"nothing was learned from {lesson!r}")
    return int(curated.revision)


async def _by_deltas(channel: grpc.aio.Channel, lesson: str) -> int:
    playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
    delta = playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="bench", content=lesson)
    commit = playbook_service_pb2.ApplyDeltasRequest(request_id=str(uuid.uuid4()), dataset="d", deltas=[delta])
    return int((await playbooks.ApplyDeltas(commit)).revision)


COMMITS_BY_METHOD: dict[str, Callable[[grpc.aio.Channel, str], Awaitable[int]]] = {
    "Curate": _by_curate,
    "ApplyDeltas": _by_deltas,
}


if __name__ == "__main__":
    main()
