"""One thread that writes: what waits while a commit runs is committed together, each part in its own savepoint.

A disk flush costs the same for one change as for fifty, so throughput grows with load and a single writer pays nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from services.curator.domain.errors import StoreUnavailable

T = TypeVar("T")
MAX_BATCH = 64

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Job(Generic[T]):
    dataset: str
    work: Callable[[Connection], T]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[T]
    committed: Callable[[T], None]
    result: T | None = None
    error: BaseException | None = None


class Writer:
    """Runs jobs on a connection, in batches, in the order of their datasets (so two processes never deadlock)."""

    def __init__(self, engine: Engine, translate: Callable[[Exception], Exception]) -> None:
        self._engine = engine
        self._translate = translate
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="playbook-writer", daemon=True)
        self._closed = False

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    async def run(self, dataset: str, work: Callable[[Connection], T], committed: Callable[[T], None]) -> T:
        """The result of `work` once it is on disk; `committed` is called with it on the loop before anyone waits.

        A caller that stops waiting does not stop the commit: it sends its request_id again.
        """
        if self._closed:
            raise StoreUnavailable("the playbook store is closing", retry_after=1)
        loop = asyncio.get_running_loop()
        job: _Job[T] = _Job(dataset, work, loop, loop.create_future(), committed)
        self._jobs.put(job)
        return await asyncio.shield(job.done)

    async def close(self) -> None:
        """Finishes what was accepted, then ends the thread."""
        self._closed = True
        self._jobs.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while True:
            batch, last = self._next_batch()
            if batch:
                self._commit(batch)
                for job in batch:
                    # A loop that was closed before the store leaves nobody to tell.
                    with contextlib.suppress(RuntimeError):
                        job.loop.call_soon_threadsafe(_resolve, job)
            if last:
                return

    def _next_batch(self) -> tuple[list[_Job[Any]], bool]:
        batch: list[_Job[Any]] = []
        try:
            while len(batch) < MAX_BATCH:
                job = self._jobs.get(block=not batch)
                if job is None:
                    return batch, True
                batch.append(job)
        except queue.Empty:
            pass  # Nothing more waits: these are committed together.
        return batch, False

    def _commit(self, batch: list[_Job[Any]]) -> None:
        try:
            with self._engine.begin() as connection:
                for job in sorted(batch, key=lambda job: job.dataset):
                    self._attempt(job, connection)
        except Exception as error:
            _log.warning("a commit of %d changes failed", len(batch), exc_info=True)
            translated = self._translate(error)
            for job in batch:
                job.error = job.error or translated

    def _attempt(self, job: _Job[Any], connection: Connection) -> None:
        savepoint = connection.begin_nested()
        try:
            job.result = job.work(connection)
            savepoint.commit()
        except Exception as error:
            job.error = self._translate(error)
            if isinstance(error, DBAPIError):
                _log.warning("a change of dataset %s failed", job.dataset, exc_info=True)
            try:
                savepoint.rollback()
            except DBAPIError:
                # The database gave up the whole transaction (a full disk, a lost connection), so nothing of the batch
                # stands; what made it give up is the error that counts.
                raise error from None


def _resolve(job: _Job[Any]) -> None:
    if job.error is None:
        job.committed(job.result)
    if job.done.cancelled():
        return
    if job.error is not None:
        job.done.set_exception(job.error)
        # A caller that went away leaves nobody to read the error.
        job.done.exception()
    else:
        job.done.set_result(job.result)
