"""Bulk learning in one process: accept jobs, queue them, report them, and take over the work of dead replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import timedelta

from chassis.errors import HanseiError, Unavailable
from chassis.logging import get_logger
from chassis.repetition import repeat
from gateway.bulk.domain.batches import build_generation_prefix
from gateway.bulk.domain.job import Job, JobState, JobTotals
from gateway.bulk.usecases.learn_batches import BatchLearner
from gateway.bulk.usecases.ports import BatchQueue, BatchStore, JobStore, ReplicaStore
from gateway.bulk.usecases.submit_job import Requests, submit_job
from libs.storage.idempotency import IdempotencyKey
from libs.storage.leases import LeaseMonitor

log = get_logger("hansei.bulk")

WATCH_SECONDS = 0.5
ABANDONED_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """The time after which a silent replica's work is taken over, and the time for which ended jobs are kept."""

    lease: timedelta
    retention: timedelta

    @property
    def interval_seconds(self) -> float:
        """Return the seconds between two rounds of maintenance: several within a lease."""
        return min(5.0, self.lease.total_seconds() / 4)


class BulkLearning:
    """The jobs of one process. The queue is opened with the first job."""

    def __init__(
        self,
        jobs: JobStore,
        batches: BatchStore,
        replicas: ReplicaStore,
        queue: BatchQueue,
        learner: BatchLearner,
        policy: MaintenancePolicy,
        record_totals: Callable[[JobTotals], None] = lambda totals: None,
    ) -> None:
        """`record_totals` gets the totals of all jobs at each maintenance."""
        self._jobs = jobs
        self._batches = batches
        self._replicas = replicas
        self._queue = queue
        self._learner = learner
        self._policy = policy
        self._record_totals = record_totals
        self._monitor = LeaseMonitor(policy.lease.total_seconds())
        self._opening = asyncio.Lock()
        self._stopped = False

    async def drain(self) -> None:
        """Accept nothing more, and finish the attempts in progress."""
        self._stopped = True
        await self._learner.stop()

    async def close(self) -> None:
        """Leave unfinished work for the next start, or for the other replicas, at once."""
        was_open = self._queue.is_open
        await self._queue.close()
        try:
            if was_open:
                await self._replicas.release()
        except HanseiError as error:
            log.warning("lease of this replica could not be released", error=str(error))

    async def submit(self, requests: Requests) -> Job:
        """Accept a job. Raises InvalidArgument, QueueFull, RequestIdReused, StoreUnavailable."""
        await self._ensure_queue()
        job_id, key = await submit_job(self._jobs, requests)
        if key is not None:
            await self._enqueue(key)
        return await self._jobs.find(job_id)

    async def watch(self, job_id: str) -> AsyncGenerator[Job]:
        """Yield a job now and whenever it changes, until it has ended. Raises JobNotFound."""
        last: Job | None = None
        while True:
            job = await self._jobs.find(job_id)
            if job != last:
                yield job
                last = job
            if job.state is not JobState.RUNNING:
                return
            await asyncio.sleep(WATCH_SECONDS)

    async def cancel(self, job_id: str, request: IdempotencyKey) -> Job:
        """Drop the waiting trajectories of a job; started ones are finished. Raises JobNotFound, RequestIdReused."""
        job = await self._jobs.cancel(job_id, request)
        if self._queue.is_open:
            await self._queue.cancel(f"{job.key}/")
        return job

    async def retry(self, job_id: str, request: IdempotencyKey) -> Job:
        """Queue the dead letters of a job again. Raises JobNotFound, RequestIdReused."""
        await self._ensure_queue()
        job = await self._jobs.retry(job_id, request)
        if job.state is JobState.RUNNING:
            await self._enqueue(job.key)
        return job

    async def run_maintenance(self) -> None:
        """Maintain the jobs for as long as the process lives."""
        await repeat(self._policy.interval_seconds, self._maintain)

    async def _maintain(self) -> None:
        if self._stopped:
            return
        if self._queue.is_open:
            await self._replicas.renew()
        elif await self._batches.has_waiting():
            await self._ensure_queue()
        if self._queue.is_open:
            await self._take_over_dead_replicas()
            await self._requeue_lost_batches()
        await self._delete_expired()
        self._record_totals(await self._jobs.count_totals())

    async def _ensure_queue(self) -> None:
        async with self._opening:
            if self._queue.is_open:
                return
            if self._stopped:
                raise Unavailable("the gateway is shutting down", reason="SERVER_DRAINING", retry_after=1.0)
            # The lease comes first, so that the batches that run from now on belong to a known replica.
            await self._replicas.renew()
            await self._queue.open()

    async def _enqueue(self, key: str) -> None:
        await self._queue.put(await self._batches.list_batches(key))

    async def _take_over_dead_replicas(self) -> None:
        for state in self._monitor.find_free_leases(await self._replicas.list_states()):
            count = await self._queue.take_over(state.name)
            await self._replicas.delete(state)
            log.warning("took over the batches of a dead replica", batches=count, replica=state.name)

    async def _requeue_lost_batches(self) -> None:
        """Queue batches of jobs whose replica died before it had queued them."""
        for key, generation in await self._batches.list_overdue_jobs():
            is_queued = await self._queue.contains(build_generation_prefix(key, generation))
            if not is_queued and await self._batches.start_generation(key, generation):
                await self._enqueue(key)

    async def _delete_expired(self) -> None:
        for key in await self._jobs.list_expired_keys(self._policy.retention, ABANDONED_AFTER):
            if self._queue.is_open:
                await self._queue.delete(f"{key}/")
            await self._jobs.discard(key)
