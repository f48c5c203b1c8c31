"""Parts for the executor's tests: scripted tools, and a clock that stands still."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel

from libs.llm.errors import ReplyNotStructured
from libs.llm.structured_output import parse_structured
from services.planner.compat import InProcessExecutor
from services.planner.domain.events import Effect
from services.planner.domain.moves import ExecutionRules
from services.planner.domain.plans import ExecutionPlan, PlanStep, create_plan_id
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.thresholds import Thresholds
from services.planner.domain.tools import ToolInput
from services.planner.usecases.gates import AdjustedGate
from services.planner.usecases.judge import StepJudge
from services.planner.usecases.plan import Planner
from services.planner.usecases.ports import Completion, Tool
from services.planner.usecases.replan import OnReplan, ReplanOrchestrator
from services.planner.usecases.tools import AskUserTool, RAGSearchTool, ToolRegistry

S = TypeVar("S", bound=BaseModel)

Script = Callable[[ToolInput], Awaitable[ToolResult] | ToolResult]


def answer(text: str, confidence: float = 0.95, **changes: Any) -> ToolResult:
    """Return an agent's answer with exactly this confidence (P-35)."""
    return ToolResult(success=True, output=text, confidence_factors={"confidence": confidence}, **changes)


def failure(error: str = "broken") -> ToolResult:
    return ToolResult(success=False, error=error)


@dataclass
class ScriptedTool:
    """A tool that answers each query by a script: a result, a list of results in turn, an exception, or a function."""

    scripts: Mapping[str, Any] = field(default_factory=dict)
    name: str = "run_legacy_agent"
    effect: Effect = Effect.PURE
    description: str = ""
    calls: list[ToolInput] = field(default_factory=list)

    async def run(self, tool_input: ToolInput) -> ToolResult:
        self.calls.append(tool_input)
        is_scripted = isinstance(self.scripts, defaultdict) or tool_input.query in self.scripts
        found = self.scripts[tool_input.query] if is_scripted else answer(tool_input.query)
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        if callable(found):
            found = found(tool_input)
            if asyncio.iscoroutine(found):
                found = await found
        result: ToolResult = found
        return result

    @property
    def queries(self) -> list[str]:
        return [tool_input.query for tool_input in self.calls]


class FixedBackend:
    """A search backend with these hits in every collection."""

    def __init__(self, hits: Sequence[Hit] = (), collections: Sequence[str] = ("wikipedia_ja",)) -> None:
        self.hits = hits
        self.collections = collections
        self.searched: list[tuple[str, str]] = []

    async def list_collections(self, prefix: str = "") -> Sequence[str]:
        return self.collections

    async def search(self, query: str, collection: str, limit: int, score_threshold: float) -> Sequence[Hit]:
        self.searched.append((query, collection))
        return self.hits[:limit]


class ScriptedModel:
    """A model that replies from a list, the last reply for ever; an exception in it is raised."""

    def __init__(self, *replies: str | Exception, tokens: int = 0) -> None:
        self.replies = list(replies)
        self.tokens = tokens
        self.prompts: list[tuple[str, str]] = []

    async def complete(self, system: str, prompt: str) -> Completion:
        self.prompts.append((system, prompt))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return Completion(reply, self.tokens)

    async def complete_structured(self, system: str, prompt: str, shape: type[S]) -> tuple[S | None, Completion]:
        completion = await self.complete(system, prompt)
        try:
            return parse_structured(completion.text, shape), completion
        except ReplyNotStructured:
            return None, completion


def verdict(supported: float, complete: float) -> str:
    """Return the reply of a model that judges a step."""
    return json.dumps({"reason": "because", "supported": supported, "complete": complete})


class StandingClock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def agent_step(step_id: int, *depends_on: int, **changes: Any) -> PlanStep:
    """Return a step whose query is `s<id>`, so that scripts can name it."""
    fields = {"action": "run_legacy_agent", "description": f"d{step_id}", "query": f"s{step_id}"}
    return PlanStep(**{"step_id": step_id, "depends_on": depends_on, **fields, **changes})


def agent_plan(*steps: PlanStep, **changes: Any) -> ExecutionPlan:
    fields = {
        "original_query": "q",
        "complexity": 0.5,
        "requires_confirmation": False,
        "plan_id": create_plan_id(),
    }
    return ExecutionPlan(**{**fields, "steps": steps, **changes})


def reasoning_tool() -> ScriptedTool:
    """Return a reasoning tool that is sure of its answer."""
    sure = ToolResult(success=True, output="done", confidence_factors={"llm_self_confidence": 1.0})
    return ScriptedTool(defaultdict(lambda: sure), name="reasoning")


def planner_with(model: ScriptedModel) -> Planner:
    """Return a planner whose tools are those of `executor`, and an agent."""
    backend = FixedBackend()
    tools = ToolRegistry([RAGSearchTool(backend), AskUserTool(), reasoning_tool(), ScriptedTool()])
    return Planner(backend, model, tools=tools)


def executor(
    *tools: Tool,
    planner: Planner | None = None,
    rules: ExecutionRules | None = None,
    clock: Callable[[], datetime] | None = None,
    on_replan: OnReplan | None = None,
    judge: StepJudge | None = None,
) -> InProcessExecutor:
    """An executor with these tools; its planner is offline unless one is given."""
    rules = rules or ExecutionRules()
    registry = ToolRegistry([AskUserTool(), reasoning_tool(), *tools])
    orchestrator = ReplanOrchestrator(planner or Planner(FixedBackend()), rules.replans, on_replan)
    made = InProcessExecutor(registry, judge or StepJudge(AdjustedGate(Thresholds())), orchestrator, rules)
    return made if clock is None else InProcessExecutor(registry, made.judge, orchestrator, rules, clock=clock)
