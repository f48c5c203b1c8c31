"""The queue of batches in DBOS, which assigns batches to replicas, and runs a batch again when its replica dies.

DBOS stores only these assignments. It runs in threads and an event loop of its own; batches are learned on the
gateway's loop. A process has one DBOS, and so one queue.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gateway.bulk.domain.batches import Batch
from gateway.bulk.domain.errors import QueueOwnedByOtherInstance, QueueUnavailable
from libs.storage.engines import is_sqlite

if TYPE_CHECKING:
    from dbos import DBOSConfig

APPLICATION = "hansei"
QUEUE = "hansei-bulk"
WORKFLOW = "learn_batch"
VERSION = "1"
"""Changes when older batches cannot run any more: DBOS runs only batches of its own version."""

POLL_SECONDS = 0.25
_SPARE_THREADS = 4
_WAITING = ["ENQUEUED", "DELAYED"]
_ACTIVE = [*_WAITING, "PENDING"]
_in_use = threading.Lock()

R = TypeVar("R")
Run = Callable[[Batch], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class BatchConcurrency:
    """The number of batches that run at once: of one dataset over all replicas, and of all in this process."""

    dataset: int
    process: int


class DbosQueue:
    """Implements `BatchQueue`."""

    def __init__(self, url: URL, executor: str, concurrency: BatchConcurrency, run: Run) -> None:
        """`executor` names this replica: batches that ran when it died run again when a replica of this name starts."""
        self._url = url
        self._executor = executor
        self._concurrency = concurrency
        self._run = run
        self._dbos: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Return whether batches run here."""
        return self._dbos is not None

    async def open(self) -> None:
        """Start to run batches. Raises QueueUnavailable, QueueOwnedByOtherInstance."""
        if self.is_open:
            return
        if not _in_use.acquire(blocking=False):
            raise QueueOwnedByOtherInstance(
                "another gateway of this process has the queue of jobs; run one per process"
            )
        self._loop = asyncio.get_running_loop()
        try:
            self._dbos = await asyncio.to_thread(self._launch)
        except BaseException as error:
            _in_use.release()
            raise _translate_error(error) from error

    async def close(self) -> None:
        """Stop to run batches; unfinished ones stay queued for the next queue that opens."""
        dbos, self._dbos = self._dbos, None
        if dbos is None:
            return
        try:
            # DBOS waits one second, so that its threads stop to fetch batches and none is lost.
            await asyncio.to_thread(dbos.destroy, destroy_registry=True, workflow_completion_timeout_sec=1)
        finally:
            _in_use.release()

    async def put(self, batches: Sequence[Batch]) -> None:
        """Queue batches; one whose id was queued before is not queued again."""

        def enqueue_batches() -> None:
            for batch in batches:
                options = {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": batch.batch_id,
                    "queue_partition_key": batch.dataset,
                    "app_version": VERSION,
                }
                arguments = (batch.batch_id, batch.key, batch.dataset, batch.first, batch.last)
                self._dbos.enqueue_workflow_with_options(options, *arguments)

        await self._run_in_thread(enqueue_batches)

    async def contains(self, prefix: str) -> bool:
        """Return whether a batch whose id has this prefix is queued or runs."""

        def find_workflow() -> bool:
            found = self._dbos.list_workflows(
                workflow_id_prefix=prefix, status=_ACTIVE, limit=1, load_input=False, load_output=False
            )
            return bool(found)

        return await self._run_in_thread(find_workflow)

    async def take_over(self, executor: str) -> int:
        """Queue the batches of a dead replica again, and return their number.

        If the replica still works, both learn the same trajectories, which are committed once.
        """

        def resume_workflows() -> int:
            pending = self._dbos.list_workflows(
                executor_id=executor, status="PENDING", queue_name=QUEUE, load_input=False, load_output=False
            )
            if pending:
                self._dbos.resume_workflows([workflow.workflow_id for workflow in pending], queue_name=QUEUE)
            return len(pending)

        return await self._run_in_thread(resume_workflows)

    async def cancel(self, prefix: str) -> None:
        """Take waiting batches whose id has this prefix out of the queue; running ones end by themselves."""
        await self._run_in_thread(lambda: self._dbos.cancel_workflows(self._list_ids(prefix, _WAITING)))

    async def delete(self, prefix: str) -> None:
        """Delete the records of batches whose id has this prefix."""
        await self._run_in_thread(lambda: self._dbos.delete_workflows(self._list_ids(prefix, None)))

    def _list_ids(self, prefix: str, status: list[str] | None) -> list[str]:
        found = self._dbos.list_workflows(workflow_id_prefix=prefix, status=status, load_input=False, load_output=False)
        return [workflow.workflow_id for workflow in found]

    async def _run_in_thread(self, work: Callable[[], R]) -> R:
        if self._dbos is None:
            raise QueueUnavailable("the queue of bulk learning is closed")
        try:
            return await asyncio.to_thread(work)
        except Exception as error:
            raise _translate_error(error) from error

    def _launch(self) -> Any:
        # Imported only where it is used: the package is large, and most gateways have no job.
        from dbos import DBOS

        _redirect_logs()
        DBOS(config=self._build_config())

        async def learn_batch(batch_id: str, key: str, dataset: str, first: int, last: int) -> None:
            assert self._loop is not None
            work = self._run(Batch(batch_id, key, dataset, first, last))
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

        DBOS.workflow(name=WORKFLOW)(learn_batch)
        try:
            DBOS.launch()
            DBOS.register_queue(
                QUEUE,
                partition_concurrency=self._concurrency.dataset,
                worker_concurrency=self._concurrency.process,
                polling_interval_sec=POLL_SECONDS,
                on_conflict="always_update",
            )
        except BaseException:
            DBOS.destroy(destroy_registry=True)
            raise
        return DBOS

    def _build_config(self) -> DBOSConfig:
        return {
            "name": APPLICATION,
            "system_database_url": _format_dbos_url(self._url),
            "executor_id": self._executor,
            "application_version": VERSION,
            "serializer": _create_json_serializer(),
            "sys_db_pool_size": self._concurrency.process + _SPARE_THREADS,
            "max_executor_threads": self._concurrency.process + _SPARE_THREADS,
            "scheduler_polling_interval_sec": 3600.0,
            "enable_otlp": False,
            "log_level": "WARNING",
        }


def _translate_error(error: BaseException) -> BaseException:
    """Return the error of the queue for one of DBOS or its database; their texts stay in the log."""
    from dbos import error as failures

    if isinstance(error, DBAPIError | PoolTimeout | failures.DBOSException):
        return QueueUnavailable(f"the queue of bulk learning is unavailable ({type(error).__name__})")
    return error


def _format_dbos_url(url: URL) -> str:
    """Return the URL for DBOS, which chooses its drivers itself."""
    plain = url if is_sqlite(url) else url.set(drivername="postgresql")
    return plain.render_as_string(hide_password=False)


def _redirect_logs() -> None:
    """Send the records of DBOS to the log of the process. A logger with a handler gets none of DBOS's own."""
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = True


def _create_json_serializer() -> Any:
    """Return a serializer to JSON. DBOS would use pickle, which executes code that it reads from the database."""
    from dbos import Serializer

    class Json(Serializer):
        def serialize(self, data: Any) -> str:
            return json.dumps(data, default=str)

        def deserialize(cls, serialized_data: str) -> Any:  # noqa: N805  as the class it derives from names it
            return json.loads(serialized_data)

        def name(self) -> str:
            return "hansei_json"

    return Json()
