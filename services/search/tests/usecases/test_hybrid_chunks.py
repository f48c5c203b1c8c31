"""Snapshots of a collection's chunks."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import numpy as np

from chassis.server.cpu import CpuPool
from services.search.domain.chunking import Chunking, TextSpan
from services.search.domain.collection import Backend, Collection, DocumentRevision
from services.search.domain.index import HybridIndex
from services.search.tests.usecases.world import MemorySnapshots
from services.search.usecases.hybrid_chunks import HybridChunks
from services.search.usecases.ports import IndexFactory

COLLECTION = Collection(1, "k", "c", Backend.HYBRID, Chunking(), "m", datetime(2026, 1, 1, tzinfo=UTC))


class SlowSnapshots(MemorySnapshots):
    """Snapshots that are saved when a test permits it."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.permitted = threading.Event(), threading.Event()

    def save(self, dataset: str, snapshot: Any) -> None:
        self.entered.set()
        assert self.permitted.wait(20)
        super().save(dataset, snapshot)


async def test_one_call_writes_the_snapshot_and_a_deletion_waits_for_it() -> None:
    snapshots: Any = SlowSnapshots()
    pool = CpuPool("test", workers=4)
    chunks = HybridChunks(COLLECTION, IndexFactory(HybridIndex, HybridIndex.restore), snapshots, pool)
    await chunks.apply([DocumentRevision("a", 1, (), "text", [TextSpan(0, 4)], np.ones((1, 2), np.float32))])
    calls = [asyncio.create_task(chunks.save_snapshot()) for _ in range(2)]
    await asyncio.to_thread(snapshots.entered.wait, 20)
    calls.append(asyncio.create_task(chunks.clear()))
    await asyncio.sleep(0.05)
    snapshots.permitted.set()
    await asyncio.gather(*calls)
    await pool.close()
    assert snapshots.saved == ["k"]
    assert snapshots.snapshots == {}
