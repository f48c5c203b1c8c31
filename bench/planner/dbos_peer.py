"""The same DAGs on DBOS: a workflow whose steps are durable, each started when its dependencies are done."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from bench.planner.dags import Dag


class DbosPeer:
    """DBOS over a SQLite file."""

    def __init__(self, folder: Path) -> None:
        from dbos import DBOS, DBOSConfig

        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/dbos.sqlite",
            "log_level": "ERROR",
        }
        DBOS(config=config)

        @DBOS.step()
        async def sleep(seconds: float) -> str:
            if seconds:
                await asyncio.sleep(seconds)
            return "done"

        @DBOS.workflow()
        async def graph(seconds: dict[str, float], needs: dict[str, list[int]]) -> int:
            running: dict[int, asyncio.Task[str]] = {}

            async def one(step: int) -> str:
                for needed in needs[str(step)]:
                    await running[needed]
                return await sleep(seconds[str(step)])

            for step in sorted(int(key) for key in seconds):
                running[step] = asyncio.create_task(one(step))
            return len(await asyncio.gather(*running.values()))

        @DBOS.workflow()
        async def line(steps: int) -> int:
            for _ in range(steps):
                await sleep(0.0)
            return steps

        self._graph: Any = graph
        self._line: Any = line
        self._dbos: Any = DBOS
        DBOS.launch()

    async def makespan(self, dag: Dag) -> float:
        """Seconds from the call to the durable result of a DAG."""
        began = time.perf_counter()
        await self._graph({str(k): v for k, v in dag.seconds.items()}, {str(k): list(v) for k, v in dag.needs.items()})
        return time.perf_counter() - began

    async def cpu_per_step(self, plans: int, steps: int = 20) -> float:
        """CPU seconds of a durable step that does nothing."""
        began = time.process_time()
        for _ in range(plans):
            await self._line(steps)
        return (time.process_time() - began) / (plans * steps)

    def close(self) -> None:
        self._dbos.destroy()
