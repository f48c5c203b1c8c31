"""Compute the confidence in the result of a step: factors, weights, penalties, aggregation (P-58 to P-74).

The score is the weighted mean of the measured parts; parts without a measurement are left out, and tool success alone
is no evidence. Without any measurement the score is 0, never a middle value (P-139).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import fsum
from statistics import fmean, pvariance
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_serializer

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Level = Literal["high", "medium", "low", "very_low"]

_SELF_EVALUATION_ENOUGH = 0.8


def clamp01(value: float) -> float:
    """Return a value limited to 0..1."""
    return min(1.0, max(0.0, value))


class ConfidenceFactors(BaseModel):
    """Measurements of a result (P-58); a factor that was set counts as measured, also if it is 0 (P-59)."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    search_result_count: int = Field(default=0, ge=0)
    search_avg_score: float = 0.0
    search_max_score: float = 0.0
    search_score_variance: float = 1.0
    source_agreement: float = 0.0
    source_count: int = Field(default=0, ge=0)
    llm_self_confidence: float = 0.5
    tool_success_rate: float = 1.0
    tool_execution_count: int = Field(default=0, ge=0)
    tool_success_count: int = Field(default=0, ge=0)
    query_coverage: float = 0.0
    is_search_step: bool = False

    @model_serializer
    def _select_supplied(self) -> dict[str, Any]:
        # Presence is part of the value (P-59), so it must survive encoding and decoding.
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}

    def has_any(self, *names: str) -> bool:
        """Return True if one of these factors was set."""
        return not self.model_fields_set.isdisjoint(names)


@dataclass(frozen=True, slots=True)
class ConfidenceWeights:
    """Weights of the parts (P-60); they sum to 1 within 0.01."""

    search_quality: float = 0.25
    source_agreement: float = 0.20
    llm_self_eval: float = 0.25
    tool_success: float = 0.15
    query_coverage: float = 0.15

    def __post_init__(self) -> None:
        total = fsum(getattr(self, f.name) for f in fields(self))
        if not abs(total - 1) <= 0.01:
            raise ValueError(f"Weights must sum to 1.0, got {total}")

    def list_step_weights(self, is_search_step: bool) -> dict[str, float]:
        """Return the weight of each part for a kind of step (P-65)."""
        if is_search_step:
            return {
                "search_quality": 2 * self.search_quality,
                "source_agreement": self.source_agreement,
                "tool_success": self.tool_success,
            }
        return {
            "search_quality": self.search_quality,
            "source_agreement": self.source_agreement,
            "llm_self_eval": 2 * self.llm_self_eval,
            "tool_success": self.tool_success,
            "query_coverage": self.query_coverage,
        }


def confidence_level(score: float) -> Level:
    """Return the word for a score (P-68)."""
    if score >= 0.9:
        return "high"
    if score >= 0.7:
        return "medium"
    return "low" if score >= 0.4 else "very_low"


class ConfidenceScore(BaseModel):
    """A score in 0..1 with its parts and penalties (P-68)."""

    model_config = ConfigDict(frozen=True)

    score: float = Field(ge=0, le=1)
    factors: ConfidenceFactors = ConfidenceFactors()
    breakdown: dict[str, float] = {}
    penalties_applied: tuple[str, ...] = ()
    reason: str = ""

    @property
    def level(self) -> Level:
        """Return the word for the score."""
        return confidence_level(self.score)


@dataclass(frozen=True, slots=True)
class SearchStatistics:
    """Statistics of the scores of hits (P-30)."""

    result_count: int
    avg_score: float
    score_variance: float
    max_score: float
    min_score: float


def compute_search_statistics(scores: Sequence[float]) -> SearchStatistics:
    """Return statistics of hit scores; the variance is that of the population, 1 without hits (P-30)."""
    if not scores:
        return SearchStatistics(0, 0.0, 1.0, 0.0, 0.0)
    return SearchStatistics(len(scores), fmean(scores), pvariance(scores), max(scores), min(scores))


def compute_search_factors(scores: Sequence[float]) -> dict[str, float]:
    """Return the factors of a search by the scores of its hits (P-30)."""
    statistics = compute_search_statistics(scores)
    return {
        "search_result_count": float(statistics.result_count),
        "search_avg_score": statistics.avg_score,
        "search_max_score": statistics.max_score,
        "search_score_variance": statistics.score_variance,
    }


def search_quality(factors: ConfidenceFactors) -> float:
    """Return the quality of the hits, 0..1 (P-61)."""
    if factors.search_result_count == 0 and factors.search_max_score == 0:
        return 0.0
    spread = min(0.15, 0.3 * factors.search_score_variance)
    return clamp01(0.7 * factors.search_max_score + 0.3 * factors.search_avg_score - spread)


def compute_tool_success(factors: ConfidenceFactors) -> float | None:
    """Return the share of tool calls that succeeded; None if it was not measured (P-62)."""
    if factors.tool_execution_count > 0:
        return clamp01(factors.tool_success_count / factors.tool_execution_count)
    return clamp01(factors.tool_success_rate) if factors.has_any("tool_success_rate") else None


