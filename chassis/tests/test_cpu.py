import asyncio
import threading
from contextvars import ContextVar

import pytest

from chassis.errors import ResourceExhausted
from chassis.server.cpu import CpuPool

who: ContextVar[str] = ContextVar("who", default="nobody")


async def test_a_job_runs_in_a_thread_of_the_pool_with_the_callers_context() -> None:
    pool = CpuPool("faiss", workers=1)
    who.set("caller")

    assert await pool.run(who.get) == "caller"
    assert (await pool.run(threading.current_thread)).name.startswith("faiss")
    await pool.close()


async def test_the_exception_of_a_job_reaches_the_caller() -> None:
    pool = CpuPool("x", workers=1)

    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 / 0)
    await pool.close()


async def test_the_queue_is_bounded_and_a_cancelled_caller_leaves_it() -> None:
    pool, go = CpuPool("x", workers=1, queue=1), threading.Event()
    ran: list[str] = []
    running = asyncio.create_task(pool.run(go.wait))
    waiting = asyncio.create_task(pool.run(ran.append, "cancelled"))
    await asyncio.sleep(0)

    with pytest.raises(ResourceExhausted) as refused:
        await pool.run(ran.append, "refused")
    assert refused.value.retry_after is not None

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await running
    await pool.run(ran.append, "admitted")
    assert ran == ["admitted"]
    await pool.close()
