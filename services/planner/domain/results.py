"""Results of tools, steps and executions (P-08 to P-11, P-54, P-55)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.planner.domain.confidence import aggregate_with_critical_check
from services.planner.domain.plans import ExecutionPlan, StepStatus, utc_now


class Hit(BaseModel):
    """One hit of a search (P-27)."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    id: str = ""
    content: str = ""
    source: str = ""
    score: float = Field(default=0.0, ge=0, le=1)


class HeldCall(BaseModel):
    """A call that waits for a person, because of lessons; `call_key` is equal for equal calls."""

    model_config = ConfigDict(frozen=True)

    tool: str
    call_key: str
    lesson: str


class ToolResult(BaseModel):
    """The result of a tool call (P-11). `output`: hits, a text, the fields of a question (P-34), or None.

    `advice` are the lessons that guards put to the call. With `held_call` the call waits for a person.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    success: bool
    output: tuple[Hit, ...] | str | dict[str, Any] | None = None
    confidence_factors: dict[str, float] = {}
    error: str | None = None
    execution_time_ms: int | None = None
    token_usage: int = Field(default=0, ge=0)
    cost_micro_usd: int = Field(default=0, ge=0)
    timed_out: bool = False
    searched_collections: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    held_call: HeldCall | None = None

    @property
    def hits(self) -> tuple[Hit, ...]:
        """Return the hits; none if the output is not a list of hits."""
        return self.output if isinstance(self.output, tuple) else ()

    @property
    def question(self) -> dict[str, Any] | None:
        """Return the question that waits for a person (P-34); None if the output is none."""
        return self.output if isinstance(self.output, dict) and self.output.get("awaiting_response") is True else None

    @property
    def text(self) -> str | None:
        """Return the text; None if the output is not a text."""
        return self.output if isinstance(self.output, str) else None


def build_failed_result(error: str, *, timed_out: bool = False) -> ToolResult:
    """Return the result of a call that failed."""
    return ToolResult(success=False, error=error, timed_out=timed_out)


class StepResult(BaseModel):
    """The result of a step (P-08)."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    step_id: int
    status: Literal["success", "partial", "failed"]
    output: str | None = None
    confidence: float = Field(ge=0, le=1)
    sources: tuple[str, ...] = ()
    error: str | None = None
    execution_time_ms: int | None = None
    token_usage: int | None = None
    searched_collections: tuple[str, ...] = ()
    created_at: datetime = Field(default_factory=utc_now)


class OverallStatus(StrEnum):
    """The final status of an execution (P-09)."""

    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ExecutionResult(BaseModel):
    """The result of an execution (P-09)."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    plan_id: str
    original_query: str
    final_answer: str | None = None
    step_results: tuple[StepResult, ...] = ()
    overall_confidence: float = Field(ge=0, le=1)
    overall_status: OverallStatus
    replan_count: int = 0
    total_execution_time_ms: int | None = None
    total_token_usage: int | None = None
    total_cost_usd: float | None = None
    reason: str = ""
    created_at: datetime = Field(default_factory=utc_now)

    @property
    def has_critical_step(self) -> bool:
        """Return whether the confidence in a step is critically low (P-74)."""
        return self._critical_check[1]

    @property
    def checked_confidence(self) -> float:
        """Return the mean confidence of the steps, lower if one is critical (P-74)."""
        return self._critical_check[0]

    @property
    def _critical_check(self) -> tuple[float, bool]:
        return aggregate_with_critical_check([result.confidence for result in self.step_results])


def derive_overall_status(plan: ExecutionPlan, statuses: Mapping[int, StepStatus], *, cancelled: bool) -> OverallStatus:
    """Return the final status for these step statuses (P-54); a skipped or missing step is no success (P-134)."""
    if cancelled:
        return OverallStatus.CANCELLED
    step_statuses = [statuses.get(step.step_id, StepStatus.PENDING) for step in plan.steps]
    if all(status is StepStatus.SUCCESS for status in step_statuses):
        return OverallStatus.SUCCESS
    if any(status in (StepStatus.SUCCESS, StepStatus.PARTIAL) for status in step_statuses):
        return OverallStatus.PARTIAL
    return OverallStatus.FAILED


def deduplicate(values: Iterable[str]) -> tuple[str, ...]:
    """Return the different non-empty values, in order of first occurrence (P-42)."""
    return tuple(dict.fromkeys(value for value in values if value))


def order_results(plan: ExecutionPlan, results: Mapping[int, StepResult]) -> Sequence[StepResult]:
    """Return the results of the steps of a plan, in its order (P-55)."""
    return tuple(results[step.step_id] for step in plan.steps if step.step_id in results)
