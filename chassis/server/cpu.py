"""A bounded pool of threads for work that releases the GIL (FAISS, NumPy), so that the event loop stays responsive.

Do not run slow pure Python here: it holds the GIL in any thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from chassis.errors import ResourceExhausted

P = ParamSpec("P")
R = TypeVar("R")

RETRY_SECONDS = 0.5


class CpuPool:
    """`workers` threads (default: one per core) and at most `queue` waiting jobs."""

    def __init__(self, name: str, *, workers: int | None = None, queue: int = 64) -> None:
        self._workers = workers or os.cpu_count() or 1
        self._queue = queue
        self._executor = ThreadPoolExecutor(self._workers, thread_name_prefix=name)
        self._jobs = 0

    async def run(self, job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of `job`, run in a thread with the caller's context variables (deadline, call, span).

        Cancelling the caller removes a waiting job from the queue; a running job is not interrupted.
        Raises `ResourceExhausted` if the queue is full, and the errors of the job.
        """
        if self._jobs >= self._workers + self._queue:
            raise ResourceExhausted(
                f"worker pool queue is full ({self._jobs} jobs); try again later",
                reason="CPU_QUEUE_FULL",
                retry_after=RETRY_SECONDS,
            )
        loop = asyncio.get_running_loop()
        future = self._executor.submit(copy_context().run, partial(job, *args, **kwargs))
        self._jobs += 1
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._count_finished))
        return await asyncio.wrap_future(future)

    def _count_finished(self) -> None:
        self._jobs -= 1

    async def close(self) -> None:
        """Cancel waiting jobs, and wait for running ones."""
        await asyncio.to_thread(self._executor.shutdown, wait=True, cancel_futures=True)
