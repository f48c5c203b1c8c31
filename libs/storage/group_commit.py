"""Write on one thread: units of work that wait while a commit runs are committed together.

A disk flush costs the same for one unit as for fifty, so throughput grows with load and a single writer pays nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from chassis.logging import get_logger

T = TypeVar("T")

MAX_BATCH = 64

_log = get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Unit(Generic[T]):
    """A unit of work and its outcome."""

    key: str
    work: Callable[[Connection], T]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[T]
    on_commit: Callable[[T], None] | None
    result: T | None = None
    error: Exception | None = None


class GroupCommitWriter:
    """Runs units of work on one connection, several in one commit.

    Each unit of a batch has a savepoint, so that one that fails takes no other with it; a unit alone needs none. A
    batch runs in the order of its keys: two processes that lock the rows of their keys never wait for each other.
    """

    def __init__(self, engine: Engine, name: str, translate_error: Callable[[Exception], Exception]) -> None:
        """`translate_error` returns the error that a caller gets for one that a unit, or the commit, raised."""
        self._engine = engine
        self._translate_error = translate_error
        self._units: queue.SimpleQueue[_Unit[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._commit_batches, name=f"{name}-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def run(self, work: Callable[[Connection], T], key: str, on_commit: Callable[[T], None] | None = None) -> T:
        """Return the result of `work` once it is on disk; before, call `on_commit` with it on the caller's loop.

        A caller that is cancelled does not stop the commit, nor its `on_commit`.
        """
        loop = asyncio.get_running_loop()
        unit: _Unit[T] = _Unit(key, work, loop, loop.create_future(), on_commit)
        self._units.put(unit)
        return await unit.done

    async def close(self) -> None:
        """Finish the accepted work, then end the thread. No unit may be run afterwards."""
        self._units.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _commit_batches(self) -> None:
        is_closing = False
        while not is_closing:
            batch, is_closing = self._take_next_batch()
            if batch:
                self._commit(batch)
            for loop in {unit.loop for unit in batch}:
                # A loop that was closed before the database has no caller that waits.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_settle_futures, [unit for unit in batch if unit.loop is loop])

    def _take_next_batch(self) -> tuple[list[_Unit[Any]], bool]:
        batch: list[_Unit[Any]] = []
        with contextlib.suppress(queue.Empty):
            while len(batch) < MAX_BATCH:
                unit = self._units.get(block=not batch)
                if unit is None:
                    return batch, True
                batch.append(unit)
        return batch, False

    def _commit(self, batch: list[_Unit[Any]]) -> None:
        try:
            with self._engine.begin() as connection:
                if len(batch) == 1:
                    batch[0].result = batch[0].work(connection)
                else:
                    for unit in sorted(batch, key=lambda unit: unit.key):
                        self._run_in_savepoint(unit, connection)
        except Exception as error:
            translated = self._translate_error(error)
            for unit in batch:
                unit.error = unit.error or translated

    def _run_in_savepoint(self, unit: _Unit[Any], connection: Connection) -> None:
        # Own statements: `begin_nested` compiles three statements for each unit, a tenth of a commit's time.
        connection.exec_driver_sql("SAVEPOINT unit")
        try:
            unit.result = unit.work(connection)
            connection.exec_driver_sql("RELEASE SAVEPOINT unit")
        except Exception as error:
            unit.error = self._translate_error(error)
            try:
                connection.exec_driver_sql("ROLLBACK TO SAVEPOINT unit")
            except SQLAlchemyError as lost:
                # The database gave up the whole transaction (a full disk, a lost connection): nothing of the batch is
                # written. The error that made it give up counts for all; an error of the unit itself, for it alone.
                raise (lost if unit.error is error else error) from None


def _settle_futures(units: list[_Unit[Any]]) -> None:
    for unit in units:
        if unit.error is None and unit.on_commit is not None:
            try:
                unit.on_commit(unit.result)
            except Exception:
                _log.exception("after-commit callback failed")
        if unit.done.cancelled():
            continue
        if unit.error is None:
            unit.done.set_result(unit.result)
        else:
            unit.done.set_exception(unit.error)
            unit.done.exception()  # a cancelled caller does not read it
