"""Bulk learning as a whole: takes jobs, has them learned, tells how far they are, and looks after what others left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta

from chassis.errors import HanseiError, Unavailable
from chassis.silence import Silence
from gateway.bulk.batch_queue import BatchQueue
from gateway.bulk.database import JobsDatabase
from gateway.bulk.jobs import Jobs
from gateway.bulk.learner import BatchLearner
from gateway.bulk.progress import GONE, Progress, generation_of
from gateway.bulk.records import Stock
from gateway.bulk.submission import received
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.gateway.v1 import bulk_service_pb2 as service
from libs.sql.migrations import SchemaNewer

log = logging.getLogger("hansei.bulk")

WATCH_SECONDS = 0.5
ABANDONED_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The name of this replica, how long it may be silent before others do its work, and how long jobs are kept."""

    executor: str
    lease: timedelta
    retention: timedelta

    @property
    def seconds(self) -> float:
        """How often a replica looks after the jobs: several times within a lease."""
        return min(5.0, self.lease.total_seconds() / 4)


class BulkLearning:
    """Everything bulk learning does in one process."""

    def __init__(
        self,
        database: JobsDatabase,
        jobs: Jobs,
        progress: Progress,
        queue: BatchQueue,
        learner: BatchLearner,
        upkeep: Upkeep,
        took_stock: Callable[[Stock], None] = lambda stock: None,
    ) -> None:
        """`took_stock` is told, as often as the jobs are looked after, how they stand."""
        self._database = database
        self._jobs = jobs
        self._progress = progress
        self._queue = queue
        self._learner = learner
        self._upkeep = upkeep
        self._told = took_stock
        self._silence = Silence[str](upkeep.lease.total_seconds())
        self._opening = asyncio.Lock()
        self._stopped = False

    @property
    def jobs(self) -> Jobs:
        """The jobs, to look at."""
        return self._jobs

    async def open(self) -> None:
        """Open the database; if it is away, later. The queue opens when there is something to learn.

        The gateway serves everything else meanwhile, and its jobs answer UNAVAILABLE. Raises SchemaNewer, which passes
        by no waiting.
        """
        try:
            await self._database.open()
        except SchemaNewer:
            raise
        except HanseiError as error:
            log.warning("bulk learning is not available yet: %s", error)

    async def drain(self) -> None:
        """Take nothing more on, and finish what is being learned."""
        self._stopped = True
        await self._learner.stop()

    async def close(self) -> None:
        """Leave: the work that is not done is for the next start, or for the other replicas, at once."""
        was_open = self._queue.is_open
        await self._queue.close()
        try:
            if was_open:
                await self._progress.gone(self._upkeep.executor)
        except HanseiError as error:
            log.warning("the other replicas could not be told that this one leaves: %s", error)
        finally:
            await self._database.close()

    async def submit(self, requests: AsyncIterator[service.SubmitTrajectoriesRequest]) -> bulk.Job:
        """Take a job. Raises InvalidArgument, QueueFull, RequestIdReused, JobsUnavailable."""
        await self._ensure_queue()
        job_id, key = await received(self._jobs, requests)
        if key is not None:
            await self._put(key)
        return await self._jobs.job(job_id)

    async def watch(self, job_id: str) -> AsyncGenerator[bulk.Job]:
        """A job now and whenever it changes, until it has ended. Raises JobNotFound."""
        told: bulk.Job | None = None
        while True:
            job = await self._jobs.job(job_id)
            if job != told:
                yield job
                told = job
            if job.state != bulk.JOB_STATE_RUNNING:
                return
            await asyncio.sleep(WATCH_SECONDS)

    async def cancel(self, job_id: str, request_id: str) -> bulk.Job:
        """Drop what waits. Raises JobNotFound, RequestIdReused."""
        job = await self._jobs.cancel(job_id, request_id)
        key = await self._jobs.key(job_id)
        if self._queue.is_open:
            await self._queue.cancel(f"{key}/")
        return job

    async def retry(self, job_id: str, request_id: str) -> bulk.Job:
        """Queue the dead letters of a job again. Raises JobNotFound, RequestIdReused."""
        await self._ensure_queue()
        job = await self._jobs.retry(job_id, request_id)
        if job.state == bulk.JOB_STATE_RUNNING:
            await self._put(await self._jobs.key(job_id))
        return job

    async def keep(self) -> None:
        """Look after the jobs, for as long as the process lives: a background task."""
        while True:
            try:
                await self._tend()
            except HanseiError as error:
                log.warning("bulk learning could not look after its jobs: %s", error)
            await asyncio.sleep(self._upkeep.seconds)

    async def _tend(self) -> None:
        if self._stopped:
            return
        await self._database.open()
        if self._queue.is_open:
            await self._progress.alive(self._upkeep.executor)
        elif await self._progress.something_waits():
            await self._ensure_queue()
        if self._queue.is_open:
            await self._take_over()
            await self._requeue()
        await self._forget()
        self._told(await self._jobs.stock())

    async def _ensure_queue(self) -> None:
        async with self._opening:
            if self._queue.is_open:
                return
            if self._stopped:
                raise Unavailable("the gateway is shutting down", reason="SERVER_DRAINING", retry_after=1.0)
            # Said first, so that what is run from now on is somebody's whatever happens.
            await self._progress.alive(self._upkeep.executor)
            await self._queue.open()

    async def _put(self, key: str) -> None:
        await self._queue.put(await self._progress.batches(key))

    async def _take_over(self) -> None:
        marks = await self._progress.replicas()
        silent = set(self._silence.of(marks))
        for executor, mark in marks.items():
            if mark != GONE and executor not in silent:
                continue
            left = await self._queue.take_over(executor)
            await self._progress.forget_replica(executor, mark)
            log.warning("took over %d batches of %s, which is gone", left, executor)

    async def _requeue(self) -> None:
        """Queue again what waits without being queued: whoever should have queued it died before it had."""
        for key, generation in await self._progress.to_look_after():
            queued = await self._queue.has(generation_of(key, generation))
            if not queued and await self._progress.next_generation(key, generation):
                await self._put(key)

    async def _forget(self) -> None:
        for key in await self._jobs.over(self._upkeep.retention, ABANDONED_AFTER):
            if self._queue.is_open:
                await self._queue.forget(f"{key}/")
            await self._jobs.discard(key)
