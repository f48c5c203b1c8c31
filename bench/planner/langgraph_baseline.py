"""LangGraph with its SQLite saver: one node for each step, one edge for each dependency, synchronous writes."""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, TypedDict

from bench.planner.dags import Dag
from bench.planner.system import EFFECTS, HITS
from bench.planner.world import World
from services.planner.domain.plans import create_plan_id


class FinishedSteps(TypedDict):
    """The steps that the nodes write."""

    done: Annotated[list[int], operator.add]


class QuestionState(TypedDict, total=False):
    """The state of an execution with a question."""

    hits: list[dict[str, Any]]
    answer: str


class LangGraph:
    """LangGraph over a SQLite file."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._lines: dict[int, Any] = {}

    async def open(self, folder: Path, world: World | None = None) -> None:
        """Open the saver."""
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        saver = AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.sqlite"))
        self._saver = await self._stack.enter_async_context(saver)
        self._world = world
        self._asking = self._asking_graph()

    async def close(self) -> None:
        """Close the saver."""
        await self._stack.aclose()

    async def makespan(self, dag: Dag) -> float:
        """Return the seconds from the call to the durable result of a DAG."""
        graph = self._compile_graph(dag.needs, lambda step: asyncio.sleep(dag.seconds[step]))
        began = time.perf_counter()
        await graph.ainvoke({"done": []}, _thread(create_plan_id(), len(dag.needs)), durability="sync")
        return time.perf_counter() - began

    async def line(self, steps: int) -> None:
        """Execute a chain of steps that do nothing."""
        if steps not in self._lines:
            needs = {i: (i - 1,) if i > 1 else () for i in range(1, steps + 1)}
            self._lines[steps] = self._compile_graph(needs, do_nothing)
        await self._lines[steps].ainvoke({"done": []}, _thread(create_plan_id(), steps), durability="sync")

    async def pause(self, count: int) -> list[str]:
        """Start threads that stop at an interrupt."""
        ids = [create_plan_id() for _ in range(count)]
        for execution_id in ids:
            await self._asking.ainvoke({}, _thread(execution_id), durability="sync")
        return ids

    async def resume(self, execution_id: str) -> float:
        """Return the seconds from the answer to the durable result."""
        from langgraph.types import Command

        began = time.perf_counter()
        await self._asking.ainvoke(Command(resume="this"), _thread(execution_id), durability="sync")
        return time.perf_counter() - began

    async def affect(self) -> None:
        """Execute `EFFECTS`; a second process continues from the last checkpoint of the thread."""

        async def perform(step: int) -> None:
            if self._world is not None:
                self._world.perform(f"s{step}")

        graph, thread = self._compile_graph(EFFECTS, perform), _thread("effects")
        begun = (await graph.aget_state(thread)).created_at is not None
        await graph.ainvoke(None if begun else {"done": []}, thread, durability="sync")

    def _compile_graph(self, needs: Mapping[int, Sequence[int]], work: Callable[[int], Awaitable[None]]) -> Any:
        from langgraph.graph import END, START, StateGraph

        graph: Any = StateGraph(FinishedSteps)
        needed = {d for dependencies in needs.values() for d in dependencies}
        for step, before in needs.items():
            graph.add_node(f"s{step}", _node(step, work))
            graph.add_edge([f"s{d}" for d in before] or START, f"s{step}")
            if step not in needed:
                graph.add_edge(f"s{step}", END)
        return graph.compile(checkpointer=self._saver)

    def _asking_graph(self) -> Any:
        from langgraph.graph import END, START, StateGraph
        from langgraph.types import interrupt

        async def find(state: QuestionState) -> QuestionState:
            return {"hits": HITS}

        async def ask(state: QuestionState) -> QuestionState:
            return {"answer": str(interrupt("which?"))}

        graph: Any = StateGraph(QuestionState)
        graph.add_node("find", find)
        graph.add_node("ask", ask)
        graph.add_edge(START, "find")
        graph.add_edge("find", "ask")
        graph.add_edge("ask", END)
        return graph.compile(checkpointer=self._saver)


async def do_nothing(step: int) -> None:
    """Return at once."""


def _thread(name: str, steps: int = 10) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}, "recursion_limit": 10 * steps}


def _node(step: int, work: Callable[[int], Awaitable[None]]) -> Any:
    async def node(state: FinishedSteps) -> dict[str, list[int]]:
        await work(step)
        return {"done": [step]}

    return node
