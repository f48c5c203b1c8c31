"""A planner process that dies at a chosen point, and a world outside that records the effects on it.

Run in a child process: `live` starts or takes over the execution of a scenario and sends itself SIGKILL at its n-th
point. Points lie around every write (also between the commit and its answer) and around every effect.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from libs.storage.group_commit import GroupCommitWriter
from services.planner.adapters.sql.repository import SqlExecutionStore
from services.planner.domain.events import Effect
from services.planner.domain.execution import ExecutionState
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.plans import ExecutionPlan, PlanStep
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.tools import ToolInput
from services.planner.tests.parts import ScriptedModel, agent_plan, agent_step, executor, planner_with
from services.planner.usecases.executions import Executions, Ownership
from services.planner.usecases.ports import ExecutionFilter
from services.planner.usecases.tokens import find_open_question

ID = "0123456789ab"
_LEASE_SECONDS = 10.0


class KillPoints:
    """Counts the passed points; at the chosen point the process dies."""

    def __init__(self, kill_at: int) -> None:
        self.passed = 0
        self._kill_at = kill_at

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class World:
    """A record of calls and effects, one line each, in files that outlive the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def record(self, kind: str, key: str) -> None:
        with (self._folder / kind).open("a", encoding="utf-8") as file:
            file.write(f"{key}\n")

    def recorded_keys(self, kind: str) -> list[str]:
        path = self._folder / kind
        return path.read_text(encoding="utf-8").split() if path.exists() else []


class WorldTool:
    """A tool with an effect. Queries with `fail` in them fail, those with `unsure` are half sure."""

    description = ""

    def __init__(self, name: str, effect: Effect, world: World, point: KillPoints) -> None:
        self.name = name
        self.effect = effect
        self._world = world
        self._point = point

    async def run(self, tool_input: ToolInput) -> ToolResult:
        self._point()
        self._world.record("calls", tool_input.key)
        await asyncio.sleep(0)
        is_done = self.effect is Effect.KEYED and tool_input.key in self._world.recorded_keys("effects")
        if not is_done and self.effect is not Effect.PURE:
            self._world.record("effects", tool_input.key)
        self._point()
        return self._result(tool_input.query)

    async def find_outcome(self, key: str) -> ToolResult | None:
        self._point()
        return self._result(f"s{key.split(':')[1]}") if key in self._world.recorded_keys("effects") else None

    def _result(self, query: str) -> ToolResult:
        if "fail" in query:
            return ToolResult(success=False, error="refused")
        confidence = 0.5 if "unsure" in query else 0.95
        if self.name == "web_search":
            return ToolResult(success=True, output=(Hit(content=query, source="w", score=0.95),))
        return ToolResult(success=True, output=f"done {query}", confidence_factors=_sure(confidence, self.name))


def _sure(confidence: float, name: str) -> dict[str, float]:
    if name == "run_legacy_agent":
        return {"confidence": confidence}
    return {"llm_self_confidence": confidence, "query_coverage": confidence}


EFFECTS = {
    "run_legacy_agent": Effect.PURE,
    "code_execute": Effect.KEYED,
    "web_search": Effect.RECONCILABLE,
    "reasoning": Effect.PURE,
}


def _step(step_id: int, action: str, *depends_on: int, query: str = "") -> PlanStep:
    return agent_step(step_id, *depends_on, action=action, query=query or f"s{step_id}")


def _plan(*steps: PlanStep, **changes: Any) -> ExecutionPlan:
    return agent_plan(*steps, plan_id=ID, **changes)


@dataclass(frozen=True)
class Scenario:
    """A plan, and the effect class of code_execute in it."""

    plan: Callable[[], ExecutionPlan]
    code: Effect = Effect.KEYED


