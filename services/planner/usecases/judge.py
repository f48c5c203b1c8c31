"""Judge the last call of a step: measure its confidence, then ask the gate (P-62 to P-72, P-75)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from chassis.errors import shorten
from chassis.logging import get_logger
from services.planner.domain.confidence import (
    ConfidenceCalculator,
    ConfidenceFactors,
    ConfidenceScore,
    clamp01,
    compute_search_factors,
    measure_agreement,
)
from services.planner.domain.events import StepFinished
from services.planner.domain.execution import ExecutionState
from services.planner.domain.plans import SEARCHES, Action, StepStatus
from services.planner.domain.results import ToolResult, deduplicate
from services.planner.domain.tools import ToolInput, build_tool_input
from services.planner.prompts.steps import build_judge_prompt
from services.planner.prompts.texts import PROMPTS
from services.planner.usecases.gates import LearningGate
from services.planner.usecases.ports import Completion, CompletionModel, Embedder

_log = get_logger(__name__)

_UNKNOWN = 0.5
_AGREEMENT_TEXTS = 20
_FACTORS_FROM_TOOLS = frozenset({"llm_self_confidence", "query_coverage"})


class StepVerdict(BaseModel):
    """The judgement of a model on the output of one step; the reason comes before the numbers."""

    reason: str = ""
    supported: float = Field(ge=0, le=1, allow_inf_nan=False)
    complete: float = Field(ge=0, le=1, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Results and usage of the model call of a judgement; without a call nothing is measured."""

    self_evaluation: float | None = None
    coverage: float | None = None
    tokens: int = 0
    cost_micro_usd: int = 0

    @property
    def factors(self) -> dict[str, float]:
        """Return the factors that the model measured."""
        values = {"llm_self_confidence": self.self_evaluation, "query_coverage": self.coverage}
        return {name: value for name, value in values.items() if value is not None}


class StepJudge:
    """Judges steps. Without an evaluator or an embedder their parts are not measured and do not count."""

    def __init__(
        self,
        gate: LearningGate,
        calculator: ConfidenceCalculator | None = None,
        *,
        evaluator: CompletionModel | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.gate = gate
        self.calculator = calculator or ConfidenceCalculator()
        self._evaluator = evaluator
        self._embedder = embedder

    def needs_model(self, state: ExecutionState, step_id: int) -> bool:
        """Return True if judging this step calls a model, so that the result must be stored before."""
        call = state.find_last_call(step_id)
        if call is None or call.result is None or not call.result.success:
            return False
        return self._embedder is not None or (self._evaluator is not None and _needs_judge(call.action, call.result))

    async def judge(self, state: ExecutionState, step_id: int, *, skips_model_calls: bool = False) -> StepFinished:
        """Return the judgement of a step. `skips_model_calls`: the budget is used up, so call no model."""
        call = state.find_last_call(step_id)
        if call is None or call.result is None:
            raise ValueError(f"step {step_id} has no result to judge")
        result = call.result
        evaluation = _Evaluation()
        if not result.success:
            score = ConfidenceScore(score=0.0, reason=result.error or "")
        elif call.action is Action.RUN_LEGACY_AGENT:
            score = ConfidenceScore(score=clamp01(result.confidence_factors.get("confidence", 0.0)), reason="P-35")
        else:
            tool_input = build_tool_input(state, state.plan.get_step(step_id), call.action, "")
            texts = [hit.content for hit in (result.hits or tool_input.sources)]
            factors = _collect_factors(state, step_id, call.action, result)
            if not skips_model_calls:
                evaluation = await self._evaluate(state, step_id, call.action, result, tool_input)
                factors |= evaluation.factors
            if len(texts) >= 2 and not skips_model_calls and self._embedder is not None:
                factors["source_agreement"] = await self._compute_agreement(self._embedder, texts)
            score = self.calculator.calculate(ConfidenceFactors(**factors))
        verdict = self.gate.decide(score, call.action.value)
        return StepFinished(
            step_id=step_id,
            status="success" if result.success else "failed",
            confidence=score,
            level=verdict.level,
            thresholds=verdict.thresholds.values,
            calibrated=verdict.calibrated,
            audit_probability=verdict.audit_probability,
            audited=verdict.audited,
            audit_floor=verdict.audit_floor,
            tool=call.action.value,
            self_evaluation=evaluation.self_evaluation,
            coverage=evaluation.coverage,
            token_usage=evaluation.tokens,
            cost_micro_usd=evaluation.cost_micro_usd,
        )

    async def _compute_agreement(self, embedder: Embedder, texts: list[str]) -> float:
        try:
            return measure_agreement(await embedder.embed(texts[:_AGREEMENT_TEXTS]))
        except Exception as error:  # P-70: an error counts as the middle
            _log.warning("computing the agreement of sources failed; using the middle value", error=shorten(str(error)))
            return _UNKNOWN

    async def _evaluate(
        self, state: ExecutionState, step_id: int, action: Action, result: ToolResult, tool_input: ToolInput
    ) -> _Evaluation:
        """Return self-evaluation and coverage of the output of a step, from one call (P-69)."""
        if self._evaluator is None or not result.text or not _needs_judge(action, result):
            return _Evaluation()
        prompt = build_judge_prompt(tool_input, state.plan.get_step(step_id).expected_output, result.text)
        # An error counts as the middle, and as supplied (P-69).
        supported = complete = _UNKNOWN
        usage = Completion("")
        try:
            instruction = PROMPTS[state.language].step_judge
            verdict, usage = await self._evaluator.complete_structured(instruction, prompt, StepVerdict)
            if verdict is not None:
                supported, complete = verdict.supported, verdict.complete
        except Exception as error:
            _log.warning("model did not judge a step; using the middle score", error=shorten(str(error)))
        return _Evaluation(supported, complete, usage.tokens, usage.cost_micro_usd)


def _collect_factors(state: ExecutionState, step_id: int, action: Action, result: ToolResult) -> dict[str, Any]:
    """Return the factors that the executor supplies without a model (P-46, P-71, P-72)."""
    calls = state.calls[step_id]
    # A remote search tool may return text; without hits there is no search to measure.
    is_search = action in SEARCHES and result.text is None
    factors: dict[str, Any] = {
        "tool_execution_count": len(calls),
        "tool_success_count": sum(c.result is not None and c.result.success for c in calls),
        "is_search_step": is_search,
    }
    if is_search:
        factors |= compute_search_factors([hit.score for hit in result.hits])
        factors["source_count"] = len(deduplicate(hit.source for hit in result.hits))
    else:
        factors |= _choose_dependency_factors(state, step_id) | _read_tool_factors(result)
        factors["source_count"] = len(state.list_dependency_sources(step_id))
    return factors


def _choose_dependency_factors(state: ExecutionState, step_id: int) -> dict[str, Any]:
    """Return the quality of the best dependency, for a step without hits of its own (P-46)."""
    scores = [
        state.step_results[d].confidence
        for d in state.plan.get_step(step_id).depends_on
        if state.step_statuses.get(d) is StepStatus.SUCCESS
    ]
    return compute_search_factors([max(scores)]) if scores else {}


def _needs_judge(action: Action, result: ToolResult) -> bool:
    """Return True for a result that is no search and that its tool did not measure itself."""
    return action not in SEARCHES and not _read_tool_factors(result)


def _read_tool_factors(result: ToolResult) -> dict[str, Any]:
    """Return the factors that a tool may measure itself; the planner counts or measures the others."""
    return {name: value for name, value in result.confidence_factors.items() if name in _FACTORS_FROM_TOOLS}
