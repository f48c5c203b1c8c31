"""From an acknowledged commit to an answer that knows it, over RPC, for each embedder that makes vectors here.

`python -m bench.search.freshness [embedder ...]`. All services run in one process with 1,000 bullets; one bullet of
twelve new words is committed at a time, and the search that waits for its revision is timed from the commit's answer.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import uvloop

from bench.loop import WORDS, filled
from bench.search import results
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests import systems

EMBEDDERS = ("hashing", "minilm-int8", "minilm")
BULLETS, COMMITS, WARM_UP = 1_000, 100, 10


def main() -> None:
    """Measure and write."""
    results.write("freshness", [uvloop.run(_row(embedder)) for embedder in sys.argv[1:] or EMBEDDERS])


async def _row(embedder: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"EMBEDDING_PROVIDER": embedder, "HANSEI_LOG_LEVEL": "WARNING"}
        with systems.one_process(Path(folder), **settings) as system:
            async with grpc.aio.insecure_channel(system.address) as channel:
                await filled(channel, "d", BULLETS)
                milliseconds = [await _fresh(channel, number) for number in range(WARM_UP + COMMITS)][WARM_UP:]
    return {
        "embedder": embedder,
        "p50_ms": float(np.median(milliseconds)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
    }


async def _fresh(channel: grpc.aio.Channel, number: int) -> float:
    """Milliseconds from the answer to a commit to that of the search for it."""
    playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
    searches: Any = search_service_pb2_grpc.SearchServiceStub(channel)
    chosen = np.random.default_rng(number)
    # The same query each time: its vector is known.
    query = search_pb2.SearchQuery(query_text=" ".join(WORDS[:4]), top_k=10)
    content = f"{' '.join(chosen.choice(WORDS, 11))} fresh{number}"
    delta = playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="bench", content=content)
    commit = playbook_service_pb2.ApplyDeltasRequest(request_id=str(uuid.uuid4()), dataset="d", deltas=[delta])
    committed = await playbooks.ApplyDeltas(commit)
    began = time.perf_counter()
    request = search_service_pb2.SearchRequest(dataset="d", query=query, min_revision=committed.revision)
    await searches.Search(request, timeout=300)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
