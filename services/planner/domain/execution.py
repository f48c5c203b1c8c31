"""The state of an execution (P-10), and what follows from it: its answer, its confidence, its result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from services.planner.domain.confidence import ConfidenceWeights, final_confidence
from services.planner.domain.events import AnswerOutcome, Budget, Effect, StepFinished
from services.planner.domain.interventions import HistoryEntry, InterventionRequest
from services.planner.domain.plans import ANSWERS, Action, ExecutionPlan, StepStatus
from services.planner.domain.replanning import ReplanTrigger
from services.planner.domain.results import (
    ExecutionResult,
    Hit,
    StepResult,
    ToolResult,
    order_results,
    overall_status,
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool for a step."""

    attempt: int
    action: Action
    key: str
    effect: Effect
    result: ToolResult | None = None
    in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class PlanChangeRequest:
    """What a person, or nobody being there, wants done to the plan before the next step."""

    outcome: AnswerOutcome
    trigger: ReplanTrigger
    step_id: int | None = None
    text: str = ""
    plan: ExecutionPlan | None = None


@dataclass(slots=True)
class ExecutionState:
    """Where an execution is. Changed by `fold.apply` only."""

    plan: ExecutionPlan
    max_replans: int = 3
    current_step_id: int = 0
    step_results: dict[int, StepResult] = field(default_factory=dict)
    step_statuses: dict[int, StepStatus] = field(default_factory=dict)
    is_cancelled: bool = False
    is_paused: bool = False
    intervention_request: InterventionRequest | None = None
    replan_count: int = 0
    start_time: datetime | None = None
    end_time: datetime | None = None

    budget: Budget = field(default_factory=Budget)
    human_available: bool = True
    plan_version: int = 1
    sequence: int = 0
    expires_at: datetime | None = None
    calls: dict[int, tuple[ToolCall, ...]] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    judgements: dict[int, StepFinished] = field(default_factory=dict)
    settled_steps: frozenset[int] = frozenset()
    retries: dict[int, int] = field(default_factory=dict)
    user_inputs: tuple[str, ...] = ()
    information: tuple[str, ...] = ()
    information_pending: bool = False
    plan_change: PlanChangeRequest | None = None
    plan_confirmed: bool = False
    refinements: int = 0
    highest_step_id: int = 0
    last_replan_at: datetime | None = None
    replan_failed: bool = False
    tokens: int = 0
    cost_micro_usd: int = 0
    tool_calls: int = 0
    paused_at: datetime | None = None
    paused_seconds: float = 0.0
    history: tuple[HistoryEntry, ...] = ()
    result: ExecutionResult | None = None

    def __post_init__(self) -> None:
        for step in self.plan.steps:
            self.step_statuses.setdefault(step.step_id, StepStatus.PENDING)
            self.highest_step_id = max(self.highest_step_id, step.step_id)

    @property
    def execution_id(self) -> str:
        """The id of the execution: its plan's."""
        return self.plan.plan_id or ""

    @property
    def overall_confidence(self) -> float:
        """Confidence in the whole so far, 0..1 (P-56)."""
        return self.confidence(ConfidenceWeights())

    def confidence(self, weights: ConfidenceWeights) -> float:
        """Confidence in the whole with these weights; the answer's own values are those of its step (P-57, P-143)."""
        scores = [result.confidence for result in order_results(self.plan, self.step_results)]
        judgement = self.judgements.get(self.answer_step or 0)
        if judgement is None:
            return final_confidence(scores, weights)
        return final_confidence(scores, weights, judgement.self_evaluation, judgement.coverage)

    def can_replan(self) -> bool:
        """Whether a replan is left (P-10)."""
        return self.replan_count < self.max_replans and not self.is_cancelled

    def last_call(self, step_id: int) -> ToolCall | None:
        """The latest call for a step in its present round, if there was one."""
        calls = self.calls.get(step_id)
        return calls[-1] if calls else None

    def used_action(self, step_id: int) -> Action:
        """The action whose output is the step's: its own or its fallback (P-72)."""
        call = self.last_call(step_id)
        return call.action if call else self.plan.step(step_id).action

    def hits(self, step_id: int) -> tuple[Hit, ...]:
        """The hits a step found (P-41); none if it is no search or not successful."""
        call = self.last_call(step_id)
        successful_replan = self.step_statuses.get(step_id) is StepStatus.SUCCESS
        return call.result.hits if successful_replan and call and call.result else ()

    def successful_steps(self) -> list[int]:
        """Ids of the successful steps of the plan, in its order."""
        return [s.step_id for s in self.plan.steps if self.step_statuses[s.step_id] is StepStatus.SUCCESS]

    @property
    def answer_step(self) -> int | None:
        """The last successful step that answers (P-53)."""
        found = [step_id for step_id in self.successful_steps() if self.used_action(step_id) in ANSWERS]
        return found[-1] if found else None

    @property
    def final_answer(self) -> str | None:
        """The answer so far (P-53)."""
        return None if self.answer_step is None else self.step_results[self.answer_step].output

    def wall_seconds(self, now: datetime) -> float:
        """Seconds since the start, pauses left out."""
        if self.start_time is None:
            return 0.0
        paused = self.paused_seconds + ((now - self.paused_at).total_seconds() if self.paused_at else 0.0)
        return max(0.0, ((self.end_time or now) - self.start_time).total_seconds() - paused)

    def ended(self, now: datetime, weights: ConfidenceWeights, *, crash: str | None = None) -> ExecutionResult:
        """The result the execution has if it ends now (P-53 to P-57). `crash`: the text of an unexpected exception."""
        status = overall_status(self.plan, self.step_statuses, cancelled=self.is_cancelled)
        return ExecutionResult(
            plan_id=self.execution_id,
            original_query=self.plan.original_query,
            final_answer=self.final_answer if crash is None else f"実行エラー: {crash}",
            step_results=tuple(order_results(self.plan, self.step_results)),
            overall_confidence=min(1.0, max(0.0, self.confidence(weights))),
            overall_status=status if crash is None else type(status).FAILED,
            replan_count=self.replan_count,
            total_execution_time_ms=round(1000 * (now - (self.start_time or now)).total_seconds()),
            total_token_usage=self.tokens or None,
            total_cost_usd=self.cost_micro_usd / 1e6 if self.cost_micro_usd else None,
            created_at=now,
        )

    def copy(self) -> ExecutionState:
        """A state of its own with the same content, to hand out."""
        same = replace(self)
        for name in ("step_results", "step_statuses", "calls", "attempts", "judgements", "retries"):
            setattr(same, name, dict(getattr(self, name)))
        return same
