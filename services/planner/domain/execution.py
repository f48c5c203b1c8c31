"""The state of an execution (P-10), and its answer, confidence and result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from libs.prompts.language import Language, LanguageSetting, choose_language
from services.planner.domain.confidence import ConfidenceWeights, compute_final_confidence
from services.planner.domain.events import AnswerOutcome, Budget, Effect, StepFinished
from services.planner.domain.interventions import HistoryEntry, InterventionRequest
from services.planner.domain.plans import ANSWERS, Action, ExecutionPlan, StepStatus
from services.planner.domain.replanning import ReplanTrigger
from services.planner.domain.results import (
    ExecutionResult,
    HeldCall,
    Hit,
    StepResult,
    ToolResult,
    deduplicate,
    derive_overall_status,
    order_results,
)
from services.planner.domain.texts import TEXTS


@dataclass(frozen=True, slots=True)
class StepToolCall:
    """One call of a tool for a step."""

    attempt: int
    action: Action
    key: str
    effect: Effect
    result: ToolResult | None = None
    in_doubt: bool = False

    @property
    def held_call(self) -> HeldCall | None:
        """Return the call that waits for a person because of a guard, None if none does."""
        return None if self.result is None else self.result.held_call


@dataclass(frozen=True, slots=True)
class PlanChangeRequest:
    """A requested change of the plan, carried out before the next step."""

    outcome: AnswerOutcome
    trigger: ReplanTrigger
    step_id: int | None = None
    text: str = ""
    plan: ExecutionPlan | None = None


@dataclass(slots=True)
class ExecutionState:
    """The state of an execution. Only `fold.apply` changes it."""

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
    language_setting: LanguageSetting = "auto"
    plan_version: int = 1
    sequence: int = 0
    expires_at: datetime | None = None
    calls: dict[int, tuple[StepToolCall, ...]] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    judgements: dict[int, StepFinished] = field(default_factory=dict)
    settled_steps: frozenset[int] = frozenset()
    retries: dict[int, int] = field(default_factory=dict)
    user_inputs: tuple[str, ...] = ()
    information: tuple[str, ...] = ()
    information_pending: bool = False
    plan_change: PlanChangeRequest | None = None
    plan_confirmed: bool = False
    approved_calls: frozenset[str] = frozenset()
    """The keys of the calls that a person approved although a guard held them."""
    refinements: int = 0
    highest_step_id: int = 0
    last_replan_at: datetime | None = None
    replan_failed: bool = False
    replan_failure: str = ""
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
        """Return the id of the execution, which is that of its plan."""
        return self.plan.plan_id or ""

    @property
    def language(self) -> Language:
        """Return the language of all texts for people and models."""
        return choose_language(self.language_setting, self.plan.original_query)

    @property
    def overall_confidence(self) -> float:
        """Return the confidence in the execution so far, 0..1 (P-56)."""
        return self.compute_confidence(ConfidenceWeights())

    def compute_confidence(self, weights: ConfidenceWeights) -> float:
        """Return the confidence with these weights; the values of the answer are those of its step (P-57, P-143)."""
        scores = [result.confidence for result in order_results(self.plan, self.step_results)]
        judgement = self.judgements.get(self.answer_step or 0)
        if judgement is None:
            return compute_final_confidence(scores, weights)
        return compute_final_confidence(scores, weights, judgement.self_evaluation, judgement.coverage)

    def list_dependency_sources(self, step_id: int) -> tuple[str, ...]:
        """Return the sources of the results that a step depends on."""
        results = [self.step_results.get(dependency) for dependency in self.plan.get_step(step_id).depends_on]
        return deduplicate(source for result in results if result for source in result.sources)

    def can_replan(self) -> bool:
        """Return True if another replan is allowed (P-10)."""
        return self.replan_count < self.max_replans and not self.is_cancelled

    def find_last_call(self, step_id: int) -> StepToolCall | None:
        """Return the latest call of a step in its present round, None if there was none."""
        calls = self.calls.get(step_id)
        return calls[-1] if calls else None

    def find_used_action(self, step_id: int) -> Action:
        """Return the action that gave the output of a step: its own or its fallback (P-72)."""
        call = self.find_last_call(step_id)
        return call.action if call else self.plan.get_step(step_id).action

    def list_hits(self, step_id: int) -> tuple[Hit, ...]:
        """Return the hits of a step (P-41); none if it is no search or did not succeed."""
        call = self.find_last_call(step_id)
        has_succeeded = self.step_statuses.get(step_id) is StepStatus.SUCCESS
        return call.result.hits if has_succeeded and call and call.result else ()

    def list_successful_steps(self) -> list[int]:
        """Return the ids of the successful steps of the plan, in its order."""
        return [s.step_id for s in self.plan.steps if self.step_statuses[s.step_id] is StepStatus.SUCCESS]

    @property
    def answer_step(self) -> int | None:
        """Return the last successful step that answers (P-53)."""
        answering = (
            step_id for step_id in reversed(self.list_successful_steps()) if self.find_used_action(step_id) in ANSWERS
        )
        return next(answering, None)

    @property
    def final_answer(self) -> str | None:
        """Return the answer so far (P-53)."""
        return None if self.answer_step is None else self.step_results[self.answer_step].output

    def compute_wall_seconds(self, now: datetime) -> float:
        """Return the seconds since the start without the pauses."""
        if self.start_time is None:
            return 0.0
        paused = self.paused_seconds + ((now - self.paused_at).total_seconds() if self.paused_at else 0.0)
        return max(0.0, ((self.end_time or now) - self.start_time).total_seconds() - paused)

    def make_result(
        self, now: datetime, weights: ConfidenceWeights, *, reason: str = "", crash: str | None = None
    ) -> ExecutionResult:
        """Return the result of an execution that ends now (P-53 to P-57).

        `reason` names the limit that ended it, `crash` is the text of an exception.
        """
        status = derive_overall_status(self.plan, self.step_statuses, cancelled=self.is_cancelled)
        return ExecutionResult(
            plan_id=self.execution_id,
            original_query=self.plan.original_query,
            final_answer=self.final_answer if crash is None else TEXTS[self.language].crash.format(error=crash),
            step_results=tuple(order_results(self.plan, self.step_results)),
            overall_confidence=min(1.0, max(0.0, self.compute_confidence(weights))),
            overall_status=status if crash is None else type(status).FAILED,
            replan_count=self.replan_count,
            total_execution_time_ms=round(1000 * (now - (self.start_time or now)).total_seconds()),
            total_token_usage=self.tokens or None,
            total_cost_usd=self.cost_micro_usd / 1e6 if self.cost_micro_usd else None,
            reason=reason or self.replan_failure,
            created_at=now,
        )

    def copy(self) -> ExecutionState:
        """Return a state with the same content that changes independently."""
        names = ("step_results", "step_statuses", "calls", "attempts", "judgements", "retries")
        copies: dict[str, Any] = {name: dict(getattr(self, name)) for name in names}
        return replace(self, **copies)
