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

    A work that raises a HanseiError, for example because a database does not answer, is logged and done again in the
    next round. Raises any other error of a work: as a task of a service, it then makes the process restart.
    """
    if first_pause:
        await sleep(first_pause)
    while True:
        for work in works:
            try:
                await work()
            except HanseiError as error:
                task = asyncio.current_task()
                name = task.get_name() if task else ""
                log.warning("repeated work failed; trying again later", task=name, error=str(error))
        await sleep(seconds)
