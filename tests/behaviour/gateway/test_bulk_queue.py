"""The queue of batches on a real DBOS: runs, takeovers, remains, and the absence of output and network calls."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.bulk.adapters.dbos_queue import BatchConcurrency, DbosQueue, Run
from gateway.bulk.adapters.sql.repository import REQUEUE_AFTER
from gateway.bulk.domain.batches import Batch
from gateway.bulk.domain.errors import QueueOwnedByOtherInstance, QueueUnavailable
from gateway.bulk.domain.job import JobState
from gateway.bulk.tests.bulk_system import AT_ONCE, BulkSystem, ScriptedLearner
from gateway.bulk.usecases.learn_batches import BatchLearner
from gateway.bulk.usecases.maintain_jobs import BulkLearning, MaintenancePolicy
from libs.storage.engines import parse_location

SECONDS = 60
ROOT = Path(__file__).parents[3]


def batch(number: int, dataset: str = "d") -> Batch:
    return Batch(f"job/0/{number}", "job", dataset, number, number)


@asynccontextmanager
async def open_queue(folder: Path, run: Run, executor: str = "one") -> AsyncIterator[DbosQueue]:
    queue = DbosQueue(parse_location(str(folder / "gateway.db")), executor, BatchConcurrency(2, 3), run)
    await queue.open()
    try:
        yield queue
    finally:
        await queue.close()


class Runner:
    """Records the batches that it runs and their concurrency; waits until it may continue."""

    def __init__(self, *, free: bool = True) -> None:
        self.ran: list[Batch] = []
        self.most: dict[str, int] = {}
        self._now: dict[str, int] = {}
        self.free = asyncio.Event()
        if free:
            self.free.set()
        self.changed = asyncio.Condition()

    async def __call__(self, batch: Batch) -> None:
        self._now[batch.dataset] = self._now.get(batch.dataset, 0) + 1
        self.most[batch.dataset] = max(self.most.get(batch.dataset, 0), self._now[batch.dataset])
        try:
            async with self.changed:
                self.ran.append(batch)
                self.changed.notify_all()
            await self.free.wait()
        finally:
            self._now[batch.dataset] -= 1

    async def wait_for_batches(self, count: int) -> None:
        async with asyncio.timeout(SECONDS), self.changed:
            await self.changed.wait_for(lambda: len(self.ran) >= count)


async def test_each_batch_runs_once_and_as_many_of_a_dataset_as_it_may(tmp_path: Path) -> None:
    runner = Runner()
    batches = [batch(number, f"d{number % 2}") for number in range(12)]
    async with open_queue(tmp_path, runner) as queue:
        await queue.put(batches)
        await queue.put(batches)  # the same ids
        await runner.wait_for_batches(12)

    assert sorted(runner.ran, key=lambda batch: batch.first) == batches
    assert max(runner.most.values()) <= 2


async def test_batches_running_at_close_run_again_after_reopening(tmp_path: Path) -> None:
    stuck = Runner(free=False)
    async with open_queue(tmp_path, stuck) as queue:
        await queue.put([batch(number) for number in range(3)])
        await stuck.wait_for_batches(2)
    again = Runner()
    async with open_queue(tmp_path, again):
        await again.wait_for_batches(3)
    assert {batch.first for batch in again.ran} == {0, 1, 2}


async def test_another_replica_takes_over_the_work_of_a_dead_one(tmp_path: Path) -> None:
    stuck = Runner(free=False)
    async with open_queue(tmp_path, stuck, "one") as queue:
        await queue.put([batch(0), batch(1)])
        await stuck.wait_for_batches(2)
    other = Runner()
    async with open_queue(tmp_path, other, "two") as queue:
        assert await queue.take_over("one") == 2
        await other.wait_for_batches(2)
        assert await queue.take_over("one") == 0


async def test_a_cancelled_batch_does_not_run_and_a_forgotten_one_is_gone(tmp_path: Path) -> None:
    stuck = Runner(free=False)
    async with open_queue(tmp_path, stuck) as queue:
        await queue.put([batch(number) for number in range(5)])
        await stuck.wait_for_batches(2)
        await queue.cancel("job/")
        assert await queue.contains("job/"), "two of them run"
        stuck.free.set()
        async with asyncio.timeout(SECONDS):
            while await queue.contains("job/"):
                pass
        await queue.delete("job/")
        await queue.put([Batch("other/0/0", "other", "d", 9, 9)])
        await stuck.wait_for_batches(3)
    assert [batch.first for batch in stuck.ran[2:]] == [9]


async def test_there_is_one_queue_in_a_process(tmp_path: Path) -> None:
    async with open_queue(tmp_path, Runner()):
        second = DbosQueue(parse_location(str(tmp_path / "other.db")), "two", BatchConcurrency(1, 1), Runner())
        with pytest.raises(QueueOwnedByOtherInstance):
            await second.open()
        with pytest.raises(QueueUnavailable):
            await second.put([batch(0)])
    async with open_queue(tmp_path, Runner()) as queue:
        assert queue.is_open


async def test_a_job_that_was_never_queued_is_found_and_learned(tmp_path: Path) -> None:
    """Prepare a job as a kill between accepting and queueing it would leave it."""
    system = BulkSystem(tmp_path)
    learner = BatchLearner(ScriptedLearner(), system.batches, AT_ONCE)
    queue = DbosQueue(parse_location(str(tmp_path / "gateway.db")), "one", BatchConcurrency(2, 2), learner.run)
    upkeep = MaintenancePolicy(timedelta(seconds=0.4), timedelta(hours=1))
    learning = BulkLearning(system.jobs, system.batches, system.replica("one"), queue, learner, upkeep)
    await system.database.open()
    job_id, _ = await system.submit(5)
    system.clock.now += REQUEUE_AFTER
    keeping = asyncio.create_task(learning.run_maintenance())
    async with asyncio.timeout(SECONDS):
        async for job in learning.watch(job_id):
            last = job
    assert (last.state, last.learned) == (JobState.COMPLETED, 5)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await learning.drain()
    await learning.close()
    await system.database.close()


QUIET = """
import asyncio, sys
from pathlib import Path
reached = []
def watch(event, arguments):
    if event == "socket.connect":
        reached.append(arguments[1])
    if event == "socket.getaddrinfo":
        reached.append(arguments[0])
sys.addaudithook(watch)
from gateway.bulk.adapters.dbos_queue import DbosQueue, BatchConcurrency
from gateway.bulk.domain.batches import Batch
from libs.storage.engines import parse_location

async def main():
    ran = asyncio.Event()
    async def run(batch):
        ran.set()
    queue = DbosQueue(parse_location(sys.argv[1]), "one", BatchConcurrency(1, 1), run)
    await queue.open()
    await queue.put([Batch(sys.argv[2], "job", "d", 0, 0)])
    await asyncio.wait_for(ran.wait(), 60)
    await queue.close()

asyncio.run(main())
assert not reached, reached
"""


def test_it_prints_nothing_and_opens_no_connection(tmp_path: Path) -> None:
    path = ":".join(str(ROOT / part) for part in ("", "stubs"))
    command = [sys.executable, "-c", QUIET, str(tmp_path / "gateway.db"), f"{uuid.uuid4().hex}/0/0"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
