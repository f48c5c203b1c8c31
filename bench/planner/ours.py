"""hansei's planner under measurement: real executor, real SQLite file with synchronous=FULL, tools that sleep."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.planner.dags import Dag, plan_of
from services.planner.adapters.sql.store import SqlExecutionStore
from services.planner.domain.answers import AskingPolicy
from services.planner.domain.events import Effect, Recorded
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import replayed
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.moves import Rules
from services.planner.domain.plans import Action, ExecutionPlan, PlanStep, new_plan_id, utc_now
from services.planner.domain.replanning import ReplanManager
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.thresholds import Thresholds
from services.planner.domain.tools import ToolInput
from services.planner.usecases.execute import Executor
from services.planner.usecases.executions import Executions, Ownership
from services.planner.usecases.gates import AdjustedGate
from services.planner.usecases.judge import StepJudge
from services.planner.usecases.models import SearchBackend
from services.planner.usecases.plan import Planner
from services.planner.usecases.replan import ReplanOrchestrator
from services.planner.usecases.tokens import open_question
from services.planner.usecases.tools import AskUserTool, ToolRegistry

CHARS_OF_A_RESULT = 4_000


class Sleep:
    """Takes the seconds its query says."""

    name = "code_execute"
    effect = Effect.KEYED

    async def run(self, given: ToolInput) -> ToolResult:
        seconds = float(given.query)
        if seconds:
            await asyncio.sleep(seconds)
        factors = {"llm_self_confidence": 1.0, "query_coverage": 1.0}
        return ToolResult(success=True, output="done", confidence_factors=factors)


class Found:
    """Search results of a usual size."""

    name = "web_search"
    effect = Effect.PURE

    async def run(self, given: ToolInput) -> ToolResult:
        hits = tuple(
            Hit(id=str(i), content="x" * (CHARS_OF_A_RESULT // 4), source=f"s{i}", score=1.0) for i in range(4)
        )
        return ToolResult(success=True, output=hits)


class _Nowhere(SearchBackend):
    async def list_collections(self) -> list[str]:
        return []

    async def search(self, query: str, collection: str, limit: int, score_threshold: float) -> list[Hit]:
        return []


class Fresh(Executions):
    """Begins from memory: a plan of more than 20 steps could not be read back (P-05)."""

    plans: dict[str, ExecutionPlan]

    async def state(self, execution_id: str) -> ExecutionState:
        plan = self.plans.get(execution_id)
        if plan is None:
            return await super().state(execution_id)
        return replayed([Recorded(sequence=1, created_at=utc_now(), event=self._executor.started(plan))])


@asynccontextmanager
async def planner(place: Path) -> AsyncIterator[Fresh]:
    """A planner over a database file."""
    rules = Rules(AskingPolicy(default_timeout=864_000), ReplanManager(max_replans=0), max_parallel_steps=64)
    orchestrator = ReplanOrchestrator(Planner(_Nowhere()), rules.replans)
    executor = Executor(
        ToolRegistry([Sleep(), Found(), AskUserTool()]), StepJudge(AdjustedGate(Thresholds())), orchestrator, rules
    )
    store = SqlExecutionStore(str(place))
    await store.open()
    executions = Fresh(store, executor, Ownership("bench", 60.0))
    executions.plans = {}
    await executions.open()
    try:
        yield executions
    finally:
        await executions.close()
        await store.close()


async def makespan(executions: Fresh, dag: Dag) -> float:
    """Seconds from the request to the committed result of a DAG."""
    plan = plan_of(dag)
    executions.plans[plan.plan_id or ""] = plan
    began = time.perf_counter()
    await _driven(executions, await executions.start(plan, None, None))
    return time.perf_counter() - began


async def _driven(executions: Executions, execution_id: str) -> None:
    driven = executions.driven.get(execution_id)
    if driven is not None and driven.task is not None:
        await driven.task


def chain(count: int) -> ExecutionPlan:
    """Steps that take no time, one after the other."""
    steps = tuple(
        PlanStep(
            step_id=i,
            action=Action.CODE_EXECUTE,
            description="nothing",
            query="0",
            depends_on=(i - 1,) if i > 1 else (),
        )
        for i in range(1, count + 1)
    )
    return _plan(steps)


def asking() -> ExecutionPlan:
    """A search, then a question to a person."""
    return _plan(
        (
            PlanStep(step_id=1, action=Action.WEB_SEARCH, description="look up", query="q"),
            PlanStep(step_id=2, action=Action.ASK_USER, description="ask", query="which?", depends_on=(1,)),
        )
    )


def _plan(steps: tuple[PlanStep, ...]) -> ExecutionPlan:
    return ExecutionPlan(
        original_query="bench", complexity=0.5, requires_confirmation=False, steps=steps, plan_id=new_plan_id()
    )


async def cpu_per_step(executions: Executions, plans: int, steps: int = 20) -> float:
    """CPU seconds of a durable step that does nothing, over so many plans one after the other."""
    began = time.process_time()
    for _ in range(plans):
        await _driven(executions, await executions.start(chain(steps), None, None))
    return (time.process_time() - began) / (plans * steps)


def peak_memory() -> int:
    """Bytes this process has had in memory at most."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def pause(executions: Executions, count: int, at_once: int = 100) -> list[str]:
    """So many executions that wait for a person; their ids."""
    ids: list[str] = []
    for _ in range(0, count, at_once):
        batch = await asyncio.gather(*(executions.start(asking(), None, None) for _ in range(at_once)))
        await asyncio.gather(*(_driven(executions, each) for each in batch))
        ids += batch
    return ids


def payload_of_a_pause() -> int:
    """Bytes of what a paused execution must keep: its plan and its result, as JSON."""
    result = sum(
        len(Hit(id=str(i), content="x" * (CHARS_OF_A_RESULT // 4), source=f"s{i}").model_dump_json()) for i in range(4)
    )
    return len(asking().model_dump_json()) + result


async def resume(executions: Executions, execution_id: str) -> float:
    """Seconds from an answer to the committed result."""
    asked = open_question(await executions.log(execution_id))
    token = executions.token(execution_id, asked)
    response = InterventionResponse(action=InterventionAction.INPUT, user_input="this")
    began = time.perf_counter()
    await executions.answer(execution_id, response, token, 1, 2, None)
    await _driven(executions, execution_id)
    return time.perf_counter() - began
