"""The planner under measurement: real executor, real SQLite file with synchronous=FULL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.planner.dags import Dag, build_plan
from bench.planner.system import EFFECTS, HITS
from bench.planner.world import World
from services.planner.adapters.sql.repository import SqlExecutionStore
from services.planner.domain.answers import InterventionPolicy
from services.planner.domain.events import Effect, RecordedEvent
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.moves import ExecutionRules
from services.planner.domain.plans import Action, ExecutionPlan, PlanStep, create_plan_id, utc_now
from services.planner.domain.replanning import ReplanManager
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.thresholds import Thresholds
from services.planner.domain.tools import ToolInput
from services.planner.usecases.execute import Executor
from services.planner.usecases.executions import Executions, Ownership
from services.planner.usecases.gates import AdjustedGate
from services.planner.usecases.judge import StepJudge
from services.planner.usecases.plan import Planner
from services.planner.usecases.ports import ExecutionFilter, SearchBackend
from services.planner.usecases.replan import ReplanOrchestrator
from services.planner.usecases.tokens import find_open_question
from services.planner.usecases.tools import AskUserTool, ToolRegistry

_AT_ONCE = 100
_EFFECTS_ID = "00000000effe"
_LEASE_SECONDS = 60.0
_SURE = {"llm_self_confidence": 1.0, "query_coverage": 1.0}


class Sleep:
    """Sleeps for the seconds in its query."""

    name = "code_execute"
    effect = Effect.KEYED
    description = ""

    async def run(self, tool_input: ToolInput) -> ToolResult:
        seconds = float(tool_input.query)
        if seconds:
            await asyncio.sleep(seconds)
        return ToolResult(success=True, output="done", confidence_factors=_SURE)


class FixedHits:
    """Finds `HITS`."""

    name = "web_search"
    effect = Effect.PURE
    description = ""

    async def run(self, tool_input: ToolInput) -> ToolResult:
        return ToolResult(success=True, output=tuple(Hit.model_validate(hit) for hit in HITS))


class Affect:
    """Performs an effect in the world, and can report whether it happened."""

    name = "run_legacy_agent"
    effect = Effect.RECONCILABLE
    description = ""

    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self, tool_input: ToolInput) -> ToolResult:
        self._world.perform(tool_input.query)
        return self._outcome()

    async def find_outcome(self, key: str) -> ToolResult | None:
        """Return the result of the call with this key, if its effect is in the world."""
        return self._outcome() if f"s{key.split(':')[1]}" in self._world.performed_keys() else None

    def _outcome(self) -> ToolResult:
        return ToolResult(success=True, output="done", confidence_factors={"confidence": 1.0})


class _Nowhere(SearchBackend):
    async def list_collections(self, prefix: str = "") -> list[str]:
        return []

    async def search(self, query: str, collection: str, limit: int, score_threshold: float) -> list[Hit]:
        return []


class _Executions(Executions):
    """Starts from memory: a stored plan of more than 20 steps cannot be read back (P-05)."""

    plans: dict[str, ExecutionPlan]

    async def read_log(self, execution_id: str) -> Sequence[RecordedEvent]:
        plan = self.plans.get(execution_id)
        if plan is None:
            return await super().read_log(execution_id)
        return [RecordedEvent(sequence=1, created_at=utc_now(), event=self._executor.make_started(plan))]


class PlannerSystem:
    """The planner over a SQLite file."""

    async def open(self, folder: Path, world: World | None = None) -> None:
        """Open the store. With a world, an earlier process may have used it before."""
        rules = ExecutionRules(
            InterventionPolicy(default_timeout=864_000), ReplanManager(max_replans=0), max_parallel_steps=64
        )
        tools = ToolRegistry([Sleep(), FixedHits(), AskUserTool(), *([Affect(world)] if world else [])])
        orchestrator = ReplanOrchestrator(Planner(_Nowhere()), rules.replans)
        executor = Executor(tools, StepJudge(AdjustedGate(Thresholds())), orchestrator, rules)
        self._store = SqlExecutionStore(str(folder / "hansei.sqlite"))
        await self._store.database.open()
        self._waited = 0.0
        own = Ownership("bench", _LEASE_SECONDS)
        self._executions = _Executions(self._store, executor, own, monotonic=lambda: time.monotonic() + self._waited)
        self._executions.plans = {}
        await self._executions.open()

    async def close(self) -> None:
        """Close the store."""
        await self._executions.close()
        await self._store.database.close()

    async def makespan(self, dag: Dag) -> float:
        """Return the seconds from the request to the committed result of a DAG."""
        plan = build_plan(dag)
        self._executions.plans[plan.plan_id or ""] = plan
        began = time.perf_counter()
        await self._wait_for_driver(await self._executions.start(plan, None, None))
        return time.perf_counter() - began

    async def line(self, steps: int) -> None:
        """Execute a chain of steps that do nothing."""
        needs = {i: (i - 1,) if i > 1 else () for i in range(1, steps + 1)}
        plan = _plan(Action.CODE_EXECUTE, dict.fromkeys(needs, "0"), needs)
        await self._wait_for_driver(await self._executions.start(plan, None, None))

    async def pause(self, count: int) -> list[str]:
        """Start executions with a search, then a question to a person."""
        ids: list[str] = []
        while len(ids) < count:
            plans = [question_plan() for _ in range(min(_AT_ONCE, count - len(ids)))]
            batch = await asyncio.gather(*(self._executions.start(plan, None, None) for plan in plans))
            await asyncio.gather(*(self._wait_for_driver(execution_id) for execution_id in batch))
            ids += batch
        return ids

    async def resume(self, execution_id: str) -> float:
        """Return the seconds from an answer to the committed result."""
        question = find_open_question(await self._executions.read_log(execution_id))
        token = self._executions.create_token(execution_id, question)
        response = InterventionResponse(action=InterventionAction.INPUT, user_input="this")
        began = time.perf_counter()
        await self._executions.answer(execution_id, response, token, 1, 2, None)
        await self._wait_for_driver(execution_id)
        return time.perf_counter() - began

    async def affect(self) -> None:
        """Execute `EFFECTS`, or take over the execution as any planner does."""
        if await self._store.list_executions(ExecutionFilter()):
            await self._executions.sweep_once()
            if _EFFECTS_ID not in self._executions.driven:
                self._waited = _LEASE_SECONDS  # pretend that the lease was observed unchanged for that long
                await self._executions.sweep_once()
        else:
            plan = _plan(Action.RUN_LEGACY_AGENT, {i: f"s{i}" for i in EFFECTS}, EFFECTS, _EFFECTS_ID)
            await self._executions.start(plan, None, None)
        await self._wait_for_driver(_EFFECTS_ID)

    async def _wait_for_driver(self, execution_id: str) -> None:
        driven = self._executions.driven.get(execution_id)
        if driven is not None and driven.task is not None:
            await driven.task


def question_plan() -> ExecutionPlan:
    """Return a plan with a search, then a question to a person."""
    steps = (
        PlanStep(step_id=1, action=Action.WEB_SEARCH, description="look up", query="q"),
        PlanStep(step_id=2, action=Action.ASK_USER, description="ask", query="which?", depends_on=(1,)),
    )
    return _make_plan(steps, create_plan_id())


def payload_of_a_pause() -> int:
    """Return the bytes that a paused execution must store: its plan and its result, as JSON."""
    return len(question_plan().model_dump_json()) + sum(len(Hit.model_validate(hit).model_dump_json()) for hit in HITS)


def _plan(
    action: Action, queries: Mapping[int, str], needs: Mapping[int, tuple[int, ...]], plan_id: str = ""
) -> ExecutionPlan:
    steps = tuple(
        PlanStep(step_id=i, action=action, description="bench", query=query, depends_on=needs[i])
        for i, query in queries.items()
    )
    return _make_plan(steps, plan_id or create_plan_id())


def _make_plan(steps: tuple[PlanStep, ...], plan_id: str) -> ExecutionPlan:
    return ExecutionPlan(
        original_query="bench", complexity=0.5, requires_confirmation=False, steps=steps, plan_id=plan_id
    )
