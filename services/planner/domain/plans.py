"""Plans and their steps: what a valid plan is, and when the numbers of its steps make sense."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from chassis.errors import shorten
from services.planner.domain.errors import InvalidPlan

MAX_STEPS = 20
DEFAULT_TIMEOUT_SECONDS = 30


class Action(StrEnum):
    """What a step does (P-01)."""

    RAG_SEARCH = "rag_search"
    WEB_SEARCH = "web_search"
    REASONING = "reasoning"
    ASK_USER = "ask_user"
    CODE_EXECUTE = "code_execute"
    RUN_LEGACY_AGENT = "run_legacy_agent"


SEARCHES = frozenset({Action.RAG_SEARCH, Action.WEB_SEARCH})
ANSWERS = frozenset({Action.REASONING, Action.RUN_LEGACY_AGENT})


class StepStatus(StrEnum):
    """Where a step is (P-02)."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"
    SKIPPED = "skipped"


def utc_now() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)


def new_plan_id(prefix: str = "") -> str:
    """A fresh plan id: 12 lower-case hexadecimal characters (P-06), behind the prefix of what its plan may see."""
    return prefix + secrets.token_hex(_OWN_CHARS // 2)


def prefix_of(plan_id: str) -> str:
    """What the names of datasets and collections begin with that a plan, or its execution, may see; empty: all.

    It stands in the id because that outlives everything: the model cannot change it, replans keep it (P-109), the log's
    hashes cover it, and whoever may not name the prefix cannot name the execution (ADR 070).
    """
    return plan_id[:-_OWN_CHARS]


_OWN_CHARS = 12
PlanId = Annotated[str, Field(pattern=r"^([A-Za-z0-9_-]{0,127}-)?[0-9a-f]{12}$")]


class PlanStep(BaseModel):
    """One step of a plan (P-03)."""

    model_config = ConfigDict(frozen=True)

    step_id: int = Field(ge=1, le=1_000_000)
    action: Action
    description: str = Field(min_length=1, max_length=4_000)
    query: str | None = Field(default=None, max_length=10_000)
    collection: str | None = Field(default=None, max_length=200)
    depends_on: tuple[int, ...] = Field(default=(), max_length=MAX_STEPS)
    expected_output: str = Field(default="", max_length=4_000)
    fallback: Action | None = None
    timeout_seconds: int | None = Field(default=DEFAULT_TIMEOUT_SECONDS, ge=1, le=300)

    @property
    def usable_fallback(self) -> Action | None:
        """The fallback, unless it repeats the action (P-43)."""
        return self.fallback if self.fallback != self.action else None

    @property
    def seconds(self) -> int:
        """Seconds one tool call of this step may take (P-45)."""
        return self.timeout_seconds or DEFAULT_TIMEOUT_SECONDS


class ExecutionPlan(BaseModel):
    """Steps that answer a query (P-04); at most 20 of them (P-05)."""

    model_config = ConfigDict(frozen=True)

    original_query: str = Field(min_length=1, max_length=10_000)
    complexity: float = Field(ge=0, le=1, allow_inf_nan=False)
    estimated_steps: int = Field(default=0, ge=1, le=MAX_STEPS)
    requires_confirmation: bool
    steps: tuple[PlanStep, ...] = Field(min_length=1, max_length=MAX_STEPS)
    success_criteria: str = Field(default="", max_length=4_000)
    created_at: datetime = Field(default_factory=utc_now)
    plan_id: PlanId | None = None

    @model_validator(mode="before")
    @classmethod
    def _estimate_is_the_number_of_steps(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("estimated_steps") is None:
            steps = value.get("steps")
            # A wrong number of steps is reported by `steps` itself, so the estimate stays in range here.
            count = len(steps) if isinstance(steps, (list, tuple)) else 1
            return {**value, "estimated_steps": min(max(count, 1), MAX_STEPS)}
        return value

    @property
    def prefix(self) -> str:
        """What the names of all it may see begin with; empty: all."""
        return prefix_of(self.plan_id or "")

    def step(self, step_id: int) -> PlanStep:
        """The step with this id; KeyError if there is none."""
        for step in self.steps:
            if step.step_id == step_id:
                return step
        raise KeyError(step_id)

    def position(self, step_id: int) -> int:
        """The 1-based place of a step in the plan (P-97)."""
        return next(i for i, step in enumerate(self.steps, start=1) if step.step_id == step_id)


def replace_steps(plan: ExecutionPlan, steps: Sequence[PlanStep], **changes: Any) -> ExecutionPlan:
    """`plan` with other steps, validated anew; keeps its id and its query (P-109)."""
    fields = {**plan.model_dump(exclude={"steps", "estimated_steps"}), **changes}
    return ExecutionPlan.model_validate({**fields, "steps": [step.model_dump() for step in steps]})


def validate_dependencies(plan: ExecutionPlan) -> list[str]:
    """What is wrong with the numbers of the steps; empty means nothing (P-12)."""
    ids = {step.step_id for step in plan.steps}
    messages = []
    for step in plan.steps:
        for dependency in step.depends_on:
            if dependency not in ids:
                messages.append(f"Step {step.step_id}: 存在しない依存先 {dependency}")
            if dependency >= step.step_id:
                messages.append(f"Step {step.step_id}: 循環依存または後方依存 {dependency}")
    repeated = Counter(step.step_id for step in plan.steps)
    messages.extend(f"Step {step_id}: ステップIDが重複" for step_id, count in repeated.items() if count > 1)
    return messages


def find_faults(plan: ExecutionPlan, prefix: str) -> list[str]:
    """Why a plan cannot run where only names with this prefix are seen: P-12, and steps that look elsewhere."""
    beyond = [
        f"Step {step.step_id}: collection {shorten(step.collection)!r} does not begin with {prefix!r}"
        for step in plan.steps
        if step.collection and not step.collection.startswith(prefix)
    ]
    return validate_dependencies(plan) + beyond


def with_plan_id(plan: ExecutionPlan, prefix: str = "") -> ExecutionPlan:
    """`plan` with a plan id: its own, or a new one (P-06)."""
    return plan if plan.plan_id else plan.model_copy(update={"plan_id": new_plan_id(prefix)})


def executable_plan(plan: ExecutionPlan, prefix: str = "") -> ExecutionPlan:
    """`plan` with an id that begins with `prefix`.

    InvalidPlan if its own does not, a step id repeats, a dependency is not on an earlier id (P-144), or a step looks
    where the plan may not.
    """
    if not (plan.plan_id or prefix).startswith(prefix):
        raise InvalidPlan([f"plan_id {plan.plan_id!r} does not begin with {prefix!r}"])
    made = with_plan_id(plan, prefix)
    if messages := find_faults(made, made.prefix):
        raise InvalidPlan(messages)
    return made
