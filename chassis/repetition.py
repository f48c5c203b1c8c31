"""Work that a service repeats for as long as its process lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from chassis.errors import HanseiError
from chassis.logging import get_logger

log = get_logger("hansei.repetition")


async def repeat(
    seconds: float,
    *works: Callable[[], Awaitable[object]],
    first_pause: float = 0.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Do each work in turn, pause for `seconds`, and begin again. Run until cancelled.

    An error of a work is logged with the name of the task, one that is not of hansei with its stack trace, and the work
    is done again in the next round: a database may respond then, and one row that cannot be read stops no other work.
    """
    name = task.get_name() if (task := asyncio.current_task()) else ""
    if first_pause:
        await sleep(first_pause)
    while True:
        for work in works:
            try:
                await work()
            except HanseiError as error:
                log.warning("repeated work failed; trying again later", task=name, error=str(error))
            except Exception:
                log.exception("repeated work failed unexpectedly; trying again later", task=name)
        await sleep(seconds)
