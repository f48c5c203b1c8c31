"""The same DAGs on LangGraph with its SQLite saver: one node a step, an edge for each dependency."""

from __future__ import annotations

import asyncio
import operator
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, TypedDict

from bench.planner.dags import Dag
from services.planner.domain.plans import new_plan_id


class Done(TypedDict):
    """What the nodes write."""

    done: Annotated[list[int], operator.add]


class LangGraphPeer:
    """LangGraph over a SQLite file."""

    def __init__(self, folder: Path) -> None:
        self._place = str(folder / "langgraph.sqlite")
        self._stack = AsyncExitStack()
        self._saver: Any = None

    async def open(self) -> None:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self._saver = await self._stack.enter_async_context(AsyncSqliteSaver.from_conn_string(self._place))

    async def close(self) -> None:
        await self._stack.aclose()

    def _compiled(self, dag: Dag) -> Any:
        from langgraph.graph import END, START, StateGraph

        graph: Any = StateGraph(Done)
        for step, seconds in dag.seconds.items():
            graph.add_node(f"s{step}", _sleeping(step, seconds))
        needed = {d for needs in dag.needs.values() for d in needs}
        for step, needs in dag.needs.items():
            if needs:
                graph.add_edge([f"s{d}" for d in needs], f"s{step}")
            else:
                graph.add_edge(START, f"s{step}")
            if step not in needed:
                graph.add_edge(f"s{step}", END)
        return graph.compile(checkpointer=self._saver)

    async def makespan(self, dag: Dag) -> float:
        """Seconds from the call to the durable result of a DAG."""
        compiled = self._compiled(dag)
        began = time.perf_counter()
        await compiled.ainvoke({"done": []}, _config(len(dag.seconds)), durability="sync")
        return time.perf_counter() - began

    async def cpu_per_step(self, plans: int, steps: int = 20) -> float:
        """CPU seconds of a durable step that does nothing."""
        line = Dag(dict.fromkeys(range(1, steps + 1), 0.0), {i: (i - 1,) if i > 1 else () for i in range(1, steps + 1)})
        compiled = self._compiled(line)
        began = time.process_time()
        for _ in range(plans):
            await compiled.ainvoke({"done": []}, _config(steps), durability="sync")
        return (time.process_time() - began) / (plans * steps)


def _config(steps: int) -> dict[str, Any]:
    return {"configurable": {"thread_id": new_plan_id()}, "recursion_limit": 10 * steps}


def _sleeping(step: int, seconds: float) -> Any:
    async def node(state: Done) -> dict[str, list[int]]:
        if seconds:
            await asyncio.sleep(seconds)
        return {"done": [step]}

    return node
