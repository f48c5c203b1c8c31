"""The one thread that writes. What waits when it is free is committed together, so a disk flush serves many."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from services.planner.adapters.sql.failures import translated

T = TypeVar("T")

_MOST_AT_ONCE = 200


class Writer:
    """Runs transactions one after the other, several in one commit; each is undone alone if it fails."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="planner-writer", daemon=True)
        self._thread.start()

    async def run(self, transaction: Callable[[Connection], T]) -> T:
        """What `transaction` returned, after its commit. Errors: its own, StoreUnavailable."""
        job = Job(transaction, asyncio.get_running_loop())
        self._jobs.put(job)
        # A caller that is cancelled does not take back what it asked for: the commit may be under way.
        result: T = await asyncio.shield(job.done)
        return result

    async def close(self) -> None:
        """Ends the thread after what was asked for is written."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        self._engine.dispose()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch, stop = [job], False
            while len(batch) < _MOST_AT_ONCE and not self._jobs.empty():
                following = self._jobs.get()
                if following is None:
                    stop = True
                    break
                batch.append(following)
            self._commit(batch)
            if stop:
                return

    def _commit(self, batch: list[Job]) -> None:
        outcomes: list[tuple[Any, Exception | None]] = []
        try:
            with self._engine.begin() as connection:
                # Alone, a transaction needs no savepoint: the whole is undone with it.
                alone = len(batch) == 1
                outcomes = [
                    (job.transaction(connection), None) if alone else _attempted(job, connection) for job in batch
                ]
        except Exception as error:  # the transaction or the commit failed: nobody's work happened
            outcomes = [(None, translated(error))] * len(batch)
        for job, (result, failure) in zip(batch, outcomes, strict=True):
            job.tell(result, failure)


class Job:
    """A transaction that waits for the writing thread."""

    def __init__(self, transaction: Callable[[Connection], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.transaction = transaction
        self.loop = loop
        self.done: asyncio.Future[Any] = loop.create_future()
        self.done.add_done_callback(_seen)

    def tell(self, result: Any, failure: Exception | None) -> None:
        """Hands the outcome to the caller's loop, if it still runs."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._resolve, result, failure)

    def _resolve(self, result: Any, failure: Exception | None) -> None:
        if self.done.done():
            return
        if failure is None:
            self.done.set_result(result)
        else:
            self.done.set_exception(failure)


def _seen(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _attempted(job: Job, connection: Connection) -> tuple[Any, Exception | None]:
    savepoint = connection.begin_nested()
    try:
        result = job.transaction(connection)
        savepoint.commit()
    except Exception as error:  # the caller of this one gets it; the others' work stands
        savepoint.rollback()
        return None, translated(error)
    return result, None
