"""DBOS: a workflow whose steps are durable, each started when its dependencies are done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.planner.dags import Dag
from bench.planner.system import EFFECTS, HITS
from bench.planner.world import World

_DAYS_OF_WAITING = 864_000


class Dbos:
    """DBOS over a SQLite file."""

    async def open(self, folder: Path, world: World | None = None) -> None:
        """Register the workflows and start DBOS, which recovers the workflows of a killed process."""
        from dbos import DBOS, DBOSConfig

        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/dbos.sqlite",
            "log_level": "ERROR",
            "application_version": "1",
        }
        DBOS(config=config)

        @DBOS.step()
        async def sleep(seconds: float) -> str:
            if seconds:
                await asyncio.sleep(seconds)
            return "done"

        @DBOS.step()
        async def effect(key: str) -> str:
            if world is not None:
                world.perform(key)
            return "done"

        @DBOS.step()
        async def fixed_hits() -> list[dict[str, Any]]:
            return HITS

        @DBOS.workflow()
        async def graph(seconds: dict[str, float], needs: dict[str, list[int]]) -> int:
            return await _run_in_order({int(k): v for k, v in needs.items()}, lambda step: sleep(seconds[str(step)]))

        @DBOS.workflow()
        async def affecting() -> int:
            return await _run_in_order(EFFECTS, lambda step: effect(f"s{step}"))

        @DBOS.workflow()
        async def line(steps: int) -> int:
            for _ in range(steps):
                await sleep(0.0)
            return steps

        @DBOS.workflow()
        async def asking() -> str:
            hits = await fixed_hits()
            self._waiting.release()
            return f"{await DBOS.recv_async('answer', timeout_seconds=_DAYS_OF_WAITING)} of {len(hits)}"

        self._waiting = asyncio.Semaphore(0)
        self._dbos: Any = DBOS
        self._graph: Any = graph
        self._affecting: Any = affecting
        self._line: Any = line
        self._asking: Any = asking
        DBOS.launch()

    async def close(self) -> None:
        """Stop DBOS and its threads."""
        self._dbos.destroy()

    async def makespan(self, dag: Dag) -> float:
        """Return the seconds from the call to the durable result of a DAG."""
        began = time.perf_counter()
        await self._graph({str(k): v for k, v in dag.seconds.items()}, {str(k): list(v) for k, v in dag.needs.items()})
        return time.perf_counter() - began

    async def line(self, steps: int) -> None:
        """Execute a chain of steps that do nothing."""
        await self._line(steps)

    async def pause(self, count: int) -> list[str]:
        """Start workflows that wait for a message; each stays a coroutine of this process."""
        ids = []
        for _ in range(count):
            handle = await self._dbos.start_workflow_async(self._asking)
            ids.append(handle.workflow_id)
        for _ in ids:
            await self._waiting.acquire()
        return ids

    async def resume(self, execution_id: str) -> float:
        """Return the seconds from the message to the durable result."""
        began = time.perf_counter()
        await self._dbos.send_async(execution_id, "this", "answer")
        handle = await self._dbos.retrieve_workflow_async(execution_id)
        await handle.get_result()
        return time.perf_counter() - began

    async def affect(self) -> None:
        """Execute `EFFECTS` under a fixed id: a second process joins the recovered workflow."""
        from dbos import SetWorkflowID

        with SetWorkflowID("effects"):
            handle = await self._dbos.start_workflow_async(self._affecting)
        await handle.get_result()


async def _run_in_order(needs: Mapping[int, Sequence[int]], work: Callable[[int], Awaitable[str]]) -> int:
    """Run each step as a task that awaits its dependencies; return their number."""
    running: dict[int, asyncio.Task[str]] = {}

    async def run_step(step: int) -> str:
        for needed in needs[step]:
            await running[needed]
        return await work(step)

    for step in sorted(needs):
        running[step] = asyncio.create_task(run_step(step))
    return len(await asyncio.gather(*running.values()))