SCENARIOS = {
    "sequential": Scenario(
        lambda: _plan(
            _step(1, "run_legacy_agent"),
            _step(2, "code_execute", 1),
            _step(3, "web_search", 2),
            _step(4, "code_execute", 3),
            _step(5, "run_legacy_agent", 4),
            _step(6, "code_execute", 5),
            _step(7, "run_legacy_agent", 6),
        )
    ),
    "fan-out": Scenario(
        lambda: _plan(
            _step(1, "run_legacy_agent"),
            _step(2, "code_execute", 1),
            _step(3, "web_search", 1),
            _step(4, "run_legacy_agent", 1),
            _step(5, "web_search", 1),
            _step(6, "code_execute", 2),
            _step(7, "code_execute", 4),
            _step(8, "run_legacy_agent", 3, 5, 6, 7),
        )
    ),
    "replan": Scenario(
        lambda: _plan(
            _step(1, "code_execute"),
            _step(2, "web_search", 1),
            _step(3, "run_legacy_agent", 2, query="fail"),
            _step(4, "run_legacy_agent", 3),
        )
    ),
    "pause": Scenario(
        lambda: _plan(
            _step(1, "code_execute"),
            _step(2, "run_legacy_agent", 1, query="unsure"),
            _step(3, "web_search", 2),
            _step(4, "run_legacy_agent", 3, query="unsure"),
        )
    ),
    "approval": Scenario(
        lambda: _plan(
            _step(1, "code_execute"),
            _step(2, "web_search", 1),
            _step(3, "run_legacy_agent", 2),
            _step(4, "code_execute", 3),
            _step(5, "run_legacy_agent", 4),
            requires_confirmation=True,
        )
    ),
    "unsafe": Scenario(
        lambda: _plan(
            _step(1, "run_legacy_agent"),
            _step(2, "code_execute", 1),
            _step(3, "run_legacy_agent", 2),
            _step(4, "web_search", 3),
            _step(5, "run_legacy_agent", 4),
        ),
        Effect.UNSAFE,
    ),
}


def _executions(folder: Path, scenario: Scenario, point: KillPoints, monotonic: Callable[[], float]) -> Executions:
    world = World(folder)
    effects = EFFECTS | {"code_execute": scenario.code}
    tools = [WorldTool(name, effect, world, point) for name, effect in effects.items()]
    other = '{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"other"}]}'
    plan_executor = executor(*tools, planner=planner_with(ScriptedModel(other)))
    store = SqlExecutionStore(str(folder / "planner.db"))
    original = store.append

    async def append(*args: Any) -> None:
        point()
        await original(*args)
        point()

    store.append = append  # type: ignore[method-assign,assignment]
    decide = store.decide

    async def decide_at_point(*args: Any) -> Any:
        point()
        return await decide(*args)

    store.decide = decide_at_point  # type: ignore[method-assign,assignment]
    return Executions(store, plan_executor, Ownership("planner", _LEASE_SECONDS, 0.01), monotonic=monotonic)


async def _life(folder: Path, name: str, kill_at: int) -> int:
    """One life of a planner over the scenario's execution, until it has ended; the points it passed."""
    point, scenario, waited = KillPoints(kill_at), SCENARIOS[name], 0.0
    commit = GroupCommitWriter._commit

    def commit_and_pass(self: GroupCommitWriter, batch: Any) -> None:
        commit(self, batch)
        point()  # committed, but not yet acknowledged

    GroupCommitWriter._commit = commit_and_pass  # type: ignore[method-assign]
    executions = _executions(folder, scenario, point, lambda: time.monotonic() + waited)
    store: Any = executions.store
    await store.database.open()
    await executions.open()
    if not await store.list_executions(ExecutionFilter()):
        await executions.start(scenario.plan(), None, None)
    await executions.sweep_once()
    if not executions.driven:  # the lease of another process has to expire
        waited = _LEASE_SECONDS
        await executions.sweep_once()
    while (state := await _quiet(executions)).result is None:
        await _answer(executions, state)
    await executions.close()
    await store.database.close()
    return point.passed


async def _quiet(executions: Executions) -> ExecutionState:
    return [state async for _, state in executions.watch(ID, until_paused=True)][-1]


async def _answer(executions: Executions, state: ExecutionState) -> None:
    """A person who approves, and who knows whether an unsafe call took effect."""
    question = find_open_question(await executions.read_log(ID))
    request = state.intervention_request
    if request is None:
        return
    in_doubt = request.reason == "in doubt"
    response = InterventionResponse(
        action=InterventionAction.INPUT if in_doubt else InterventionAction.PROCEED,
        user_input="done s2" if in_doubt else None,
    )
    token = executions.create_token(ID, question)
    await executions.answer(ID, response, token, state.plan_version, request.step_id, None)


def live(folder: str, name: str, kill_at: int) -> None:
    """One life, in a process of its own; the number of points it passed stands in the file `points`."""
    passed = asyncio.run(_life(Path(folder), name, kill_at))
    (Path(folder) / "points").write_text(str(passed))


async def create_database(folder: Path) -> None:
    """The database of executions, without any."""
    store = SqlExecutionStore(str(folder / "planner.db"))
    await store.database.open()
    await store.database.close()


async def outcome(folder: Path) -> tuple[ExecutionState, Sequence[Any]]:
    """State and log of the scenario's execution."""
    store = SqlExecutionStore(str(folder / "planner.db"))
    await store.database.open()
    executions = Executions(store, executor(), Ownership("reader"))
    try:
        return await executions.state(ID), await executions.read_log(ID)
    finally:
        await store.database.close()
