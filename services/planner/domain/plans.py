"""Plans and their steps, and the rules of a valid plan."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from chassis.errors import shorten
from chassis.field_errors import describe_error
from libs.prompts.language import Language, LanguageSetting, choose_language
from services.planner.domain.errors import InvalidPlan
from services.planner.domain.texts import TEXTS

MAX_STEPS = 20
MAX_STEP_ID = 1_000_000
DEFAULT_TIMEOUT_SECONDS = 30


class Action(StrEnum):
    """The action of a step (P-01)."""

    RAG_SEARCH = "rag_search"
    WEB_SEARCH = "web_search"
    REASONING = "reasoning"
    ASK_USER = "ask_user"
    CODE_EXECUTE = "code_execute"
    RUN_LEGACY_AGENT = "run_legacy_agent"


SEARCHES = frozenset({Action.RAG_SEARCH, Action.WEB_SEARCH})
ANSWERS = frozenset({Action.REASONING, Action.RUN_LEGACY_AGENT})


class StepStatus(StrEnum):
    """The status of a step (P-02)."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"
    SKIPPED = "skipped"


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def create_plan_id(prefix: str = "") -> str:
    """Return a new plan id: 12 lower-case hexadecimal characters (P-06) after the prefix of its plan's scope."""
    return prefix + secrets.token_hex(_RANDOM_CHARS // 2)


def parse_prefix(plan_id: str) -> str:
    """Return the prefix of all datasets and collections that a plan, or its execution, may access; empty: all.

    The prefix is part of the id because the model cannot change the id, replans keep it (P-109), the hashes of the log
    cover it, and a caller without access to the prefix cannot name the execution (ADR 070).
    """
    return plan_id[:-_RANDOM_CHARS]


_RANDOM_CHARS = 12
PlanId = Annotated[str, Field(pattern=r"^([A-Za-z0-9_-]{0,127}-)?[0-9a-f]{12}$")]


class PlanStep(BaseModel):
    """One step of a plan (P-03)."""

    model_config = ConfigDict(frozen=True)

    step_id: int = Field(ge=1, le=MAX_STEP_ID)
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
        """Return the fallback, unless it repeats the action (P-43)."""
        return self.fallback if self.fallback != self.action else None

    @property
    def seconds(self) -> int:
        """Return the seconds that one tool call of this step may take (P-45)."""
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
    collection: str = Field(default="", max_length=200)
    """The collection that the plan was made for; refinements and replans keep it. Empty: any."""

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
        """Return the prefix of all names that the plan may access; empty: all."""
        return parse_prefix(self.plan_id or "")

    def get_step(self, step_id: int) -> PlanStep:
        """Return the step with this id. Raises KeyError."""
        for step in self.steps:
            if step.step_id == step_id:
                return step
        raise KeyError(step_id)

    def find_position(self, step_id: int) -> int:
        """Return the 1-based position of a step in the plan (P-97)."""
        return next(i for i, step in enumerate(self.steps, start=1) if step.step_id == step_id)


def parse_plan(fields: Mapping[str, Any]) -> ExecutionPlan:
    """Return the plan with these fields. Raises InvalidPlan, which names field, value and rule."""
    try:
        return ExecutionPlan.model_validate(fields)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        broken = [item["loc"] for item in errors]
        # A list without its invalid items is too short, which is no second fault.
        faults = [item for item in errors if not any(_is_inside(loc, item["loc"]) for loc in broken)]
        raise InvalidPlan([describe_error(fault, "plan") for fault in faults]) from error


def _is_inside(location: Sequence[int | str], outer: Sequence[int | str]) -> bool:
    return len(location) > len(outer) and tuple(location[: len(outer)]) == tuple(outer)


def replace_steps(plan: ExecutionPlan, steps: Sequence[PlanStep], **changes: Any) -> ExecutionPlan:
    """Return a plan with other steps, validated again; it keeps its id and its query (P-109). Raises InvalidPlan."""
    fields = {**plan.model_dump(exclude={"steps", "estimated_steps"}), **changes}
    return parse_plan({**fields, "steps": [step.model_dump() for step in steps]})


def validate_dependencies(plan: ExecutionPlan, language: Language = "ja") -> list[str]:
    """Return the violations of the rules on step ids and dependencies; empty for a valid plan (P-12)."""
    texts = TEXTS[language]
    ids = {step.step_id for step in plan.steps}
    messages = []
    for step in plan.steps:
        for dependency in step.depends_on:
            if dependency not in ids:
                messages.append(texts.missing_dependency.format(step_id=step.step_id, dependency=dependency))
            if dependency >= step.step_id:
                messages.append(texts.backward_dependency.format(step_id=step.step_id, dependency=dependency))
    repeated = Counter(step.step_id for step in plan.steps)
    messages.extend(texts.repeated_step.format(step_id=step_id) for step_id, count in repeated.items() if count > 1)
    return messages


def find_faults(plan: ExecutionPlan, prefix: str, language: LanguageSetting = "auto") -> list[str]:
    """Return the faults of a plan: of its dependencies (P-12), and names that do not begin with `prefix`."""
    out_of_scope = [
        f"Step {step.step_id}: collection {shorten(step.collection)!r} does not begin with {prefix!r}"
        for step in plan.steps
        if step.collection and not step.collection.startswith(prefix)
    ]
    return validate_dependencies(plan, choose_language(language, plan.original_query)) + out_of_scope


def ensure_plan_id(plan: ExecutionPlan, prefix: str = "") -> ExecutionPlan:
    """Return a plan with a plan id: its own, or a new one (P-06)."""
    return plan if plan.plan_id else plan.model_copy(update={"plan_id": create_plan_id(prefix)})


def prepare_plan(plan: ExecutionPlan, prefix: str = "", language: LanguageSetting = "auto") -> ExecutionPlan:
    """Return a plan with an id that begins with `prefix`.

    Raises InvalidPlan if the plan has an id with another prefix, a step id occurs twice, a step depends on a later one
    (P-144), or a step accesses a name outside of the scope.
    """
    if not (plan.plan_id or prefix).startswith(prefix):
        raise InvalidPlan([f"plan_id {plan.plan_id!r} does not begin with {prefix!r}"])
    identified = ensure_plan_id(plan, prefix)
    if messages := find_faults(identified, identified.prefix, language):
        raise InvalidPlan(messages)
    return identified
