"""The interface of measured systems: the same plans, pauses and effects, written as users of each system would."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from bench.planner.dags import Dag
from bench.planner.world import World

HITS = [{"id": str(i), "content": str(i) * 1_000, "source": f"s{i}", "score": 1.0} for i in range(4)]
"""Search results of a usual size, which a paused execution must store."""

EFFECTS = {1: (), 2: (1,), 3: (1,), 4: (1,), 5: (1,), 6: (2, 3, 4, 5)}
"""Steps with an effect in the world, and their dependencies."""


class System(Protocol):
    """A library that executes plans durably."""

    async def open(self, folder: Path, world: World | None = None) -> None:
        """Start over a database in a folder; the effects are performed in `world`."""

    async def close(self) -> None:
        """Stop everything that was started."""

    async def makespan(self, dag: Dag) -> float:
        """Return the seconds from the call to the durable result of a DAG."""

    async def line(self, steps: int) -> None:
        """Execute a chain of steps that do nothing."""

    async def pause(self, count: int) -> list[str]:
        """Start executions that have `HITS` and wait for a person; return their ids."""

    async def resume(self, execution_id: str) -> float:
        """Return the seconds from an answer to the durable result."""

    async def affect(self) -> None:
        """Execute `EFFECTS` to the end, or continue after a process that was killed."""


class Floor:
    """The lower bound without a system: tasks that await their dependencies, without durability."""

    async def makespan(self, dag: Dag) -> float:
        """Return the seconds from the first task to the last."""
        loop = asyncio.get_running_loop()
        began, tasks = loop.time(), dict[int, asyncio.Task[None]]()

        async def run_step(step: int) -> None:
            for needed in dag.needs[step]:
                await tasks[needed]
            await asyncio.sleep(dag.seconds[step])

        for step in sorted(dag.seconds):
            tasks[step] = asyncio.create_task(run_step(step))
        await asyncio.gather(*tasks.values())
        return loop.time() - began


def measure_size(folder: Path) -> int:
    """Return the bytes of the databases in a folder, their logs included."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file() and not path.name.endswith("-shm"))