def list_measured_parts(factors: ConfidenceFactors) -> dict[str, float]:
    """Return the measured parts, each 0..1 (P-62); empty when only tool success was measured (P-63)."""
    parts: dict[str, float] = {}
    has_search = (
        factors.has_any("search_result_count", "search_max_score", "search_avg_score")
        if factors.is_search_step
        else factors.search_result_count > 0 or factors.search_max_score > 0
    )
    if has_search:
        parts["search_quality"] = search_quality(factors)
    if factors.has_any("source_agreement") and factors.source_count >= 2:
        parts["source_agreement"] = clamp01(factors.source_agreement)
    if factors.has_any("llm_self_confidence") and not factors.is_search_step:
        parts["llm_self_eval"] = clamp01(factors.llm_self_confidence)
    if factors.has_any("query_coverage") and not factors.is_search_step:
        parts["query_coverage"] = clamp01(factors.query_coverage)
    if not parts:
        return {}
    tool = compute_tool_success(factors)
    return parts if tool is None else {**parts, "tool_success": tool}


def _compute_penalties(factors: ConfidenceFactors, tool: float | None) -> list[tuple[str, float]]:
    """Return names and factors of the penalties that apply, in the order of P-66."""
    penalties = []
    if factors.is_search_step and factors.search_result_count == 0:
        penalties.append(("no_search_results", 0.5))
    if tool is not None and tool < 1:
        penalties.append((f"tool_failures(rate={tool:.2f})", 0.8 + 0.2 * tool))
    is_sure_without_sources = (
        factors.has_any("llm_self_confidence") and factors.llm_self_confidence >= _SELF_EVALUATION_ENOUGH
    )
    if not factors.is_search_step and factors.source_count == 0 and not is_sure_without_sources:
        penalties.append(("no_sources", 0.7))
    return penalties


@dataclass(frozen=True, slots=True)
class ConfidenceCalculator:
    """Computes a score from factors."""

    weights: ConfidenceWeights = field(default_factory=ConfidenceWeights)

    def calculate(self, factors: ConfidenceFactors) -> ConfidenceScore:
        """Return the confidence for these factors, 0..1, 3 decimals (P-64 to P-67)."""
        parts = list_measured_parts(factors)
        if not parts:
            return ConfidenceScore(score=0.0, factors=factors, reason="nothing was measured")
        weights = self.weights.list_step_weights(factors.is_search_step)
        total = sum(weights[name] for name in parts)
        score = sum(weights[name] * value for name, value in parts.items()) / total if total > 0 else 0.0
        penalties = _compute_penalties(factors, compute_tool_success(factors))
        for _, penalty in penalties:
            score *= penalty
        return ConfidenceScore(
            score=round(clamp01(score), 3),
            factors=factors,
            breakdown=parts,
            penalties_applied=tuple(name for name, _ in penalties),
            reason=f"{len(parts)} of {len(weights)} parts measured",
        )


_CRITICAL_SCORE = 0.3
_CRITICAL_FACTOR = 0.7


def aggregate(scores: Sequence[float], method: str = "weighted") -> float:
    """Return one value for several steps: `mean`, `min` or `weighted` by position; 0 without scores (P-73)."""
    if method not in ("mean", "min", "weighted"):
        raise ValueError(f"Unknown aggregation method: {method}")
    if not scores:
        return 0.0
    if method == "mean":
        return fmean(scores)
    if method == "min":
        return min(scores)
    return sum(i * score for i, score in enumerate(scores, start=1)) / sum(range(1, len(scores) + 1))


def aggregate_with_critical_check(scores: Sequence[float]) -> tuple[float, bool]:
    """Return the mean, times .7 if any step is below .3, and whether one is (P-74)."""
    mean = aggregate(scores, "mean")
    has_critical = any(score < _CRITICAL_SCORE for score in scores)
    return (mean * _CRITICAL_FACTOR if has_critical else mean), has_critical


def measure_agreement(vectors: NDArray[float32]) -> float:
    """Return the mean pairwise cosine of embeddings, shape (n, d), limited to 0..1; 1 for fewer than two (P-70)."""
    import numpy as np  # only a model's answers are compared

    count = len(vectors)
    if count < 2:
        return 1.0
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    total = float(np.square(unit.sum(axis=0, dtype=np.float64)).sum()) - float(np.square(unit, dtype=np.float64).sum())
    return clamp01(total / (count * (count - 1)))


def compute_final_confidence(
    scores: Sequence[float],
    weights: ConfidenceWeights,
    self_evaluation: float | None = None,
    coverage: float | None = None,
) -> float:
    """Return the confidence in a whole execution (P-56), 3 decimals.

    `scores` are the confidences of the step results in plan order. The two values of the final answer, where measured,
    take their weight from the share of the steps.
    """
    parts = [(weights.llm_self_eval, self_evaluation), (weights.query_coverage, coverage)]
    measured = [(weight, value) for weight, value in parts if value is not None]
    used = sum(weight for weight, _ in measured)
    base = aggregate(scores, "weighted")
    return round(base * (1 - used) + sum(weight * value for weight, value in measured), 3)
