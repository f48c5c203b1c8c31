"""Load on one method: callers that each send the next call when the last one is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

Call = Callable[[int], Awaitable[object]]
# What clock_getcpuclockid(3) of Linux makes of a process id; Python does not offer it.
_CPU_CLOCK_OF_A_PROCESS = 2
IDLE_CPU = 0.1
"""The processor time in a second below which a process is idle."""
SETTLE_SECONDS = 2.0
"""The time after a start before which a process may be idle because its background work has not begun."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One method under one load. Rates per second, times in milliseconds; CPU is that of the serving process."""

    what: str
    callers: int
    calls: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float

    def as_json(self) -> dict[str, object]:
        """Return the values for a results file, rounded to the resolution of the clock."""
        return {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(self).items()}


def cpu_seconds(pid: int) -> float:
    """User and system time a process has used so far, by its own clock: `/proc` counts in hundredths of a second."""
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK_OF_A_PROCESS)


def wait_until_idle(pid: int, seconds: float = 180.0) -> None:
    """Wait until a process that has just started does nothing: search loads its compiled loops a second later."""
    time.sleep(SETTLE_SECONDS)
    for _ in range(round(seconds)):
        used = cpu_seconds(pid)
        time.sleep(1.0)
        if cpu_seconds(pid) - used < IDLE_CPU:
            return


async def measure(what: str, call: Call, *, pid: int, callers: int, calls: int, warm_up: int = 50) -> Measurement:
    """Measure `calls` calls by `callers` callers, after `warm_up` calls that do not count."""
    for number in range(warm_up):
        await call(number)
    times: list[float] = []
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            began = time.perf_counter()
            await call(number)
            times.append(time.perf_counter() - began)

    used, began = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    seconds = time.perf_counter() - began
    cpu = (cpu_seconds(pid) - used) / calls
    times.sort()
    return Measurement(
        what,
        callers,
        calls,
        per_second=calls / seconds,
        p50_ms=times[len(times) // 2] * 1000,
        p99_ms=times[min(len(times) - 1, int(len(times) * 0.99))] * 1000,
        cpu_ms=cpu * 1000,
    )
